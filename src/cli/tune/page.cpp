#include "cli/tune/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/tune/plot.h"

namespace foresay::cli::tune {
namespace {

constexpr size_t kMostBars = 30;
constexpr size_t kMostLines = 5;

constexpr std::string_view kHead = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>foresay tune</title>
<style>
:root{--bg:#fff;--fg:#1c1f24;--muted:#5c6470;--line:#d9dde3;--card:#f6f7f9;
--c0:#1f5fbf;--c1:#b3541e;--c2:#2e7d4f;--c3:#7a3fa0;--c4:#8a6d00;--c5:#a3264e}
@media(prefers-color-scheme:dark){:root{--bg:#15181d;--fg:#e6e8ec;--muted:#9aa3af;--line:#343a44;--card:#1d2128;
--c0:#7fb0ff;--c1:#f2a06b;--c2:#7fd1a0;--c3:#c9a0ec;--c4:#e0c35a;--c5:#f08aa8}}
*{box-sizing:border-box}
body{margin:0 auto;padding:16px;max-width:1120px;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
h1{font-size:22px;margin:8px 0}h2{font-size:17px;margin:28px 0 8px}h3{font-size:15px;margin:0 0 6px}
p{margin:6px 0}.muted{color:var(--muted)}svg .muted{fill:var(--muted)}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));gap:16px}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px;min-width:0}
.big{font-size:26px;font-weight:600}
code{display:block;overflow-wrap:anywhere;font:13px/1.4 ui-monospace,monospace;background:var(--bg);border:1px solid var(--line);
border-radius:6px;padding:8px;margin-top:6px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;white-space:nowrap}
th,td{padding:4px 8px;text-align:right;border-bottom:1px solid var(--line)}th:first-child,td:first-child{text-align:left}
.bad{color:var(--c1)}
svg{display:block;width:100%;max-width:520px;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--fg)}
svg .small{font-size:10.5px}.thin{stroke-width:1.5;opacity:.6}.wide{stroke-width:3;opacity:.55}
line.grid{stroke:var(--line);stroke-width:1}line.mark{stroke:var(--muted);stroke-dasharray:4 3}
path{fill:none;stroke-width:2}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}.s5{stroke:var(--c5)}
</style></head><body>
)html";

std::string label_of(const Row& row, const Report& report) {
    return report.sources.size() > 1 && !row.setting.is_plain()
               ? fmt::format("{} {}", report.sources.at(row.setting.source).name, name_of(row.setting))
               : name_of(row.setting);
}

bool is_first_condition(const Row& row, const Report& report) {
    return row.temperature == report.rows.front().temperature && row.clients == report.rows.front().clients;
}

/// Rows of the condition that was screened, the fastest first, plain left out.
std::vector<const Row*> main_rows(const Report& report) {
    std::vector<const Row*> rows;
    for (const Row& row : report.rows) {
        if (is_first_condition(row, report) && !row.setting.is_plain() && row.speed_up.n > 0) {
            rows.push_back(&row);
        }
    }
    return rows;
}

std::string choice_card(std::string_view title, const std::optional<Choice>& choice) {
    std::string out = fmt::format("<div class=\"card\"><h3>{}</h3>", title);
    if (!choice.has_value()) {
        return out + "<p class=\"muted\">None was measured.</p></div>";
    }
    std::string flags;
    for (const std::string& flag : choice->flags) {
        flags += (flags.empty() ? "" : " ") + flag;
    }
    const Figure& confirmed = choice->confirmed;
    out += fmt::format("<p><span class=\"big\">{:.2f}&times;</span> plain</p><p>{}</p><p class=\"muted\">",
                       confirmed.value, escape_html(name_of(choice->setting)));
    if (confirmed.n >= kFewPairs) {
        out += fmt::format("95 % interval {:.2f} to {:.2f}, ", confirmed.low, confirmed.high);
    }
    out += fmt::format("{} prompt{} that didn't choose it", confirmed.n, confirmed.n == 1 ? "" : "s");
    if (choice->worst.n > 0) {
        out += fmt::format("; least on {}: {:.2f}", escape_html(choice->text_class_worst), choice->worst.value);
    }
    out += "</p>";
    if (confirmed.n < kFewPairs) {
        out += "<p class=\"bad\">Too few prompts to tell it from luck: give it more --minutes.</p>";
    } else if (confirmed.low < 1.0) {
        out += "<p class=\"bad\">The interval reaches below plain: it may cost speed on such text.</p>";
    }
    return out + fmt::format("<code>{}</code></div>", escape_html(flags));
}

