#include "cli/tune/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foresay::cli::tune {
namespace {

constexpr double kWidth = 400.0;
constexpr double kLeft = 44.0;
constexpr double kRight = 14.0;
constexpr double kTop = 12.0;
constexpr double kPlotHeight = 220.0;
constexpr int kColors = 6;

/// A range of values on a range of pixels.
struct Scale {
    double low = 0.0;
    double high = 1.0;
    double from = 0.0;
    double to = 1.0;

    double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

Scale make_scale(double low, double high, double from, double to) {
    if (!(high > low)) {
        const double around = std::max(0.1, std::abs(low) * 0.1);
        low -= around;
        high += around;
    }
    return {low, high, from, to};
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text, std::string_view more = {}) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>", x, y, anchor, more,
                       escape_html(text));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view css) {
    return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>", x1, y1, x2, y2,
                       css);
}

std::string open_svg(double height, std::string_view title) {
    return fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\"><title>{}</title>", kWidth,
                       height, escape_html(title), escape_html(title));
}

struct Bounds {
    double x_low = 1e300;
    double x_high = -1e300;
    double y_low = 1e300;
    double y_high = -1e300;
};

Bounds bounds_of(const Axes& axes, const std::vector<Series>& series) {
    Bounds b;
    for (const Series& s : series) {
        for (const Point& p : s.points) {
            b.x_low = std::min(b.x_low, p.x);
            b.x_high = std::max(b.x_high, p.x);
            b.y_low = std::min({b.y_low, p.y, p.low < p.high ? p.low : p.y});
            b.y_high = std::max({b.y_high, p.y, p.low < p.high ? p.high : p.y});
        }
    }
    if (axes.has_mark) {
        b.y_low = std::min(b.y_low, axes.y_mark);
        b.y_high = std::max(b.y_high, axes.y_mark);
    }
    b.y_low = axes.y_from_zero ? std::min(0.0, b.y_low) : b.y_low;
    return b;
}

std::string legend(const std::vector<Series>& series, double y) {
    std::string out;
    for (size_t i = 0; i < series.size(); ++i) {
        const double at = y + 16.0 * static_cast<double>(i);
        out += fmt::format("<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" class=\"f{}\"/>", kLeft,
                           at - 9.0, i % kColors);
        out += text_at(kLeft + 16.0, at, "start", series[i].name);
    }
    return out;
}

std::string drawn(const Series& s, size_t color, const Scale& x, const Scale& y) {
    std::string out;
    std::string path;
    for (const Point& p : s.points) {
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x.at(p.x), y.at(p.y));
        if (p.low < p.high) {
            out += line(x.at(p.x), y.at(p.low), x.at(p.x), y.at(p.high), fmt::format("s{} thin", color));
        }
        out += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" class=\"f{}\"><title>{}{:.3g}: {:.3g}</title></circle>",
            x.at(p.x), y.at(p.y), color, p.label.empty() ? "" : escape_html(p.label) + ", ", p.x, p.y);
        if (!p.label.empty()) {
            const bool is_right = x.at(p.x) > 0.65 * kWidth;
            out += text_at(x.at(p.x) + (is_right ? -7.0 : 7.0), y.at(p.y) - 5.0, is_right ? "end" : "start", p.label,
                           " class=\"small\"");
        }
    }
    return s.is_line && s.points.size() > 1 ? fmt::format("<path d=\"{}\" class=\"s{}\"/>", path, color) + out : out;
}

}  // namespace

std::string escape_html(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

std::vector<double> ticks(double low, double high, double least) {
    constexpr double kMost = 7.0;
    if (!(high > low)) {
        return {low};
    }
    const double rough = (high - low) / kMost;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    double step = 10.0 * power;
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= rough) {
            step = factor * power;
            break;
        }
    }
    step = std::max(step, least);
    std::vector<double> values;
    const double first = std::ceil(low / step - 1e-9);
    for (double i = first; i * step <= high + 1e-9 * step; i += 1.0) {
        values.push_back(i == 0.0 ? 0.0 : i * step);
    }
    return values;
}

