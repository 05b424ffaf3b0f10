// Creating the engine: backend, model, drafter, the start-up line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "base/log.h"
#include "engine/engine_impl.h"
#include "engine/slot_file.h"
#include "engine/spec_settings.h"
#include "model/cost_curve.h"
#include "spec/drafters/draft_simple.h"
#include "spec/drafters/make.h"
#include "spec/pair.h"

namespace foresay::engine {

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options) {
    FORESAY_TRY(auto engine, EngineImpl::create(options));
    return std::unique_ptr<Engine>(std::move(engine));
}

namespace {

Status check_options(const EngineOptions& o) {
    const auto refuse = [](std::string message, std::string flag) {
        return error(Code::kInvalidArgument, std::move(message), std::move(flag));
    };
    if (o.model.empty()) {
        return error(Code::kInvalidArgument, "no model given", "--model", "name a GGUF file with -m FILE");
    }
    if (o.n_parallel < 1 || o.n_parallel > 256) {
        return refuse(fmt::format("{} slots are outside 1..256", o.n_parallel), "--parallel");
    }
    if (o.n_ctx < 0) {
        return refuse(fmt::format("a context of {} tokens is impossible", o.n_ctx), "--ctx-size");
    }
    if (o.n_batch < 1 || o.n_ubatch < 1) {
        return refuse("batch sizes must be at least 1", o.n_batch < 1 ? "--batch-size" : "--ubatch-size");
    }
    if (o.n_threads < 0 || o.n_threads > 512) {
        return refuse(fmt::format("{} threads are outside 0..512", o.n_threads), "--threads");
    }
    return check_spec(o.spec);
}

}  // namespace

Result<std::unique_ptr<EngineImpl>> EngineImpl::create(const EngineOptions& options) {
    FORESAY_CHECK_OK(check_options(options));
    std::unique_ptr<EngineImpl> engine(new EngineImpl);
    engine->options_ = options;
    FORESAY_CHECK_OK(engine->load());
    FORESAY_CHECK_OK(engine->load_drafters());
    FORESAY_CHECK_OK(engine->prepare_embeddings());
    engine->describe();
    engine->thread_ = std::thread([raw = engine.get()] { raw->run(); });
    return engine;
}

Status EngineImpl::load() {
    cpu::CpuOptions cpu_options;
    cpu_options.n_threads = options_.n_threads;
    cpu_options.isa = options_.cpu_isa;
    cpu_options.repack = options_.repack;
    if (!options_.repack) {
        log::warn(
            "--no-repack: every pass rearranges the weights that it reads, which costs several times what the product "
            "does");
    }
    if (options_.device == "reference") {
        backends_.push_back(reference::ReferenceBackend::create());
        info_.cpu_isa = "reference";
        info_.n_threads = 1;
    } else if (options_.device == "cpu") {
        FORESAY_TRY(auto cpu, cpu::CpuBackend::create(cpu_options));
        info_.cpu_isa = std::string(cpu::isa_name(cpu->isa()));
        info_.n_threads = cpu->n_threads();
        if (cpu::amx_is_refused()) {
            log::warn("the system refuses AMX to this process: the AVX-512 kernels do its work");
        }
        backends_.push_back(std::move(cpu));
    } else {
        return error(Code::kInvalidArgument, fmt::format("device '{}' does not exist", options_.device), "--device",
                     "use cpu or reference");
    }
    model::LoadOptions load_options;
    if (options_.progress) {
        load_options.progress = [this](float fraction) { options_.progress("loading model", fraction); };
    }
    FORESAY_TRY(auto model, model::Model::load(options_.model, *backends_.front(), load_options));
    if (const auto* cpu = dynamic_cast<const cpu::CpuBackend*>(backends_.front().get()); cpu != nullptr) {
        log::info("weights: {}", cpu->weights_summary());
    }
    vocab_ = model->vocab();
    grammars_ = std::make_unique<grammar::Library>(vocab_);

    const int32_t n_ctx = options_.n_ctx == 0 ? model->hparams().n_ctx_train : options_.n_ctx;
    // Rounded up to 256 cells, as llama-server does, so that small contexts behave alike.
    const int32_t n_ctx_slot = std::max(256, (n_ctx / options_.n_parallel + 255) / 256 * 256);
    model::RunnerOptions runner_options;
    runner_options.n_slots = options_.n_parallel;
    runner_options.n_ctx_slot = n_ctx_slot;
    runner_options.type_k = options_.cache_type_k;
    runner_options.type_v = options_.cache_type_v;
    if (model->hparams().has_state() && options_.context_shift) {
        return error(Code::kUnsupported,
                     fmt::format("the recurrent state of a {} model can't be shifted", model->hparams().arch),
                     "--context-shift", "leave the flag out");
    }
    runner_options.n_rollback = options_.spec.any() ? options_.spec.n_max : 0;
    for (const SpecType type : options_.spec.types) {
        if (!spec::is_draft_model(type)) {
            runner_options.n_rollback =
                std::max(runner_options.n_rollback, spec::ngram_n_max(type, options_.spec.ngram));
        }
    }
    FORESAY_TRY(runner_, model::Runner::create(std::move(model), {backends_.front().get()}, runner_options));
    if (runner_->state_bytes() > 0) {
        const memory::StateCache& state = *runner_->state();
        log::info(
            "recurrent state: {} MiB, {} snapshots of {} KiB for {} slots; grows when a verify batch needs more, to {} "
            "MiB "
            "when all slots draft {} tokens at once",
            state.bytes() >> 20, state.n_cells(), state.cell_bytes() >> 10, options_.n_parallel,
            (state.bytes() + static_cast<size_t>(state.most_cells() - state.n_cells()) * state.cell_bytes()) >> 20,
            runner_->max_rollback());
    }
    metrics_.state_bytes = runner_->state_bytes();
    slots_.resize(static_cast<size_t>(options_.n_parallel));
    for (size_t i = 0; i < slots_.size(); ++i) {
        slots_[i].id = static_cast<int>(i);
        snapshots_.emplace_back();
        publish(slots_[i]);
    }
    return ok();
}

