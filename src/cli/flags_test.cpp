// The table itself: every flag of the peer is there, has what its kind needs, and --help and README agree with it.
#include "cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "cli/help.h"

namespace foresay::cli {
namespace {

using testing::HasSubstr;

TEST(FlagTable, EveryRowHasWhatItsKindNeeds) {
    std::set<std::string> variables;
    for (const FlagGroup& group : flag_groups()) {
        for (const Flag& flag : group.flags) {
            ASSERT_FALSE(flag.names.empty());
            const bool takes_effect = flag.support == Support::kWorks || flag.support == Support::kNoEffect;
            EXPECT_EQ(static_cast<bool>(flag.set), takes_effect) << flag.canonical();
            EXPECT_NE(flag.commands, 0U) << flag.canonical();
            if (flag.support == Support::kNoEffect || flag.support == Support::kRenamed ||
                flag.support == Support::kRemoved) {
                EXPECT_FALSE(flag.note.empty()) << flag.canonical();
            }
            if (flag.support == Support::kRenamed) {
                EXPECT_NE(find_flag(flag.note).flag, nullptr) << flag.canonical();
            }
            if (!flag.env.empty()) {
                EXPECT_TRUE(variables.insert(flag.env).second) << flag.env;
            }
            for (const std::string& name : flag.names) {
                EXPECT_EQ(name[0], '-');
                EXPECT_EQ(find_flag(name, flag.commands).flag, &flag) << name;
            }
        }
    }
}

// Sections 15 of server-api.md and 18 of draft-models.md, spelled out: a flag that gets lost from the table fails here.
TEST(FlagTable, HoldsEveryFlagOfThePeer) {
    std::istringstream names(
        "-m --model -mu --model-url -hf -hfr --hf-repo -hff --hf-file -hft --hf-token --offline -a --alias --tags -c "
        "--ctx-size "
        "-np --parallel -kvu --kv-unified --no-kv-unified --kv-unified-per-slot -n --predict --n-predict -b "
        "--batch-size -ub "
        "--ubatch-size --keep --context-shift --no-context-shift -t --threads -tb --threads-batch -C -Cr --cpu-mask "
        "--cpu-range "
        "--cpu-strict --prio --poll -Cb -Crb --cpu-mask-batch --cpu-range-batch --cpu-strict-batch --prio-batch "
        "--poll-batch -ngl "
        "--gpu-layers --n-gpu-layers -dev --device --list-devices -sm -ts -mg -fa --flash-attn -ctk -ctv "
        "--cache-type-k "
        "--cache-type-v -lm --load-mode --mlock --mmap --no-mmap --repack --no-repack -nr --check-tensors "
        "--override-kv --numa "
        "-lzm -kvo -nkvo -ot -cmoe -ncmoe -fit -fitt -fitc --rope-scaling --rope-scale --rope-freq-base "
        "--rope-freq-scale "
        "--yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast --swa-full -ctxcp "
        "--ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step --lora --lora-scaled --lora-init-without-apply "
        "--control-vector --warmup --no-warmup --host --port --api-prefix --path --reuse-port --ui --webui --no-ui "
        "--no-webui "
        "--api-key --api-key-file --ssl-key-file --ssl-cert-file --cors-origins --cors-methods --cors-headers "
        "--cors-credentials "
        "-to --timeout --threads-http --sse-ping-interval --metrics --props --slots --no-slots --slot-save-path "
        "--cache-prompt "
        "--no-cache-prompt --cache-reuse -cram --cache-ram --cache-idle-slots --no-cache-idle-slots -sps "
        "--slot-prompt-similarity -cb -nocb --cont-batching --no-cont-batching --embedding --embeddings --rerank "
        "--reranking "
        "--pooling --embd-normalize --jinja --no-jinja --chat-template --chat-template-file --chat-template-kwargs "
        "--reasoning-format -rea --reasoning --reasoning-effort --reasoning-budget --reasoning-budget-message "
        "--prefill-assistant --no-prefill-assistant --skip-chat-parsing --no-skip-chat-parsing -r --reverse-prompt -sp "
        "--special "
        "--spm-infill -e --escape --no-escape --sleep-idle-seconds -lv --verbosity --log-verbosity -v --verbose "
        "--log-verbose "
        "--log-file --log-disable --log-jsonl --log-colors --log-prefix --no-log-prefix --log-timestamps "
        "--no-log-timestamps "
        "--log-prompts-dir --samplers --sampler-seq --sampling-seq -s --seed --temp --temperature --top-k --top-p "
        "--min-p "
        "--top-nsigma --top-n-sigma --xtc-probability --xtc-threshold --typical --typical-p --repeat-last-n "
        "--repeat-penalty "
        "--presence-penalty --frequency-penalty --dry-multiplier --dry-base --dry-allowed-length --dry-penalty-last-n "
        "--dry-sequence-breaker --adaptive-target --adaptive-decay --dynatemp-range --dynatemp-exp --mirostat "
        "--mirostat-lr "
        "--mirostat-ent -l --logit-bias --ignore-eos --grammar --grammar-file -j --json-schema -jf -bs "
        "--backend-sampling "
        "--spec-type -md --model-draft --spec-draft-model -hfd -hfrd --hf-repo-draft --spec-draft-hf "
        "--spec-draft-n-max "
        "--spec-draft-n-min --spec-draft-n-min-adaptive --spec-draft-p-min --draft-p-min --spec-draft-p-split "
        "--draft-p-split "
        "--spec-draft-sampling "
        "--spec-draft-backend-sampling --no-spec-draft-backend-sampling -td --threads-draft --spec-draft-threads -tbd "
        "--threads-batch-draft --spec-draft-threads-batch -ngld --gpu-layers-draft --n-gpu-layers-draft "
        "--spec-draft-ngl -devd "
        "--device-draft --spec-draft-device -ctkd -ctvd --cache-type-k-draft --cache-type-v-draft --spec-draft-type-k "
        "--spec-draft-type-v -Cd --cpu-mask-draft --spec-draft-cpu-mask -Crd --cpu-range-draft --spec-draft-cpu-range "
        "--cpu-strict-draft --spec-draft-cpu-strict --prio-draft --spec-draft-prio --poll-draft --spec-draft-poll -Cbd "
        "--cpu-mask-batch-draft --spec-draft-cpu-mask-batch -Crbd --cpu-range-batch-draft --cpu-strict-batch-draft "
        "--spec-draft-cpu-strict-batch --prio-batch-draft --spec-draft-prio-batch --poll-batch-draft "
        "--spec-draft-poll-batch "
        "-otd --override-tensor-draft --spec-draft-override-tensor -cmoed --cpu-moe-draft --spec-draft-cpu-moe -ncmoed "
        "--n-cpu-moe-draft --spec-draft-ncmoe --spec-draft-n-cpu-moe --spec-ngram-mod-n-match --spec-ngram-mod-n-min "
        "--spec-ngram-mod-n-max --spec-ngram-simple-size-n --spec-ngram-simple-size-m --spec-ngram-simple-min-hits "
        "--spec-ngram-map-k-size-n --spec-ngram-map-k-size-m --spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n "
        "--spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-min-hits -lcs --lookup-cache-static -lcd "
        "--lookup-cache-dynamic "
        "--spec-synth-len --spec-synth-rates --spec-default --spec-draft-relaxed-top-n --draft --draft-n --draft-max "
        "--draft-min "
        "--draft-n-min --spec-ngram-size-n --spec-ngram-size-m --spec-ngram-min-hits --fim-qwen-7b-spec "
        "--fim-qwen-14b-spec "
        "--gpt-oss-20b-default --mtp --dflash --eagle3 --nextn -h --help --usage --version --mmproj --cpu-isa --json "
        "--depths --against "
        "--ids");
    std::string name;
    while (names >> name) {
        EXPECT_NE(find_flag(name).flag, nullptr) << name;
    }
}

TEST(Help, ListsEveryFlagWithDefaultVariableAndMark) {
    const std::string help = full_help(kAnyCommand);
    for (const FlagGroup& group : flag_groups()) {
        EXPECT_THAT(help, HasSubstr(group.title + ":\n"));
        for (const Flag& flag : group.flags) {
            EXPECT_THAT(help, HasSubstr(flag_help(flag)));
            EXPECT_FALSE(flag.help.empty() && flag.support == Support::kWorks && flag.fallback.empty())
                << flag.canonical();
        }
    }
    EXPECT_THAT(flag_help(*find_flag("-ngl").flag), HasSubstr("[no effect: no GPU backend is built in]"));
    EXPECT_THAT(flag_help(*find_flag("--lora").flag), HasSubstr("[not supported yet]"));
    EXPECT_THAT(flag_help(*find_flag("-c").flag),
                testing::AllOf(HasSubstr("default: 4096"), HasSubstr("LLAMA_ARG_CTX_SIZE")));
}

TEST(Help, OfACommandListsOnlyItsFlags) {
    EXPECT_THAT(full_help(kRun), HasSubstr("--compare-plain"));
    EXPECT_THAT(full_help(kRun), testing::Not(HasSubstr("--port")));
    EXPECT_THAT(full_help(kServe), testing::Not(HasSubstr("--compare-plain")));
}

TEST(Help, LinesStayWithinTheirWidth) {
    std::istringstream lines(full_help(kAnyCommand));
    std::string line;
    while (std::getline(lines, line)) {
        EXPECT_LE(line.size(), 125U) << line;
    }
}

TEST(Readme, NamesOnlyFlagsOfTheTable) {
    std::ifstream file("README.md");
    ASSERT_TRUE(file) << "tests run in the root of the repository";
    std::ostringstream text;
    text << file.rdbuf();
    const std::string readme = text.str();
    int n_found = 0;
    // Flags are written as `--name` or `-n`. By hand: std::regex sets off a false warning of g++ 12 under the
    // sanitizers.
    for (size_t at = readme.find("`-"); at != std::string::npos; at = readme.find("`-", at + 1)) {
        const size_t end = readme.find_first_of("` =", at + 1);
        const std::string name = readme.substr(at + 1, end - at - 1);
        EXPECT_NE(find_flag(name).flag, nullptr) << name;
        ++n_found;
    }
    EXPECT_GT(n_found, 10);
}

TEST(Suggestions, AreCloseOrAbsent) {
    EXPECT_EQ(nearest_flag("--prot", kServe), "--port");
    EXPECT_EQ(nearest_flag("--spec_draft_n_mx", kServe), "--spec-draft-n-max");
    EXPECT_EQ(nearest_flag("--zzzzzzzz", kServe), "");
    EXPECT_EQ(nearest_flag("-x", kServe), "");
}

}  // namespace
}  // namespace foresay::cli