std::string xy_plot(const Axes& axes, const std::vector<Series>& series) {
    const bool has_points =
        std::any_of(series.begin(), series.end(), [](const Series& s) { return !s.points.empty(); });
    if (!has_points) {
        return "<p class=\"muted\">Not measured in this run.</p>";
    }
    const bool has_legend = series.size() > 1;
    const double bottom = kTop + kPlotHeight;
    const double height = bottom + 40.0 + (has_legend ? 10.0 + 16.0 * static_cast<double>(series.size()) : 0.0);
    const Bounds b = bounds_of(axes, series);
    const double pad = 0.05 * (b.y_high - b.y_low);
    const Scale x = make_scale(b.x_low, b.x_high, kLeft + 8.0, kWidth - kRight - 8.0);
    const Scale y = make_scale(axes.y_from_zero ? b.y_low : b.y_low - pad, b.y_high + pad, bottom, kTop);
    std::string out = open_svg(height, axes.title);
    for (const double tick : ticks(y.low, y.high)) {
        out += line(kLeft, y.at(tick), kWidth - kRight, y.at(tick), "grid");
        out += text_at(kLeft - 6.0, y.at(tick) + 4.0, "end", fmt::format("{:.4g}", tick));
    }
    for (const double tick : ticks(x.low, x.high, axes.x_whole ? 1.0 : 0.0)) {
        out += text_at(x.at(tick), bottom + 16.0, "middle", fmt::format("{:.4g}", tick));
    }
    if (axes.has_mark) {
        out += line(kLeft, y.at(axes.y_mark), kWidth - kRight, y.at(axes.y_mark), "mark");
    }
    for (size_t i = 0; i < series.size(); ++i) {
        out += drawn(series[i], i % kColors, x, y);
    }
    out += text_at(kWidth - kRight, bottom + 32.0, "end", axes.x, " class=\"muted\"");
    out += text_at(kLeft + 4.0, kTop + 2.0, "start", axes.y, " class=\"muted\"");
    return out + (has_legend ? legend(series, bottom + 52.0) : "") + "</svg>";
}

std::string interval_plot(std::string_view title, std::string_view axis, const std::vector<Bar>& bars) {
    if (bars.empty()) {
        return "<p class=\"muted\">Not measured in this run.</p>";
    }
    constexpr double kRow = 34.0;
    double low = 1.0;
    double high = 1.0;
    for (const Bar& bar : bars) {
        low = std::min({low, bar.low, bar.value});
        high = std::max({high, bar.high, bar.value});
    }
    const double bottom = kTop + kRow * static_cast<double>(bars.size());
    const Scale x = make_scale(low, high, 14.0, kWidth - 60.0);
    std::string out = open_svg(bottom + 34.0, title);
    for (const double tick : ticks(x.low, x.high)) {
        out += line(x.at(tick), kTop, x.at(tick), bottom, "grid");
        out += text_at(x.at(tick), bottom + 14.0, "middle", fmt::format("{:.4g}", tick));
    }
    out += line(x.at(1.0), kTop, x.at(1.0), bottom, "mark");
    for (size_t i = 0; i < bars.size(); ++i) {
        const Bar& bar = bars[i];
        const double y = kTop + kRow * static_cast<double>(i) + 14.0;
        out += text_at(2.0, y, "start", bar.label);
        out += line(x.at(bar.low), y + 11.0, x.at(bar.high), y + 11.0, fmt::format("s{} wide", bar.color));
        out += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" class=\"f{}\"><title>{:.3f}, {:.3f} to "
            "{:.3f}</title></circle>",
            x.at(bar.value), y + 11.0, bar.color, bar.value, bar.low, bar.high);
        out += text_at(kWidth - 2.0, y + 15.0, "end", fmt::format("{:.2f}", bar.value));
    }
    out += text_at(kWidth - 2.0, bottom + 30.0, "end", axis, " class=\"muted\"");
    return out + "</svg>";
}

}  // namespace foresay::cli::tune