Status EngineImpl::load_drafters() {
    SpecOptions& spec = options_.spec;
    std::shared_ptr<const gguf::File> file;
    const auto needs_file =
        spec.types.empty() || std::any_of(spec.types.begin(), spec.types.end(), spec::is_draft_model);
    if (needs_file && !spec.draft_model.empty()) {
        auto opened = gguf::File::open(spec.draft_model);
        if (!opened.has_value()) {
            return std::move(opened).error().context("--spec-draft-model");
        }
        file = std::move(*opened);
    }
    if (spec.types.empty() && file != nullptr) {
        // A drafter that is named is meant to draft; its file says how.
        spec.types.push_back(spec::spec_type_of(spec::detect_type(*file)).value_or(SpecType::kDraftSimple));
        log::info("--spec-draft-model without --spec-type: using {}", spec::name_of(spec.types.back()));
    }
    spec.types = spec::in_order(std::move(spec.types));
    if (std::count_if(spec.types.begin(), spec.types.end(), spec::is_draft_model) > 1) {
        return error(
            Code::kInvalidArgument,
            fmt::format("{}: two types that run a draft model can't be combined", spec::join_names(spec.types)),
            "--spec-type", "keep one of them; n-gram types may stand beside it");
    }
    auto chain = std::make_unique<spec::Chain>();
    for (const SpecType type : spec.types) {
        if (spec::is_draft_model(type)) {
            FORESAY_TRY(auto drafter, load_draft_model(type, file));
            FORESAY_CHECK_OK(drafter->check_p_min(spec.p_min));
            if (spec.probabilistic.value_or(false) && !drafter->can_draw()) {
                log::warn("--spec-draft-sampling probabilistic: {} can't draw its tokens, it drafts greedily",
                          drafter->name());
            }
            log::info("{}: {} KiB of weights and caches", drafter->name(), drafter->memory_bytes() / 1024);
            if (spec.n_max > drafter->n_max_limit()) {
                log::warn("{} drafts at most {} tokens: --spec-draft-n-max {} is cut to that", drafter->name(),
                          drafter->n_max_limit(), spec.n_max);
            }
            chain->add(std::move(drafter), spec.n_max, true);
        } else {
            FORESAY_TRY(auto drafter,
                        spec::make_ngram(type, spec.ngram, runner_->kv().n_ctx_slot(), vocab_->n_tokens()));
            chain->add(std::move(drafter), spec::ngram_n_max(type, spec.ngram), false);
        }
    }
    if (!chain->empty()) {
        FORESAY_CHECK_OK(runner_->set_taps(chain->taps()));
        drafter_ = std::move(chain);
        for (const Slot& slot : slots_) {
            publish(slot);  // it drafts from now on, also where no request has come yet
        }
        std::vector<spec::DraftCost> kinds;
        for (size_t i = 0; i < drafter_->size(); ++i) {
            kinds.push_back(drafter_->cost_of(i));
        }
        controller_ = std::make_unique<spec::Controller>(slots_.size(), kinds);
        drafter_->set_planner([this](int drafter, std::span<spec::DraftRequest> requests) { plan(drafter, requests); });
        FORESAY_CHECK_OK(measure_target());
    }
    return ok();
}

