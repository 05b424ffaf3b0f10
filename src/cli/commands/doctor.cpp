// foresay doctor: measures a pair and names why drafts are rejected or don't pay; --self-check proves strict = plain.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/commands/commands.h"
#include "cli/commands/examine.h"
#include "cli/doctor/self_check.h"
#include "cli/progress.h"

namespace foresay::cli {
namespace {

using doctor::Acceptance;
using doctor::Figures;

std::string curve_text(const char* title, const std::optional<Acceptance>& a) {
    if (!a.has_value()) {
        return {};
    }
    std::string text = fmt::format("{:<28} {:.3f}, by position", title, a->share);
    for (const double value : a->stands_at) {
        text += fmt::format(" {:.2f}", value);
    }
    return text + '\n';
}

std::string to_text(const Figures& f, const std::vector<doctor::Finding>& findings,
                    const std::vector<std::string>& notes) {
    std::string text;
    if (!f.cost_ms.empty()) {
        text += fmt::format("{:<28} {:.1f} ms; {} rows cost {:.2f} of that\n", "one token of the target",
                            f.cost_ms.front(), f.cost_ms.size(), f.cost_ms.back() / f.cost_ms.front());
        text += fmt::format("{:<28} {:.1f} ms\n", "one drafted token", f.draft_ms);
    }
    text += curve_text("acceptance, greedy", f.greedy_short);
    text += curve_text(fmt::format("behind {} tokens", f.long_tokens).c_str(), f.greedy_long);
    text += curve_text(fmt::format("at temperature {:g}", f.temperature).c_str(), f.sampled);
    text += curve_text("with an f16 cache", f.full_cache);
    text += curve_text("target for itself, short", f.own_short);
    text += curve_text("target for itself, long", f.own_long);
    if (f.greedy_short.has_value()) {
        const int32_t best = doctor::best_length(f, *f.greedy_short, f.greedy_short->n_max);
        text += fmt::format("{:<28} {:.2f} x plain as configured (n_max {}); predicted best n_max {}: {:.2f} x\n",
                            "speed", f.speed_up, f.n_max, best, doctor::predicted_speed_up(f, *f.greedy_short, best));
    }
    for (const doctor::Finding& finding : findings) {
        text += fmt::format("\n[{}] {}\n  figures: {}\n  what to do: {}\n", finding.cause, finding.what,
                            finding.figures, finding.advice);
    }
    text += findings.empty() ? "\nNothing stands out: the pair fits, drafts are accepted and pay.\n" : "";
    for (const std::string& note : notes) {
        text += fmt::format("Note: {}\n", note);
    }
    return text;
}

nlohmann::ordered_json to_json(const Figures& f, const std::vector<doctor::Finding>& findings) {
    using Json = nlohmann::ordered_json;
    const auto curve = [](const std::optional<Acceptance>& a) {
        return a.has_value() ? Json{{"share", a->share}, {"drafts", a->n_drafts}, {"stands_at", a->stands_at}}
                             : Json(nullptr);
    };
    Json json{{"type", f.type},
              {"n_max", f.n_max},
              {"speed_up", f.speed_up},
              {"cost_ms", f.cost_ms},
              {"draft_ms", f.draft_ms},
              {"greedy", curve(f.greedy_short)},
              {"long", curve(f.greedy_long)},
              {"long_tokens", f.long_tokens},
              {"sampled", curve(f.sampled)},
              {"f16_cache", curve(f.full_cache)},
              {"own_short", curve(f.own_short)},
              {"own_long", curve(f.own_long)},
              {"findings", Json::array()}};
    for (const doctor::Finding& finding : findings) {
        json["findings"].push_back({{"cause", finding.cause},
                                    {"what", finding.what},
                                    {"figures", finding.figures},
                                    {"advice", finding.advice}});
    }
    return json;
}

/// 0: equal; 1: a difference.
Result<int> self_check(const Options& options) {
    constexpr int32_t kSlots = 4;
    if (!options.engine.spec.any()) {
        return error(Code::kInvalidArgument, "there is no drafter to check", "doctor",
                     "foresay doctor --self-check TARGET DRAFTER, or --spec-type with an n-gram type");
    }
    FORESAY_TRY(const std::vector<std::string> prompts, choose_prompts(options, kSlots));
    engine::EngineOptions engine = engine_options(options, kSlots);
    const std::vector<int32_t> n_maxes{1, 2, 4, 8, 16};
    engine.spec.n_max = n_maxes.back();
    FORESAY_TRY(const auto session, Session::create(engine, options.tune.raw));
    quieten_log(options.log);
    const float sampled = options.sampling.temperature > 0.0F ? options.sampling.temperature : 0.8F;
    ProgressLine line(is_terminal());
    int32_t n_done = 0;
    const auto generate = [&](const doctor::Case& which) -> Result<std::vector<doctor::Text>> {
        constexpr double kCases = 14.0;
        line.show(doctor::name_of(which), n_done++ / kCases);
        std::vector<engine::Request> requests;
        for (const std::string& prompt : prompts) {
            FORESAY_TRY(auto ids, session->encode(prompt));
            engine::Request request = make_request(options, std::move(ids), which.temperature);
            request.n_probs = 1;
            request.spec.rule = spec::Rule::kStrict;
            request.spec.relaxed_top_n = 0;
            request.spec.n_min = 0;
            request.spec.n_max = which.n_max;
            request.spec.adaptive = which.adaptive;
            requests.push_back(std::move(request));
        }
        std::vector<doctor::Text> texts;
        // Plain alone, drafts side by side: neither batch nor slot may matter.
        const size_t n_at_once = which.n_max == 0 ? 1 : requests.size();
        for (size_t i = 0; i < requests.size(); i += n_at_once) {
            const auto begin = requests.begin() + static_cast<std::ptrdiff_t>(i);
            FORESAY_TRY(const std::vector<Generation> out,
                        session->run({begin, begin + static_cast<std::ptrdiff_t>(n_at_once)}, n_at_once));
            for (const Generation& generation : out) {
                texts.push_back({generation.ids, generation.logprobs});
            }
        }
        return texts;
    };
    FORESAY_TRY(const doctor::CheckResult result, doctor::check_strict({0.0F, sampled}, n_maxes, generate));
    fmt::print("{}", doctor::to_text(result, *session->engine().vocab()));
    log::configure(options.log);
    return result.failures.empty() ? 0 : 1;
}

Result<int> run_doctor(const Options& options) {
    if (options.tune.self_check) {
        return self_check(options);
    }
    const std::string& path = options.local.json_file;
    std::ofstream file;
    if (!path.empty() && path != "-") {
        file.open(path, std::ios::binary);
        if (!file) {
            return error(Code::kIo, fmt::format("can't write '{}': {}", path, std::strerror(errno)), "--json");
        }
    }
    std::vector<std::string> notes;
    FORESAY_TRY(const Figures figures, examine(options, &notes));
    const std::vector<doctor::Finding> findings = doctor::diagnose(figures);
    const std::string json =
        to_json(figures, findings).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
    fmt::print("{}", path == "-" ? json : to_text(figures, findings, notes));
    if (file.is_open()) {
        file << json;
        file.close();
        if (!file) {
            return error(Code::kIo, fmt::format("can't write '{}'", path), "--json");
        }
    }
    return figures.pair_problems.empty() ? 0 : 2;
}

}  // namespace

int doctor_command(const Options& options) {
    const auto code = run_doctor(options);
    if (!code) {
        log::error("{}", code.error().to_string());
        return 1;
    }
    return *code;
}

}  // namespace foresay::cli
