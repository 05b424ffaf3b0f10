#include "cli/commands/examine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "cli/flag_values.h"
#include "cli/progress.h"
#include "cli/tune/texts.h"
#include "gguf/gguf.h"
#include "spec/pair.h"

namespace foresay::cli {
namespace {

using doctor::Acceptance;
using doctor::Figures;

constexpr int32_t kTokens = 48;      // per text
constexpr int32_t kCurve = 8;        // positions of the acceptance curve
constexpr size_t kPrompts = 4;       // of different classes
constexpr int32_t kLongWords = 700;  // of the long context
constexpr uint32_t kSeed = 1;

/// Built-in texts one behind the other: a context in which positions are large.
std::string long_prompt() {
    tune::PromptPool pool = tune::builtin_prompts();
    std::string text = "Here are notes of several days.\n\n";
    int32_t n_words = 0;
    while (n_words < kLongWords) {
        const std::string part = pool.take("summary", 1).front();
        text += part.substr(part.find("\n\n") + 2) + "\n\n";
        n_words += static_cast<int32_t>(std::count(part.begin(), part.end(), ' '));
    }
    return text + "Write a short letter to a friend that tells what happened in these notes.";
}

struct Measured {
    Acceptance acceptance;
    double seconds = 0.0;  ///< of generation
    int64_t n_tokens = 0;
    int64_t n_verified = 0;
    int64_t n_accepted = 0;
    std::vector<int32_t> pool_sizes;

    double tok_s() const { return seconds > 0.0 ? static_cast<double>(n_tokens) / seconds : 0.0; }
};

using Edit = std::function<void(engine::Request&)>;

/// Runs the prompts one after the other. edit: what differs from strict drafts of the curve's length.
Result<Measured> measure(Session& session, const Options& options, const std::vector<std::string>& prompts,
                         float temperature, const Edit& edit) {
    Measured m;
    const engine::Metrics before = session.engine().metrics();
    int64_t n_drafted = 0;
    for (const std::string& prompt : prompts) {
        FORESAY_TRY(auto ids, session.encode(prompt));
        engine::Request request = make_request(options, std::move(ids), temperature);
        request.spec.rule = spec::Rule::kStrict;
        request.spec.p_min = 0.0F;
        request.spec.n_min = 0;
        edit(request);
        m.acceptance.n_max = *request.spec.n_max;
        FORESAY_TRY(const std::vector<Generation> out, session.run({request}, 1));
        const engine::Timings& timings = out.front().result.timings;
        n_drafted += timings.draft_n;
        m.n_accepted += timings.draft_n_accepted;
        m.n_verified += timings.verify_steps;
        m.n_tokens += std::max(0, timings.predicted_n - 1);
        m.seconds += out.front().last_s() - out.front().first_s();
        m.pool_sizes.insert(m.pool_sizes.end(), out.front().pool_sizes.begin(), out.front().pool_sizes.end());
    }
    Acceptance& a = m.acceptance;
    a.n_drafts = static_cast<int32_t>(m.n_verified);
    a.share = n_drafted > 0 ? static_cast<double>(m.n_accepted) / static_cast<double>(n_drafted) : 0.0;
    const auto after = session.engine().metrics().accepted_per_position;
    for (size_t i = 0; i < after.size() && i < static_cast<size_t>(a.n_max) && m.n_verified > 0; ++i) {
        const uint64_t old = i < before.accepted_per_position.size() ? before.accepted_per_position[i] : 0;
        a.stands_at.push_back(static_cast<double>(after[i] - old) / static_cast<double>(m.n_verified));
    }
    return m;
}

/// Whether the target can be loaded a second time, as its own drafter.
bool has_room_for(uint64_t bytes) {
    const long pages = sysconf(_SC_AVPHYS_PAGES);
    const long page = sysconf(_SC_PAGE_SIZE);
    constexpr double kFactor = 2.5;  // both copies, and their caches
    return pages > 0 && page > 0 &&
           static_cast<double>(pages) * static_cast<double>(page) > kFactor * static_cast<double>(bytes);
}

class Examination {
  public:
    explicit Examination(const Options& options) : options_(options), line_(is_terminal()) {}