/// What verifying costs on this machine, before the first request: the controller knows what pays from the start.
Status EngineImpl::measure_target() {
    if (!options_.spec.adaptive || drafter_->n_max() == 0) {
        return ok();  // a request that asks for it all the same learns as it goes
    }
    constexpr int32_t kRounds = 3;
    constexpr int32_t kWidest = 16;  // a wider pass takes as long as reading a prompt
    const int32_t most = std::min({kWidest, runner_->kv().n_ctx_slot(), drafter_->n_max() + 1});
    std::vector<int32_t> widths;
    for (int32_t n = 1; n <= most; n *= 2) {
        widths.push_back(n);
    }
    FORESAY_TRY(const auto curve, model::measure_cost_curve(*runner_, widths, kRounds, 0));
    runner_->forget(0);  // the passes ran in slot 0
    std::string line;
    const double first_ms = std::max(curve.front().p10_ms, 1e-9);
    double ms = first_ms;
    for (const model::CostPoint& point : curve) {
        // The best of the rounds, and never below a narrower pass: what else ran on the machine must not bend the
        // curve.
        ms = std::max(ms, point.p10_ms);
        for (int i = 0; i < 3; ++i) {
            controller_->observe_pass(point.n, ms);  // often enough to be trusted
        }
        line += fmt::format(" R({}) {:.2f}", point.n, ms / first_ms);
    }
    log::info("cost of a pass: t(1) {:.2f} ms,{}", first_ms, line);
    return ok();
}

Result<std::unique_ptr<spec::Drafter>> EngineImpl::load_draft_model(SpecType type,
                                                                    std::shared_ptr<const gguf::File> file) {
    const SpecOptions& spec = options_.spec;
    const std::string_view name = spec::name_of(type);
    // draft-mtp without a file of its own: a NextN block inside the target's.
    const bool inside = spec.draft_model.empty() && type == SpecType::kDraftMtp;
    if (spec.draft_model.empty() && !inside) {
        return error(Code::kInvalidArgument, fmt::format("{} needs a draft model", name), "--spec-type",
                     "name one with --spec-draft-model FILE");
    }
    const std::string flag = inside ? "--spec-type draft-mtp" : fmt::format("--spec-draft-model {}", spec.draft_model);
    const auto in_file = [&](Error cause) { return std::move(cause).context(flag); };
    if (inside) {
        file = runner_->model().shared_file();
    }
    model::LoadOptions load_options;
    {
        const spec::PairReport pair = spec::check_pair(runner_->model().file(), *file, name);
        if (!pair.fits()) {
            return error(
                Code::kInvalidArgument,
                fmt::format("the drafter doesn't fit the target: {}", fmt::join(pair.problems, "; ")), flag,
                inside ? "name a drafter with --spec-draft-model FILE" : "foresay pair TARGET DRAFTER says more");
        }
        for (const std::string& note : pair.notes) {
            log::info("{}: {}", name, note);
        }
        if (pair.nextn) {
            load_options.nextn_base = runner_->shared_model();
        }
    }
    if (options_.progress) {
        load_options.progress = [this](float fraction) { options_.progress("loading drafter", fraction); };
    }
    auto model = model::Model::load(std::move(file), *backends_.front(), load_options);
    if (!model.has_value()) {
        return in_file(std::move(model).error());
    }
    draft_fingerprint_ = model_fingerprint((*model)->file());
    const std::string label = fmt::format("{} n_max={}", name, spec.n_max);
    if (type == SpecType::kDraftSimple) {
        model::RunnerOptions runner_options;
        runner_options.n_slots = options_.n_parallel;
        runner_options.n_ctx_slot = runner_->kv().n_ctx_slot();
        runner_options.n_rollback = spec.n_max + 1;
        runner_options.rollback_window = runner_options.n_rollback;  // it drafts token by token, a pass for each
        runner_options.type_k = spec.draft_cache_type_k;
        runner_options.type_v = spec.draft_cache_type_v;
        runner_options.label = label;
        auto runner = model::Runner::create(std::move(*model), {backends_.front().get()}, runner_options);
        if (!runner.has_value()) {
            return in_file(std::move(runner).error());
        }
        FORESAY_TRY(auto drafter,
                    spec::DraftSimple::create(std::move(*runner), vocab_, options_.n_ubatch, spec.draft_vocab));
        return std::unique_ptr<spec::Drafter>(std::move(drafter));
    }
    spec::FeatureDrafterSetup setup;
    setup.draft = std::move(*model);
    setup.target = runner_->shared_model();
    setup.target_runner = runner_.get();
    setup.backend = backends_.front().get();
    setup.net.n_slots = options_.n_parallel;
    setup.net.n_ctx_slot = runner_->kv().n_ctx_slot();
    setup.net.type_k = spec.draft_cache_type_k;
    setup.net.type_v = spec.draft_cache_type_v;
    setup.net.label = label;
    setup.n_ubatch = options_.n_ubatch;
    setup.n_max = spec.n_max;
    auto drafter = spec::make_feature_drafter(name, setup);
    if (!drafter.has_value()) {
        return in_file(std::move(drafter).error());
    }
    return drafter;
}

