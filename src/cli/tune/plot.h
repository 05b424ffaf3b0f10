// Small plots as inline SVG: no scripts, colours from the page's CSS classes c0..c5, readable at 360 pixels of width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foresay::cli::tune {

struct Point {
    double x = 0.0;
    double y = 0.0;
    double low = 0.0;  ///< of y; low == high: no interval is drawn
    double high = 0.0;
    std::string label;  ///< beside the point; may be empty
};

struct Series {
    std::string name;
    std::vector<Point> points;
    bool is_line = true;  ///< false: points only
};

struct Axes {
    std::string title;  ///< for screen readers
    std::string x;
    std::string y;
    double y_mark = 0.0;  ///< a dashed line at this height when has_mark
    bool has_mark = false;
    bool y_from_zero = false;
    bool x_whole = false;  ///< x counts something: no ticks between whole numbers
};

/// Lines or points over two linear axes, with a legend where there are several series.
std::string xy_plot(const Axes& axes, const std::vector<Series>& series);

struct Bar {
    std::string label;
    double value = 0.0;
    double low = 0.0;
    double high = 0.0;
    int color = 0;
};

/// One line per bar: its name, below it a point with its interval, over a common axis with a mark at 1.
std::string interval_plot(std::string_view title, std::string_view axis, const std::vector<Bar>& bars);

/// &, <, >, and quotes as entities.
std::string escape_html(std::string_view text);

/// Round steps that cover low..high, at least `least` apart: 8 values at most.
std::vector<double> ticks(double low, double high, double least = 0.0);

}  // namespace foresay::cli::tune
