#include "cli/tune/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/flag_values.h"
#include "cli/tune/steady.h"

namespace foresay::cli::tune {
namespace {

using Json = nlohmann::ordered_json;

double ratio(double a, double b) {
    return b > 0.0 ? a / b : 0.0;
}

Row make_row(const Report& report, const Setting& setting, float temperature, int32_t clients) {
    const Filter filter{nullptr, temperature, clients};
    Row row;
    row.setting = setting;
    row.temperature = temperature;
    row.clients = clients;
    const Sample sum = total(report.samples, setting, filter);
    row.n_samples =
        static_cast<int32_t>(std::count_if(report.samples.begin(), report.samples.end(),
                                           [&](const Sample& s) { return s.setting == setting && passes(s, filter); }));
    row.tok_s = sum.tok_s();
    row.speed_up = speed_up(report.samples, setting, filter);
    Filter whole = filter;
    whole.timing = Timing::kWhole;
    row.whole = speed_up(report.samples, setting, whole);
    Filter steady = filter;
    steady.timing = Timing::kSteady;
    row.steady = speed_up(report.samples, setting, steady);
    for (const std::string& text_class : report.classes) {
        const Condition condition{text_class, temperature, clients};
        Filter of_class = filter;
        of_class.condition = &condition;
        row.by_class.emplace_back(text_class, speed_up(report.samples, setting, of_class));
        of_class.timing = Timing::kSteady;
        row.steady_by_class.emplace_back(text_class, speed_up(report.samples, setting, of_class));
    }
    const auto n_tokens = static_cast<double>(sum.n_tokens);
    row.drafted = sum.n_drafted > 0;
    row.acceptance = ratio(static_cast<double>(sum.n_accepted), static_cast<double>(sum.n_drafted));
    row.mean_length = 1.0 + ratio(static_cast<double>(sum.n_accepted), static_cast<double>(sum.n_verified));
    row.relaxed_share = ratio(static_cast<double>(sum.n_relaxed), n_tokens);
    row.mean_rank = ratio(sum.rank_sum, static_cast<double>(sum.n_relaxed));
    row.gap_per_token = ratio(sum.gap_sum, n_tokens);
    for (const uint64_t n : sum.accepted_at) {
        row.stands_at.push_back(ratio(static_cast<double>(n), static_cast<double>(sum.n_verified)));
    }
    return row;
}

Choice make_choice(const Report& report, const Setting& setting, const Filter& filter) {
    Choice choice;
    choice.setting = setting;
    choice.flags = flags_of(setting, report.sources.at(setting.source));
    Filter confirmed = filter;
    confirmed.confirmed_only = true;
    choice.confirmed = speed_up(report.samples, setting, confirmed);
    for (const std::string& text_class : report.classes) {
        const Condition condition{text_class, filter.temperature, filter.clients};
        Filter of_class = filter;
        of_class.condition = &condition;
        const Figure figure = speed_up(report.samples, setting, of_class);
        if (figure.n > 0 && (choice.worst.n == 0 || figure.value < choice.worst.value)) {
            choice.worst = figure;
            choice.text_class_worst = text_class;
        }
    }
    return choice;
}

/// Only settings with a confirmed figure can be chosen.
std::vector<Setting> confirmed_settings(const Report& report, const Filter& filter) {
    std::vector<Setting> settings;
    Filter confirmed = filter;
    confirmed.confirmed_only = true;
    for (const Sample& sample : report.samples) {
        const bool is_new = std::find(settings.begin(), settings.end(), sample.setting) == settings.end();
        if (!sample.setting.is_plain() && is_new && speed_up(report.samples, sample.setting, confirmed).n > 0) {
            settings.push_back(sample.setting);
        }
    }
    return settings;
}

/// What chose the finalists: screening samples alone.
std::vector<Sample> screened(const std::vector<Sample>& samples) {
    std::vector<Sample> kept;
    std::copy_if(samples.begin(), samples.end(), std::back_inserter(kept),
                 [](const Sample& sample) { return sample.stage == Stage::kScreen; });
    return kept;
}

Json json_of(const Figure& figure) {
    if (figure.n == 0) {
        return nullptr;
    }
    return {{"value", figure.value}, {"low", figure.low}, {"high", figure.high}, {"pairs", figure.n}};
}

Json json_of(const std::vector<std::pair<std::string, Figure>>& by_class) {
    Json json = Json::object();
    for (const auto& [name, figure] : by_class) {
        json[name] = json_of(figure);
    }
    return json;
}

Json json_of(const Setting& setting, const Report& report) {
    Json json{{"name", name_of(setting)}, {"drafter", report.sources.at(setting.source).name},
              {"n_max", setting.n_max},   {"adaptive", setting.adaptive},
              {"p_min", setting.p_min},   {"rule", std::string(spec::name_of(setting.rule))}};
    if (setting.rule == spec::Rule::kRelaxed) {
        json["top_n"] = setting.top_n;
        json["delta"] = setting.delta >= 0.0F ? Json(setting.delta) : Json(nullptr);
    }
    return json;
}

Json json_of(const std::optional<Choice>& choice, const Report& report) {
    if (!choice.has_value()) {
        return nullptr;
    }
    return {{"setting", json_of(choice->setting, report)},
            {"speed_up", json_of(choice->confirmed)},
            {"worst_class", choice->text_class_worst},
            {"worst_speed_up", json_of(choice->worst)},
            {"flags", choice->flags}};
}

Json json_of(const Sample& sample, const Report& report) {
    return {{"setting", name_of(sample.setting)},
            {"drafter", report.sources.at(sample.setting.source).name},
            {"class", sample.condition.text_class},
            {"temperature", sample.condition.temperature},
            {"clients", sample.condition.clients},
            {"stage", sample.stage == Stage::kScreen ? "screen" : "confirm"},
            {"group", sample.group},
            {"tokens", sample.n_tokens},
            {"tokens_timed", sample.n_timed},
            {"generate_s", sample.generate_s},
            {"total_s", sample.total_s},
            {"steady_s", sample.steady_s > 0.0 ? Json(sample.steady_s) : Json(nullptr)},
            {"drafted", sample.n_drafted},
            {"accepted", sample.n_accepted},
            {"relaxed", sample.n_relaxed},
            {"verified", sample.n_verified},
            {"rank_sum", sample.rank_sum},
            {"gap_sum", sample.gap_sum},
            {"accepted_at", sample.accepted_at}};
}

std::string choice_text(const char* title, const std::optional<Choice>& choice) {
    if (!choice.has_value()) {
        return fmt::format("{}: none was measured\n", title);
    }
    std::string text = fmt::format("{}: {}, {} x plain on prompts that didn't choose it", title,
                                   name_of(choice->setting), figure_text(choice->confirmed));
    if (choice->worst.n > 0) {
        text += fmt::format("; least on {} ({:.2f})", choice->text_class_worst, choice->worst.value);
    }
    text += "\n ";
    for (const std::string& flag : choice->flags) {
        text += ' ' + flag;
    }
    if (choice->confirmed.n < kFewPairs) {
        text += "\n  Too few prompts to tell it from luck: give it more --minutes.";
    } else if (choice->confirmed.low < 1.0) {
        text += "\n  The interval reaches below plain: this setting may cost speed on such text.";
    }
    return text + '\n';
}

}  // namespace

std::string figure_text(const Figure& figure) {
    if (figure.n < kFewPairs) {
        return figure.n == 0 ? "-"
                             : fmt::format("{:.2f} ({} pair{})", figure.value, figure.n, figure.n == 1 ? "" : "s");
    }
    return fmt::format("{:.2f} ({:.2f}..{:.2f})", figure.value, figure.low, figure.high);
}

void summarize(Report* report) {
    report->rows.clear();
    if (report->samples.empty()) {
        return;
    }
    net_out_machine(&report->samples);
    const Condition first = report->samples.front().condition;
    for (const Sample& sample : report->samples) {
        const bool is_known = std::any_of(report->rows.begin(), report->rows.end(), [&](const Row& row) {
            return row.setting == sample.setting && row.temperature == sample.condition.temperature &&
                   row.clients == sample.condition.clients;
        });
        if (!is_known) {
            report->rows.push_back(
                make_row(*report, sample.setting, sample.condition.temperature, sample.condition.clients));
        }
    }
    const auto is_first = [&](const Row& row) {
        return row.temperature == first.temperature && row.clients == first.clients;
    };
    std::stable_sort(report->rows.begin(), report->rows.end(), [&](const Row& a, const Row& b) {
        const auto key = [&](const Row& row) {
            return std::make_tuple(!is_first(row), row.clients, row.temperature, !row.setting.is_plain(),
                                   -row.speed_up.value);
        };
        return key(a) < key(b);
    });
    const Filter filter{nullptr, first.temperature, first.clients};
    const std::vector<Sample> screen = screened(report->samples);
    const std::vector<Setting> settings = confirmed_settings(*report, filter);
    const auto choose = [&](const Setting* best) {
        return best == nullptr ? std::optional<Choice>{} : make_choice(*report, *best, filter);
    };
    report->strict = choose(best_of(screen, settings, filter, false));
    report->relaxed = choose(best_of(screen, settings, filter, true));
    std::vector<Setting> adaptive;
    std::copy_if(settings.begin(), settings.end(), std::back_inserter(adaptive),
                 [](const Setting& setting) { return setting.adaptive; });
    report->adaptive = choose(best_of(screen, adaptive, filter, false));
}

Json to_json(const Report& report) {
    Json json{{"model", report.model},
              {"drafter", report.drafter},
              {"description", report.description},
              {"isa", report.isa},
              {"threads", report.n_threads},
              {"tokens_per_text", report.n_predict},
              {"chat_template", report.chat_template},
              {"own_prompts", report.own_prompts},
              {"seconds", report.seconds},
              {"classes", report.classes},
              {"draft_ms", report.draft_ms}};
    json["cost_curve"] = Json::array();
    for (const model::CostPoint& point : report.curve) {
        json["cost_curve"].push_back({{"n", point.n},
                                      {"ms", point.median_ms},
                                      {"p10_ms", point.p10_ms},
                                      {"p90_ms", point.p90_ms},
                                      {"ratio", ratio(point.median_ms, report.curve.front().median_ms)}});
    }
    json["best_strict"] = json_of(report.strict, report);
    json["best_relaxed"] = json_of(report.relaxed, report);
    json["adaptive"] = json_of(report.adaptive, report);
    json["rows"] = Json::array();
    for (const Row& row : report.rows) {
        json["rows"].push_back({{"setting", json_of(row.setting, report)},
                                {"temperature", row.temperature},
                                {"clients", row.clients},
                                {"tok_s", row.tok_s},
                                {"speed_up", json_of(row.speed_up)},
                                {"speed_up_with_prompt", json_of(row.whole)},
                                {"speed_up_steady", json_of(row.steady)},
                                {"by_class", json_of(row.by_class)},
                                {"steady_by_class", json_of(row.steady_by_class)},
                                {"acceptance", row.drafted ? Json(row.acceptance) : Json(nullptr)},
                                {"mean_length", row.mean_length},
                                {"relaxed_share", row.relaxed_share},
                                {"mean_rank", row.mean_rank},
                                {"gap_per_token", row.gap_per_token},
                                {"stands_at", row.stands_at}});
    }
    json["notes"] = report.notes;
    json["samples"] = Json::array();
    for (const Sample& sample : report.samples) {
        json["samples"].push_back(json_of(sample, report));
    }
    return json;
}

std::string to_text(const Report& report) {
    std::string text;
    const Row* last = nullptr;
    for (const Row& row : report.rows) {
        if (last == nullptr || last->temperature != row.temperature || last->clients != row.clients) {
            text += fmt::format("{}temperature {:g}, {} client{}\n", last == nullptr ? "" : "\n", row.temperature,
                                row.clients, row.clients == 1 ? "" : "s");
            text += fmt::format("{:<32} {:>7}  {:>18}  {:>18}  {:>6}  {:>6}  {:>7}  {:>8}", "setting", "tok/s",
                                "speed-up (95 %)", "steady (95 %)", "accept", "length", "relaxed", "nats/tok");
            for (const std::string& text_class : report.classes) {
                text += fmt::format("  {:>10}", text_class.substr(0, 10));
            }
            text += '\n';
        }
        last = &row;
        const std::string source =
            report.sources.size() > 1 ? ' ' + report.sources.at(row.setting.source).name : std::string();
        text += fmt::format("{:<32} {:>7.2f}  {:>18}  {:>18}", name_of(row.setting) + source, row.tok_s,
                            row.setting.is_plain() ? "" : figure_text(row.speed_up),
                            row.setting.is_plain() ? "" : figure_text(row.steady));
        if (row.drafted) {
            text += fmt::format("  {:>6.3f}  {:>6.2f}  {:>6.1f}%  {:>8.4f}", row.acceptance, row.mean_length,
                                100.0 * row.relaxed_share, row.gap_per_token);
        } else {
            text += fmt::format("  {:>6}  {:>6}  {:>7}  {:>8}", "", "", "", "");
        }
        for (const auto& [name, figure] : row.by_class) {
            const bool is_shown = figure.n > 0 && !row.setting.is_plain();
            text += fmt::format("  {:>10}", is_shown ? fmt::format("{:.2f}", figure.value) : "");
        }
        text += '\n';
    }
    text += '\n';
    text += choice_text("Best strict", report.strict);
    text += choice_text("Best relaxed", report.relaxed);
    text += choice_text("Adaptive, strict (the default)", report.adaptive);
    for (const std::string& note : report.notes) {
        text += fmt::format("Note: {}\n", note);
    }
    return text;
}

}  // namespace foresay::cli::tune