Status EngineImpl::prepare_embeddings() {
    if (!options_.embeddings) {
        return ok();
    }
    const gguf::File& file = runner_->model().file();
    constexpr uint32_t kAbsent =
        1;  // mean: a text model that wasn't made for embeddings has no token that sums them up
    FORESAY_TRY(const uint32_t type, file.u32_or(runner_->model().hparams().arch + ".pooling_type", kAbsent));
    if (!options_.pooling && type > 3) {
        return error(Code::kUnsupported,
                     fmt::format("the model asks for pooling type {} (rank), which is not supported", type),
                     "--pooling", "choose none, mean, cls or last");
    }
    pooling_ = options_.pooling.value_or(static_cast<Pooling>(type));
    model::TapSpec taps = runner_->taps();
    taps.hidden = true;
    return runner_->set_taps(std::move(taps));
}

void EngineImpl::describe() {
    const model::Model& model = runner_->model();
    const SpecOptions& spec = options_.spec;
    info_.path = options_.model;
    info_.name = options_.alias.empty() ? options_.model : options_.alias;
    info_.architecture = model.hparams().arch;
    info_.description = model.description();
    info_.n_params = model.n_params();
    info_.file_bytes = model.file().file_bytes();
    info_.n_vocab = model.hparams().n_vocab;
    info_.n_ctx_train = model.hparams().n_ctx_train;
    info_.n_embd = model.hparams().n_embd;
    info_.n_ctx_slot = runner_->kv().n_ctx_slot();
    info_.n_parallel = options_.n_parallel;
    info_.spec_types = spec::join_names(spec.types);
    info_.spec_n_max = drafter_ == nullptr ? 0 : drafter_->n_max();
    if (drafter_ == nullptr) {
        info_.spec_line = "speculation: off (no --spec-type and no --spec-draft-model)";
        if (spec::detect_type(model.file()) == "draft-mtp") {
            info_.spec_line += "; the model's NextN block can draft: --spec-type draft-mtp";
        }
    } else if (info_.spec_n_max == 0) {
        info_.spec_line = fmt::format("speculation: off ({} is loaded, but --spec-draft-n-max is 0)", drafter_->name());
    } else {
        const std::string rule = describe_rule(spec);
        const std::string of = spec.draft_model.empty() ? "" : fmt::format(" ({})", spec.draft_model);
        info_.spec_line =
            fmt::format("speculation: {}{}, n_max {}, n_min {}, p_min {:.2f}, {} length, rule {}", drafter_->name(), of,
                        info_.spec_n_max, spec.n_min, spec.p_min, spec.adaptive ? "adaptive" : "fixed", rule);
    }
    runner_->set_context(
        fmt::format("target, {} n_max={}, n_batch={}", info_.spec_types, info_.spec_n_max, options_.n_batch));
    log::info("{}", info_.spec_line);
    metrics_.memory_bytes = memory_bytes();
    const size_t drafters = drafter_ == nullptr ? 0 : drafter_->memory_bytes() + drafter_->compute_bytes();
    log::info(
        "memory: {} MiB: weights {} MiB, KV cache {}, recurrent state {}, drafters {}, buffers of passes {} (they grow "
        "with the passes that come)",
        memory_bytes() >> 20, model.weight_bytes() >> 20, runner_->kv().bytes() >> 20, runner_->state_bytes() >> 20,
        drafters >> 20, runner_->compute_bytes() >> 20);
}

}  // namespace foresay::engine
