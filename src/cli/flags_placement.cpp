// Flags of the peer that place work on GPUs, cores and memory nodes. None has an effect: one CPU backend is built in,
// and it places its threads itself. They are accepted so that a command line written for the peer runs unchanged.
#include <fmt/format.h>

#include "cli/flag_values.h"
#include "cli/flags.h"

namespace foresay::cli {
namespace {

constexpr const char* kNoGpu = "no GPU backend is built in";
constexpr const char* kThreads = "threads are placed by the operating system";

Flag gpu(std::vector<std::string> names, std::string env, std::string value, std::string help, Setter check) {
    return {.names = std::move(names),
            .env = std::move(env),
            .value = std::move(value),
            .help = std::move(help),
            .note = kNoGpu,
            .set = std::move(check),
            .support = Support::kNoEffect};
}

Flag cores(std::vector<std::string> names, std::string value, std::string help, Setter check) {
    return {.names = std::move(names),
            .value = std::move(value),
            .help = std::move(help),
            .note = kThreads,
            .set = std::move(check),
            .support = Support::kNoEffect};
}

/// The five flags of one kind of work. short_suffix, long_suffix: "d", "-draft" and so on; spec: the --spec-draft
/// spelling too.
void add_cores(std::vector<Flag>* flags, const std::string& short_suffix, const std::string& long_suffix,
               const std::string& spec) {
    const auto names = [&](const std::string& letter, const std::string& word) {
        std::vector<std::string> all;
        if (!letter.empty()) {
            all.push_back("-" + letter + short_suffix);
        }
        all.push_back("--" + word + long_suffix);
        if (!spec.empty()) {
            all.push_back("--spec-draft-" + word + spec.substr(1));
        }
        return all;
    };
    flags->push_back(cores(names("C", "cpu-mask"), "MASK", "cores, as a mask", check_anything()));
    flags->push_back(cores(names("Cr", "cpu-range"), "LOW-HIGH", "cores, as a range", check_anything()));
    flags->push_back(cores(names("", "cpu-strict"), "0|1", "strict placement", check_int(0, 1)));
    flags->push_back(cores(names("", "prio"), "N", "priority of threads", check_int(-1, 3)));
    flags->push_back(cores(names("", "poll"), "N", "how much waiting threads poll", check_int(0, 100)));
}

}  // namespace

FlagGroup placement_flags() {
    FlagGroup group{
        "Placement on GPUs and cores",
        {
            gpu({"-ngl", "--gpu-layers", "--n-gpu-layers"}, "LLAMA_ARG_N_GPU_LAYERS", "N|auto|all", "layers on the GPU",
                check_layers()),
            gpu({"-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft", "--spec-draft-ngl"},
                "LLAMA_ARG_N_GPU_LAYERS_DRAFT", "N|auto|all", "layers of the drafter on the GPU", check_layers()),
            gpu({"-devd", "--device-draft", "--spec-draft-device"}, "", "LIST", "devices of the drafter",
                check_anything()),
            gpu({"-sm", "--split-mode"}, "LLAMA_ARG_SPLIT_MODE", "MODE", "how a model is split over GPUs",
                check_anything()),
            gpu({"-ts", "--tensor-split"}, "LLAMA_ARG_TENSOR_SPLIT", "LIST", "shares of the GPUs", check_anything()),
            gpu({"-mg", "--main-gpu"}, "LLAMA_ARG_MAIN_GPU", "N", "the GPU for small tensors", check_int(0, 1024)),
            {.names = {"-kvo", "--kv-offload"},
             .negated = {"-nkvo", "--no-kv-offload"},
             .env = "LLAMA_ARG_KV_OFFLOAD",
             .help = "KV cache on the GPU",
             .note = kNoGpu,
             .set = check_bool(),
             .support = Support::kNoEffect},
            {.names = {"--op-offload"},
             .negated = {"--no-op-offload"},
             .help = "operations on the GPU",
             .note = kNoGpu,
             .set = check_bool(),
             .support = Support::kNoEffect},
            gpu({"-ot", "--override-tensor"}, "LLAMA_ARG_OVERRIDE_TENSOR", "LIST", "devices of tensors",
                check_anything()),
            gpu({"-otd", "--override-tensor-draft", "--spec-draft-override-tensor"}, "", "LIST",
                "devices of the drafter's tensors", check_anything()),
            gpu({"-cmoe", "--cpu-moe"}, "LLAMA_ARG_CPU_MOE", "", "experts on the CPU", check_anything()),
            gpu({"-ncmoe", "--n-cpu-moe"}, "LLAMA_ARG_N_CPU_MOE", "N", "layers whose experts are on the CPU",
                check_int(0, kMaxInt)),
            gpu({"-cmoed", "--cpu-moe-draft", "--spec-draft-cpu-moe"}, "LLAMA_ARG_SPEC_DRAFT_CPU_MOE", "",
                "the drafter's experts on the CPU", check_anything()),
            gpu({"-ncmoed", "--spec-draft-ncmoe", "--n-cpu-moe-draft", "--spec-draft-n-cpu-moe"},
                "LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE", "N", "layers of the drafter whose experts are on the CPU",
                check_int(0, kMaxInt)),
            gpu({"-fit", "--fit"}, "LLAMA_ARG_FIT", "on|off", "fit the model into the GPU's memory",
                check_choice({"on", "off"})),
            gpu({"-fitt", "--fit-target"}, "LLAMA_ARG_FIT_TARGET", "MIB", "memory to leave free", check_anything()),
            gpu({"-fitc", "--fit-ctx"}, "LLAMA_ARG_FIT_CTX", "N", "least context when fitting", check_int(0, kMaxInt)),
            {.names = {"-lzm", "--lazy-mode"},
             .env = "LLAMA_ARG_LAZY_MODE",
             .value = "MODE",
             .help = "when weights are read",
             .note = "weights are read at load",
             .set = check_anything(),
             .support = Support::kNoEffect},
            {.names = {"--numa"},
             .env = "LLAMA_ARG_NUMA",
             .value = "TYPE",
             .help = "placement on memory nodes",
             .note = kThreads,
             .set = check_choice({"distribute", "isolate", "numactl"}),
             .support = Support::kNoEffect},
        }};
    add_cores(&group.flags, "", "", "");
    add_cores(&group.flags, "b", "-batch", "");
    add_cores(&group.flags, "d", "-draft", "-");
    add_cores(&group.flags, "bd", "-batch-draft", "--batch");
    return group;
}

}  // namespace foresay::cli
