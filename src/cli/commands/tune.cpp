// foresay tune: measures settings of speculation beside plain decoding on this machine and these files, and prints the
// flags of the best strict and the best relaxed one.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "cli/commands/commands.h"
#include "cli/commands/session.h"
#include "cli/flag_values.h"
#include "cli/progress.h"
#include "cli/tune/page.h"
#include "cli/tune/race.h"
#include "cli/tune/report.h"
#include "gguf/gguf.h"
#include "spec/pair.h"

namespace foresay::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kTokens = 96;  // per text
constexpr int32_t kQuickTokens = 48;
constexpr float kMinutes = 20.0F;
constexpr float kQuickMinutes = 3.0F;
constexpr int32_t kMostClients = 8;
constexpr int32_t kCurveWidth = 32;
constexpr int32_t kQuickCurveWidth = 9;
constexpr uint32_t kSeed = 1;

/// Everything that is decided before a model is loaded.
struct Plan {
    tune::RaceOptions race;  ///< settings left out
    std::vector<tune::Source> sources;
    std::vector<std::vector<tune::Setting>> settings;  ///< by source
    tune::PromptPool pool;
    int32_t n_predict = 0;
    double seconds = 0.0;
};

template <typename T>
Result<std::vector<T>> parse_list(const std::string& text, double low, double high, const char* flag) {
    std::vector<T> values;
    for (const std::string& part : split(text, ',')) {
        const auto value = parse_float(part, low, high);
        if (!value || static_cast<double>(static_cast<T>(*value)) > *value + 1e-6 ||
            static_cast<double>(static_cast<T>(*value)) < *value - 1e-6) {
            return error(Code::kInvalidArgument,
                         value ? fmt::format("'{}' is not a whole number", part) : value.error().message, flag);
        }
        if (std::find(values.begin(), values.end(), static_cast<T>(*value)) == values.end()) {
            values.push_back(static_cast<T>(*value));
        }
    }
    return values;
}

Status choose_classes(const TuneOptions& options, Plan* plan) {
    std::vector<std::string>& classes = plan->race.classes;
    const std::vector<std::string> known = plan->pool.classes();
    if (!options.classes.empty()) {
        for (const std::string& name : split(options.classes, ',')) {
            if (std::find(known.begin(), known.end(), name) == known.end()) {
                return error(Code::kInvalidArgument,
                             fmt::format("there is no text class '{}'; there are: {}", name, join(known)), "--classes");
            }
            if (std::find(classes.begin(), classes.end(), name) == classes.end()) {
                classes.push_back(name);
            }
        }
    } else if (!options.prompts.empty()) {
        classes = known;
    } else {
        classes = tune::builtin_classes();
        if (options.quick) {
            classes = {"code", "prose", "extraction"};
        }
    }
    return ok();
}

/// The drafter that the user named, or the n-gram types worth a try.
Result<std::vector<tune::Source>> choose_sources(const Options& options) {
    const engine::SpecOptions& spec = options.engine.spec;
    if (!spec.any()) {
        return tune::ngram_sources(!options.tune.quick);
    }
    tune::Source source;
    source.types = spec.types;
    source.ngram = spec.ngram;
    if (options.spec_type_given) {
        source.flags.push_back(fmt::format("--spec-type {}", spec::join_names(spec.types)));
    }
    if (!spec.draft_model.empty()) {
        FORESAY_TRY(const auto file, gguf::File::open(spec.draft_model));
        if (source.types.empty()) {
            source.types.push_back(spec::spec_type_of(spec::detect_type(*file)).value_or(spec::SpecType::kDraftSimple));
        }
        source.flags.push_back(fmt::format("--spec-draft-model {}", spec.draft_model));
    }
    source.name = spec::join_names(source.types);
    return std::vector<tune::Source>{std::move(source)};
}

Result<Plan> make_plan(const Options& options) {
    const TuneOptions& tune = options.tune;
    Plan plan;
    if (tune.prompts.empty()) {
        plan.pool = tune::builtin_prompts();
    } else {
        FORESAY_TRY(const std::string text, read_text_file(tune.prompts));
        FORESAY_TRY(plan.pool, tune::parse_prompts(text));
    }
    FORESAY_CHECK_OK(choose_classes(tune, &plan));
    if (!tune.temps.empty()) {
        FORESAY_TRY(plan.race.temperatures, parse_list<float>(tune.temps, 0, 10, "--temps"));
    }
    if (!tune.clients.empty()) {
        FORESAY_TRY(plan.race.clients, parse_list<int32_t>(tune.clients, 1, kMostClients, "--clients"));
    }
    FORESAY_TRY(plan.sources, choose_sources(options));
    if (!tune.settings.empty()) {
        FORESAY_TRY(const auto settings, tune::parse_settings(tune.settings));
        for (size_t i = 0; i < plan.sources.size(); ++i) {
            plan.settings.push_back(settings);
            for (tune::Setting& setting : plan.settings.back()) {
                setting.source = i;
            }
        }
        plan.race.prune = false;
    } else {
        for (size_t i = 0; i < plan.sources.size(); ++i) {
            plan.settings.push_back(plan.sources[i].runs_model() ? tune::model_grid(!tune.quick)
                                                                 : tune::ngram_grid(!tune.quick, i));
        }
    }
    plan.n_predict = options.n_predict > 1 ? options.n_predict : (tune.quick ? kQuickTokens : kTokens);
    const float minutes = tune.minutes > 0.0F ? tune.minutes : (tune.quick ? kQuickMinutes : kMinutes);
    plan.seconds = 60.0 * static_cast<double>(minutes);
    return plan;
}