std::string speed_plot(const Report& report) {
    std::vector<Bar> bars;
    for (const Row* row : main_rows(report)) {
        if (bars.size() < kMostBars) {
            bars.push_back({label_of(*row, report), row->speed_up.value, row->speed_up.low, row->speed_up.high,
                            row->setting.is_relaxed() ? 1 : 0});
        }
    }
    return interval_plot("Speed-up over plain decoding, with 95 % intervals", "times plain", bars);
}

std::string acceptance_plot(const Report& report) {
    std::vector<Series> series;
    for (const bool relaxed : {false, true}) {
        for (const Row* row : main_rows(report)) {
            const size_t most = relaxed ? kMostLines : (kMostLines + 1) / 2;
            if (row->setting.is_relaxed() != relaxed || row->stands_at.empty() || series.size() >= most) {
                continue;
            }
            Series s{label_of(*row, report), {}};
            for (size_t i = 0; i < row->stands_at.size(); ++i) {
                const double y = 100.0 * row->stands_at[i];
                s.points.push_back({static_cast<double>(i + 1), y, y, y, {}});
            }
            series.push_back(std::move(s));
        }
    }
    return xy_plot(
        {"Share of drafts whose i-th token stood", "position in the draft", "% of drafts", 0.0, false, true, true},
        series);
}

std::string cost_plot(const Report& report) {
    Series s{"target", {}};
    for (const model::CostPoint& point : report.curve) {
        const double one = report.curve.front().median_ms;
        s.points.push_back(
            {static_cast<double>(point.n), point.median_ms / one, point.p10_ms / one, point.p90_ms / one, {}});
    }
    return xy_plot(
        {"Cost of a pass over n rows, in passes over one", "rows in a pass", "t(n) / t(1)", 1.0, true, true, true},
        {s});
}

std::string drift_plot(const Report& report) {
    Series strict{"strict: the text of plain decoding", {}, false};
    Series relaxed{"relaxed", {}, false};
    for (const Row* row : main_rows(report)) {
        Series& series = row->setting.is_relaxed() ? relaxed : strict;
        const std::string label = row->setting.is_relaxed() ? name_of(row->setting) : std::string();
        series.points.push_back({row->gap_per_token, row->speed_up.value, 0.0, 0.0, label});
    }
    return xy_plot({"Speed-up against drift", "nats given up per token", "times plain", 1.0, true, false, false},
                   {strict, relaxed});
}

/// Speed-up by clients of those settings that were measured with several counts.
std::string clients_plot(const Report& report) {
    std::vector<Series> series;
    for (const Row& row : report.rows) {
        if (row.setting.is_plain() || row.speed_up.n == 0 || row.temperature != report.rows.front().temperature) {
            continue;
        }
        const std::string name = label_of(row, report);
        auto found = std::find_if(series.begin(), series.end(), [&](const Series& s) { return s.name == name; });
        if (found == series.end()) {
            series.push_back({name, {}});
            found = series.end() - 1;
        }
        found->points.push_back(
            {static_cast<double>(row.clients), row.speed_up.value, row.speed_up.low, row.speed_up.high, {}});
    }
    series.erase(std::remove_if(series.begin(), series.end(), [](const Series& s) { return s.points.size() < 2; }),
                 series.end());
    return xy_plot({"Speed-up by clients", "clients at a time", "times plain", 1.0, true, false, true}, series);
}