    Result<Figures> run();

    const std::vector<std::string>& notes() const { return notes_; }

  private:
    Status look_at_files();
    Status look_at_costs();
    Status look_at_pair();
    Status look_at_pool(Session& session);
    Status look_at_own_drafts();
    Status look_at_full_cache();

    bool runs_model() const {
        const auto& types = options_.engine.spec.types;
        return !options_.engine.spec.draft_model.empty() ||
               std::any_of(types.begin(), types.end(), spec::is_draft_model);
    }

    void say(const std::string& what, double share) { line_.show(what, share); }

    const Options& options_;
    ProgressLine line_;
    Figures figures_;
    std::vector<std::string> prompts_;
    std::vector<std::string> notes_;
    uint64_t target_bytes_ = 0;
};

/// What a file says of the context that its model was trained for; 0 where it says nothing.
int32_t trained_context(const gguf::File& file) {
    const auto architecture = file.string("general.architecture");
    if (!architecture) {
        return 0;
    }
    const auto n = file.u32_or(fmt::format("{}.context_length", *architecture), 0);
    return n ? static_cast<int32_t>(std::min<uint32_t>(*n, 1U << 30)) : 0;
}

Status Examination::look_at_files() {
    const engine::SpecOptions& spec = options_.engine.spec;
    FORESAY_TRY(const auto target, gguf::File::open(options_.engine.model));
    target_bytes_ = target->file_bytes();
    figures_.n_ctx_train_target = trained_context(*target);
    figures_.type = spec.types.empty() ? std::string() : std::string(spec::name_of(spec.types.back()));
    if (spec.draft_model.empty()) {
        return ok();
    }
    FORESAY_TRY(const auto draft, gguf::File::open(spec.draft_model));
    const spec::PairReport pair = spec::check_pair(*target, *draft, figures_.type);
    figures_.type = pair.type;
    figures_.pair_problems = pair.problems;
    figures_.n_texts_different = pair.vocab.n_different;
    figures_.n_ctx_train_draft = trained_context(*draft);
    return ok();
}

Status Examination::look_at_costs() {
    constexpr int32_t kRounds = 5;
    say("costs", 0.0);
    const int32_t width = std::max(figures_.n_max, kCurve) + 1;
    FORESAY_TRY(const auto curve, cost_curve_of(options_.engine, options_.engine.model, width, kRounds));
    for (const model::CostPoint& point : curve) {
        figures_.cost_ms.push_back(point.median_ms);
    }
    if (figures_.type == "draft-simple") {
        FORESAY_TRY(const auto draft, cost_curve_of(options_.engine, options_.engine.spec.draft_model, 1, kRounds));
        figures_.draft_ms = draft.front().median_ms;
    }
    return ok();
}

Status Examination::look_at_pair() {
    FORESAY_TRY(const auto session, Session::create(engine_options(options_, 1), options_.tune.raw));
    quieten_log(options_.log);
    const int32_t n_curve = std::max(figures_.n_max, kCurve);
    const Edit curve = [&](engine::Request& request) { request.spec.n_max = n_curve; };
    say("short texts, greedy", 0.2);
    FORESAY_TRY(const Measured greedy, measure(*session, options_, prompts_, 0.0F, curve));
    figures_.greedy_short = greedy.acceptance;
    say("short texts, plain", 0.35);
    FORESAY_TRY(const Measured plain, measure(*session, options_, prompts_, figures_.temperature,
                                              [](engine::Request& request) { request.spec.n_max = 0; }));
    say("short texts, as configured", 0.45);
    const engine::SpecOptions& spec = options_.engine.spec;
    FORESAY_TRY(const Measured configured,
                measure(*session, options_, prompts_, figures_.temperature, [&](engine::Request& request) {
                    request.spec = {};
                    request.spec.n_max = runs_model() ? spec.n_max : INT32_MAX;
                    request.spec.adaptive = spec.adaptive;
                }));
    figures_.speed_up = plain.tok_s() > 0.0 ? configured.tok_s() / plain.tok_s() : 0.0;
    if (figures_.temperature > 0.0F && runs_model()) {
        say("short texts, sampled", 0.55);
        FORESAY_TRY(const Measured sampled, measure(*session, options_, prompts_, figures_.temperature, curve));
        figures_.sampled = sampled.acceptance;
    }
    // Tokens that came neither from a draft nor from the pass that verified one: each had a round of its own.
    const int64_t n_alone = greedy.n_tokens - greedy.n_accepted - greedy.n_verified;
    const auto n_rounds = static_cast<double>(greedy.n_verified + std::max<int64_t>(0, n_alone));
    figures_.rounds_with_draft = n_rounds > 0.0 ? static_cast<double>(greedy.n_verified) / n_rounds : 0.0;
    if (runs_model()) {
        say("a long text", 0.65);
        const std::string text = long_prompt();
        FORESAY_TRY(const auto ids, session->encode(text));
        figures_.long_tokens = static_cast<int32_t>(ids.size());
        FORESAY_TRY(const Measured at_depth, measure(*session, options_, {text}, 0.0F, curve));
        figures_.greedy_long = at_depth.acceptance;
        if (figures_.type != "draft-simple" && greedy.n_verified > 0) {
            // What a round took beyond its pass is the drafter's.
            const double pass_ms = figures_.cost_ms[static_cast<size_t>(n_curve)];
            const double round_ms = 1000.0 * greedy.seconds / static_cast<double>(greedy.n_verified);
            figures_.draft_ms = std::max(0.0, round_ms - pass_ms) / n_curve;
        }
    }
    FORESAY_CHECK_OK(look_at_pool(*session));
    log::configure(options_.log);
    return ok();
}

Status Examination::look_at_pool(Session& session) {
    if (figures_.top_n < 2) {
        return ok();
    }
    say("candidates", 0.75);
    // At temperature 0 the set collapses to one: it is counted at 1, truncation comes before temperature.
    const float temperature = figures_.temperature > 0.0F ? figures_.temperature : 1.0F;
    FORESAY_TRY(const Measured pool, measure(session, options_, prompts_, temperature, [&](engine::Request& request) {
                    request.spec.n_max = 0;
                    request.n_probs = std::max(figures_.top_n, 64);
                    request.post_sampling_probs = true;
                }));
    figures_.pool_sizes = pool.pool_sizes;
    return ok();
}

Status Examination::look_at_own_drafts() {
    const bool is_low = figures_.greedy_short->first() < 0.6 ||
                        (figures_.greedy_long && figures_.greedy_long->share < 0.8 * figures_.greedy_short->share);
    if (!is_low || !runs_model()) {
        return ok();
    }
    if (!has_room_for(target_bytes_)) {
        notes_.emplace_back("the target didn't draft for itself: there is too little memory for a second copy");
        return ok();
    }
    say("the target drafts for itself", 0.8);
    Options own = options_;
    own.engine.spec.types = {spec::SpecType::kDraftSimple};
    own.engine.spec.draft_model = own.engine.model;
    own.engine.spec.draft_cache_type_k = own.engine.cache_type_k;
    own.engine.spec.draft_cache_type_v = own.engine.cache_type_v;
    FORESAY_TRY(const auto session, Session::create(engine_options(own, 1), options_.tune.raw));
    quieten_log(options_.log);
    const Edit edit = [](engine::Request& request) { request.spec.n_max = 4; };
    const std::vector<std::string> first(prompts_.begin(), prompts_.begin() + 1);
    FORESAY_TRY(const Measured short_text, measure(*session, own, first, 0.0F, edit));
    figures_.own_short = short_text.acceptance;
    FORESAY_TRY(const Measured long_text, measure(*session, own, {long_prompt()}, 0.0F, edit));
    figures_.own_long = long_text.acceptance;
    log::configure(options_.log);
    return ok();
}

Status Examination::look_at_full_cache() {
    if (!figures_.draft_cache_is_quantised) {
        return ok();
    }
    say("with an f16 cache", 0.9);
    Options full = options_;
    full.engine.spec.draft_cache_type_k = DType::kF16;
    full.engine.spec.draft_cache_type_v = DType::kF16;
    FORESAY_TRY(const auto session, Session::create(engine_options(full, 1), options_.tune.raw));
    quieten_log(options_.log);
    const int32_t n_curve = std::max(figures_.n_max, kCurve);
    FORESAY_TRY(const Measured greedy, measure(*session, full, prompts_, 0.0F,
                                               [&](engine::Request& request) { request.spec.n_max = n_curve; }));
    figures_.full_cache = greedy.acceptance;
    log::configure(options_.log);
    return ok();
}

Result<Figures> Examination::run() {
    const engine::SpecOptions& spec = options_.engine.spec;
    if (!spec.any()) {
        return error(Code::kInvalidArgument, "there is no drafter to examine", "doctor",
                     "foresay doctor TARGET DRAFTER, or --spec-type with an n-gram type");
    }
    figures_.n_max = spec.n_max;
    figures_.top_n = spec.relaxed_top_n;
    figures_.temperature = options_.sampling.temperature;
    const auto is_quantised = [](DType type) { return type != DType::kF16 && type != DType::kF32; };
    figures_.draft_cache_is_quantised =
        !spec.draft_model.empty() && (is_quantised(spec.draft_cache_type_k) || is_quantised(spec.draft_cache_type_v));
    FORESAY_CHECK_OK(look_at_files());
    const bool is_simple = figures_.type == "draft-simple";
    const bool can_draw = is_simple || figures_.type == "draft-mtp" || figures_.type == "draft-eagle3";
    figures_.probabilistic = spec.probabilistic.value_or(is_simple) || !can_draw;
    if (!figures_.pair_problems.empty()) {
        return figures_;
    }
    FORESAY_TRY(prompts_, choose_prompts(options_, kPrompts));
    FORESAY_CHECK_OK(look_at_costs());
    FORESAY_CHECK_OK(look_at_pair());
    FORESAY_CHECK_OK(look_at_full_cache());
    FORESAY_CHECK_OK(look_at_own_drafts());
    return figures_;
}

}  // namespace

Result<std::vector<std::string>> choose_prompts(const Options& options, size_t n) {
    tune::PromptPool pool = tune::builtin_prompts();
    std::vector<std::string> classes = tune::builtin_classes();
    if (!options.tune.prompts.empty()) {
        FORESAY_TRY(const std::string text, read_text_file(options.tune.prompts));
        FORESAY_TRY(pool, tune::parse_prompts(text));
        classes = pool.classes();
    }
    std::vector<std::string> prompts;
    for (bool is_any_left = true; is_any_left && prompts.size() < n;) {
        is_any_left = false;
        for (const std::string& name : classes) {
            const std::vector<std::string> taken = pool.take(name, 1);
            if (!taken.empty() && prompts.size() < n) {
                prompts.push_back(taken.front());
                is_any_left = true;
            }
        }
    }
    return prompts;
}

engine::Request make_request(const Options& options, std::vector<vocab::TokenId> prompt, float temperature) {
    engine::Request request;
    request.prompt = std::move(prompt);
    request.sampling = options.sampling;
    request.sampling.temperature = temperature;
    if (request.sampling.seed == sampling::Params{}.seed) {
        request.sampling.seed = kSeed;
    }
    request.n_predict = options.n_predict > 1 ? options.n_predict : kTokens;
    request.spec.adaptive = false;
    return request;
}

engine::EngineOptions engine_options(const Options& options, int32_t n_parallel) {
    constexpr int32_t kRoom = 2048;
    engine::EngineOptions engine = options.engine;
    engine.n_parallel = n_parallel;
    engine.n_ctx = std::max(options.engine.n_ctx, kRoom) * n_parallel;
    engine.spec.n_max = std::max(engine.spec.n_max, kCurve);
    engine.spec.n_min = 0;
    engine.progress = make_progress(is_terminal());
    return engine;
}

Result<Figures> examine(const Options& options, std::vector<std::string>* notes) {
    Examination examination(options);
    FORESAY_TRY(Figures figures, examination.run());
    *notes = examination.notes();
    return figures;
}

}  // namespace foresay::cli