/// The race's bench over an engine.
class EngineBench : public tune::Bench {
  public:
    EngineBench(Session& session, const sampling::Params& sampling, int32_t n_predict, Clock::time_point start)
        : session_(session), sampling_(sampling), n_predict_(n_predict), start_(start) {
        if (sampling_.seed == sampling::Params{}.seed) {
            sampling_.seed = kSeed;  // all settings must draw alike
        }
    }

    Result<tune::Sample> run(const tune::Setting& setting, const tune::Condition& condition,
                             std::span<const std::string> prompts) override {
        std::vector<engine::Request> requests;
        for (const std::string& prompt : prompts) {
            engine::Request request;
            FORESAY_TRY(request.prompt, session_.encode(prompt));
            request.sampling = sampling_;
            request.sampling.temperature = condition.temperature;
            request.n_predict = n_predict_;
            request.spec = tune::request_of(setting);
            requests.push_back(std::move(request));
        }
        const engine::Metrics before = session_.engine().metrics();
        FORESAY_TRY(const std::vector<Generation> generations,
                    session_.run(requests, static_cast<size_t>(condition.clients)));
        return sample_of(generations, condition.clients, before, session_.engine().metrics());
    }

    double seconds() override { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  private:
    /// What was written in the spans, and in which passes.
    static void time_window(const std::vector<Generation>& generations, const std::vector<tune::Span>& spans,
                            tune::Sample* sample) {
        std::map<Clock::time_point, engine::PassInfo> passes;  // by their time: that is how they are told apart
        for (const tune::Span& span : spans) {
            sample->generate_s += span.end_s - span.begin_s;
            for (const Generation& generation : generations) {
                for (size_t i = 0; i < generation.times_s.size(); ++i) {
                    if (span.holds(generation.times_s[i])) {
                        ++sample->n_timed;
                        passes.emplace(generation.passes[i].done_at, generation.passes[i]);
                    }
                }
            }
        }
        for (const auto& [at, pass] : passes) {
            sample->passes.push_back(pass);
        }
    }

    static tune::Sample sample_of(const std::vector<Generation>& generations, int32_t clients,
                                  const engine::Metrics& before, const engine::Metrics& after) {
        tune::Sample sample;
        std::vector<std::vector<double>> times_s;
        for (const Generation& generation : generations) {
            const engine::Timings& timings = generation.result.timings;
            sample.n_tokens += timings.predicted_n;
            times_s.push_back(generation.times_s);
            sample.total_s = std::max(sample.total_s, generation.last_s());
            sample.n_drafted += timings.draft_n;
            sample.n_accepted += timings.draft_n_accepted;
            sample.n_relaxed += timings.draft_n_relaxed;
            sample.n_verified += timings.verify_steps;
            sample.rank_sum += timings.relaxed_rank_sum;
            sample.gap_sum += timings.relaxed_gap_sum;
        }
        time_window(generations, tune::while_all_write(times_s, static_cast<size_t>(clients)), &sample);
        for (size_t i = 0; i < after.accepted_per_position.size(); ++i) {
            const uint64_t old = i < before.accepted_per_position.size() ? before.accepted_per_position[i] : 0;
            sample.accepted_at.push_back(after.accepted_per_position[i] - old);
        }
        while (!sample.accepted_at.empty() && sample.accepted_at.back() == 0) {
            sample.accepted_at.pop_back();
        }
        return sample;
    }

    Session& session_;
    sampling::Params sampling_;
    int32_t n_predict_;
    Clock::time_point start_;
};

engine::EngineOptions engine_options(const Options& options, const Plan& plan, size_t i_source) {
    constexpr int32_t kLongestPrompt = 512;  // tokens of the built-in ones, with room
    engine::EngineOptions engine = options.engine;
    const tune::Source& source = plan.sources[i_source];
    engine.n_parallel = *std::max_element(plan.race.clients.begin(), plan.race.clients.end());
    const int32_t n_slot = options.tune.prompts.empty() ? kLongestPrompt + plan.n_predict : options.engine.n_ctx;
    engine.n_ctx = n_slot * engine.n_parallel;
    engine.spec.types = source.types;
    engine.spec.ngram = source.ngram;
    engine.spec.adaptive = false;  // requests say what they want; true: costs are measured at start, as for serve
    engine.spec.n_max = 0;
    for (const tune::Setting& setting : plan.settings[i_source]) {
        engine.spec.n_max = std::max(engine.spec.n_max, setting.n_max);
        engine.spec.adaptive = engine.spec.adaptive || setting.adaptive;
    }
    engine.spec.n_min = 0;
    engine.spec.p_min = 0.0F;
    engine.spec.rule = spec::Rule::kStrict;
    engine.spec.relaxed_top_n = 0;
    engine.progress = make_progress(is_terminal());
    return engine;
}

Status measure_costs(const Options& options, tune::Report* report) {
    constexpr int32_t kRounds = 5;
    const int32_t width = options.tune.quick ? kQuickCurveWidth : kCurveWidth;
    FORESAY_TRY(report->curve, cost_curve_of(options.engine, options.engine.model, width, kRounds));
    const auto& types = report->sources.front().types;
    if (!types.empty() && types.back() == spec::SpecType::kDraftSimple) {
        FORESAY_TRY(const auto curve, cost_curve_of(options.engine, options.engine.spec.draft_model, 1, kRounds));
        report->draft_ms = curve.front().median_ms;
    }
    return ok();
}

/// An output file, opened before minutes are spent on measuring.
Status open_output(const std::string& path, const char* flag, std::ofstream* file) {
    if (!path.empty() && path != "-") {
        file->open(path, std::ios::binary);
        if (!*file) {
            return error(Code::kIo, fmt::format("can't write '{}': {}", path, std::strerror(errno)), flag);
        }
    }
    return ok();
}

Status write_output(const std::string& text, const std::string& path, const char* flag, std::ofstream* file) {
    if (file->is_open()) {
        *file << text;
        file->close();
        if (!*file) {
            return error(Code::kIo, fmt::format("can't write '{}': {}", path, std::strerror(errno)), flag);
        }
    }
    return ok();
}

Result<tune::Report> measure(const Options& options, Plan& plan) {
    tune::Report report;
    report.model = options.engine.model;
    report.drafter = options.engine.spec.draft_model;
    report.sources = plan.sources;
    report.classes = plan.race.classes;
    report.n_predict = plan.n_predict;
    report.own_prompts = !options.tune.prompts.empty();
    FORESAY_CHECK_OK(measure_costs(options, &report));
    for (size_t i = 0; i < plan.sources.size(); ++i) {
        FORESAY_TRY(const auto session, Session::create(engine_options(options, plan, i), options.tune.raw));
        quieten_log(options.log);
        const engine::ModelInfo& info = session->engine().info();
        report.isa = info.cpu_isa;
        report.n_threads = info.n_threads;
        report.description = info.description;
        report.chat_template = session->has_template();
        const Clock::time_point start = Clock::now();
        EngineBench bench(*session, options.sampling, plan.n_predict, start);
        plan.race.settings = plan.settings[i];
        plan.race.end_s = plan.seconds / static_cast<double>(plan.sources.size());
        tune::PromptPool pool = plan.pool;  // each drafter gets the same prompts
        ProgressLine line(is_terminal());
        FORESAY_TRY(tune::RaceResult result,
                    tune::race(plan.race, pool, bench, [&](const std::string& text, double share) {
                        line.show(plan.sources[i].name + ' ' + text, share);
                    }));
        report.seconds += bench.seconds();
        for (tune::Sample& sample : result.samples) {
            report.samples.push_back(std::move(sample));
        }
        for (std::string& note : result.notes) {
            report.notes.push_back(std::move(note));
        }
        log::configure(options.log);
    }
    tune::summarize(&report);
    return report;
}

Status run_tune(const Options& options) {
    FORESAY_TRY(Plan plan, make_plan(options));
    const std::string& json_path = options.local.json_file;
    std::ofstream json_file;
    std::ofstream html_file;
    FORESAY_CHECK_OK(open_output(json_path, "--json", &json_file));
    FORESAY_CHECK_OK(open_output(options.tune.html, "--html", &html_file));
    FORESAY_TRY(const tune::Report report, measure(options, plan));
    const std::string json =
        tune::to_json(report).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
    fmt::print("{}", json_path == "-" ? json : tune::to_text(report));
    FORESAY_CHECK_OK(write_output(json, json_path, "--json", &json_file));
    return write_output(tune::to_html(report), options.tune.html, "--html", &html_file);
}

}  // namespace

int tune_command(const Options& options) {
    if (const Status status = run_tune(options); !status) {
        log::error("{}", status.error().to_string());
        return 1;
    }
    return 0;
}

}  // namespace foresay::cli