std::string table(const Report& report) {
    std::string out =
        "<div class=\"scroll\"><table><thead><tr><th>setting</th><th>T</th><th>clients</th><th>tok/s</th>"
        "<th>speed-up</th><th>95 %</th><th>steady</th><th>with prompt</th><th>acceptance</th><th>tokens per "
        "draft</th><th>relaxed</th>"
        "<th>mean rank</th><th>nats/token</th>";
    for (const std::string& text_class : report.classes) {
        out += fmt::format("<th>{}</th>", escape_html(text_class));
    }
    out += "</tr></thead><tbody>\n";
    for (const Row& row : report.rows) {
        out += fmt::format("<tr><td>{}</td><td>{:g}</td><td>{}</td><td>{:.2f}</td>", escape_html(label_of(row, report)),
                           row.temperature, row.clients, row.tok_s);
        const bool is_compared = !row.setting.is_plain() && row.speed_up.n > 0;
        out += is_compared
                   ? fmt::format("<td>{:.2f}</td><td>{:.2f}&ndash;{:.2f}</td><td>{}</td><td>{:.2f}</td>",
                                 row.speed_up.value, row.speed_up.low, row.speed_up.high,
                                 row.steady.n > 0 ? fmt::format("{:.2f}", row.steady.value) : "", row.whole.value)
                   : "<td></td><td></td><td></td><td></td>";
        out += row.drafted
                   ? fmt::format("<td>{:.3f}</td><td>{:.2f}</td><td>{:.1f} %</td><td>{:.2f}</td><td>{:.4f}</td>",
                                 row.acceptance, row.mean_length, 100.0 * row.relaxed_share, row.mean_rank,
                                 row.gap_per_token)
                   : "<td></td><td></td><td></td><td></td><td></td>";
        for (const auto& [name, figure] : row.by_class) {
            const bool is_shown = is_compared && figure.n > 0;
            out += is_shown ? fmt::format("<td{}>{:.2f}</td>", figure.value < 1.0 ? " class=\"bad\"" : "", figure.value)
                            : "<td></td>";
        }
        out += "</tr>\n";
    }
    return out + "</tbody></table></div>";
}

std::string figure(std::string_view title, std::string_view what, const std::string& plot) {
    return fmt::format("<div class=\"card\"><h3>{}</h3>{}<p class=\"muted\">{}</p></div>\n", title, plot, what);
}

}  // namespace

std::string to_html(const Report& report) {
    std::string out(kHead);
    out += fmt::format("<h1>foresay tune</h1><p>{}<br>{}</p>", escape_html(report.model),
                       report.drafter.empty() ? "drafts from earlier text, no second model"
                                              : "drafter " + escape_html(report.drafter));
    out += fmt::format(
        "<p class=\"muted\">{}; {}, {} threads; {} tokens per text, {} prompts{}; {} measurements in {:.1f} minutes. "
        "Each "
        "setting ran each prompt once, cold, beside plain decoding of the same prompt.</p>",
        escape_html(report.description), escape_html(report.isa), report.n_threads, report.n_predict,
        report.own_prompts ? "the user's" : "built-in", report.chat_template ? " in the model's chat template" : "",
        report.samples.size(), report.seconds / 60.0);
    out += "<div class=\"grid\">\n" + choice_card("Best strict", report.strict) +
           choice_card("Best relaxed", report.relaxed) + choice_card("Adaptive, strict", report.adaptive) + "</div>\n";
    if (report.rows.empty()) {
        return out + "</body></html>\n";
    }
    out += "<h2>Plots</h2><div class=\"grid\">\n";
    out += figure("Speed-up",
                  "Times plain decoding, all text classes weighted alike; the line is the 95 % interval. "
                  "Blue: strict, orange: relaxed.",
                  speed_plot(report));
    out +=
        figure("Drift against speed-up",
               "How much log-probability relaxed tokens gave up, spread over all tokens. Strict settings give up none.",
               drift_plot(report));
    out += figure("Acceptance by position", "Of all verified drafts, how many had their i-th token accepted.",
                  acceptance_plot(report));
    out += figure("Cost curve", "What a pass of the target over n rows costs; the bars hold 80 % of the passes.",
                  cost_plot(report));
    const std::string clients = clients_plot(report);
    if (clients.rfind("<svg", 0) == 0) {
        out += figure("Clients", "Several texts at a time share the passes.", clients);
    }
    out += "</div>\n<h2>All figures</h2>\n" + table(report);
    for (const std::string& note : report.notes) {
        out += fmt::format("<p class=\"muted\">Note: {}</p>", escape_html(note));
    }
    return out + "</body></html>\n";
}

}  // namespace foresay::cli::tune
