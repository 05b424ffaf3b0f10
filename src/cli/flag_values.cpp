#include "cli/flag_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

namespace foresay::cli {
namespace {

Error bad_value(std::string message) {
    return error(Code::kInvalidArgument, std::move(message));
}

std::string range_text(const std::string& low, const std::string& high, bool open_above) {
    return open_above ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high);
}

}  // namespace

Result<int64_t> parse_int(std::string_view text, int64_t low, int64_t high) {
    int64_t value = 0;
    const char* begin = text.data();
    const char* end = begin + text.size();
    if (begin != end && *begin == '+') {
        ++begin;
    }
    const auto [rest, code] = std::from_chars(begin, end, value);
    if (code == std::errc::result_out_of_range) {
        return bad_value(fmt::format("'{}' is too large", text));
    }
    if (code != std::errc() || rest != end || begin == end) {
        return bad_value(fmt::format("'{}' is not a whole number", text));
    }
    if (value < low || value > high) {
        return bad_value(fmt::format("{} is out of range: {}", value,
                                     range_text(std::to_string(low), std::to_string(high), high >= kMaxInt)));
    }
    return value;
}

Result<double> parse_float(std::string_view text, double low, double high) {
    double value = 0.0;
    const char* begin = text.data();
    const char* end = begin + text.size();
    if (begin != end && *begin == '+') {
        ++begin;
    }
    const auto [rest, code] = std::from_chars(begin, end, value);
    if (code != std::errc() || rest != end || begin == end || !std::isfinite(value)) {
        return bad_value(fmt::format("'{}' is not a number", text));
    }
    if (value < low || value > high) {
        return bad_value(fmt::format("{} is out of range: {}", value,
                                     range_text(fmt::format("{}", low), fmt::format("{}", high), high >= 1e30)));
    }
    return value;
}

Result<bool> parse_bool(std::string_view text) {
    for (const std::string_view word : {"1", "true", "on", "enabled"}) {
        if (text == word) {
            return true;
        }
    }
    for (const std::string_view word : {"0", "false", "off", "disabled"}) {
        if (text == word) {
            return false;
        }
    }
    return bad_value(fmt::format("'{}' is neither on (1, true, on, enabled) nor off (0, false, off, disabled)", text));
}

Result<std::string> parse_choice(std::string_view text, const std::vector<std::string>& choices) {
    if (std::find(choices.begin(), choices.end(), text) != choices.end()) {
        return std::string(text);
    }
    const std::string near = nearest_word(text, choices);
    return bad_value(fmt::format("unknown value '{}'{}; known: {}", text,
                                 near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), join(choices)));
}

Result<DType> parse_cache_type(std::string_view text) {
    if (text == "f32") {
        return DType::kF32;
    }
    if (text == "f16") {
        return DType::kF16;
    }
    if (text == "q8_0") {
        return DType::kQ8_0;
    }
    for (const std::string_view known : {"bf16", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"}) {
        if (text == known) {
            return bad_value(fmt::format("the cache type '{}' is not supported yet; supported: f32, f16, q8_0", text));
        }
    }
    return bad_value(fmt::format("unknown cache type '{}'; supported: f32, f16, q8_0", text));
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    size_t begin = 0;
    while (begin <= text.size()) {
        const size_t end = std::min(text.find(separator, begin), text.size());
        if (end > begin) {
            parts.emplace_back(text.substr(begin, end - begin));
        }
        begin = end + 1;
    }
    return parts;
}

std::string join(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) {
        text += text.empty() ? part : ", " + part;
    }
    return text;
}

Result<std::string> read_text_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) {
        return error(Code::kIo, fmt::format("cannot read the file '{}'", path));
    }
    return text.str();
}

Setter to_int(Target<int32_t> target, int64_t low, int64_t high) {
    return [=](Options& options, std::string_view text) -> Status {
        FORESAY_TRY(const int64_t value, parse_int(text, low, high));
        target(options) = static_cast<int32_t>(value);
        return ok();
    };
}

Setter to_float(Target<float> target, double low, double high) {
    return [=](Options& options, std::string_view text) -> Status {
        FORESAY_TRY(const double value, parse_float(text, low, high));
        target(options) = static_cast<float>(value);
        return ok();
    };
}

Setter to_text(Target<std::string> target) {
    return [=](Options& options, std::string_view text) -> Status {
        target(options) = std::string(text);
        return ok();
    };
}

Setter to_nonempty_text(Target<std::string> target) {
    return [=](Options& options, std::string_view text) -> Status {
        if (text.empty()) {
            return bad_value("the value must not be empty");
        }
        target(options) = std::string(text);
        return ok();
    };
}

Setter to_choice(Target<std::string> target, std::vector<std::string> choices) {
    return [target, choices = std::move(choices)](Options& options, std::string_view text) -> Status {
        FORESAY_TRY(target(options), parse_choice(text, choices));
        return ok();
    };
}

Setter to_bool(Target<bool> target) {
    return [=](Options& options, std::string_view text) -> Status {
        FORESAY_TRY(target(options), parse_bool(text));
        return ok();
    };
}

Setter to_switch(Target<bool> target, bool value) {
    return [=](Options& options, std::string_view) -> Status {
        target(options) = value;
        return ok();
    };
}

Setter to_type(Target<DType> target) {
    return [=](Options& options, std::string_view text) -> Status {
        FORESAY_TRY(target(options), parse_cache_type(text));
        return ok();
    };
}

Setter check_int(int64_t low, int64_t high) {
    return [=](Options&, std::string_view text) -> Status {
        FORESAY_TRY([[maybe_unused]] const int64_t value, parse_int(text, low, high));
        return ok();
    };
}

Setter check_float(double low, double high) {
    return [=](Options&, std::string_view text) -> Status {
        FORESAY_TRY([[maybe_unused]] const double value, parse_float(text, low, high));
        return ok();
    };
}

Setter check_choice(std::vector<std::string> choices) {
    return [choices = std::move(choices)](Options&, std::string_view text) -> Status {
        FORESAY_TRY([[maybe_unused]] const std::string value, parse_choice(text, choices));
        return ok();
    };
}

Setter check_layers() {
    return [](Options&, std::string_view text) -> Status {
        if (text == "auto" || text == "all") {
            return ok();
        }
        FORESAY_TRY([[maybe_unused]] const int64_t value, parse_int(text, -2, kMaxInt));
        return ok();
    };
}

Setter check_bool() {
    return [](Options&, std::string_view text) -> Status {
        FORESAY_TRY([[maybe_unused]] const bool value, parse_bool(text));
        return ok();
    };
}

Setter check_anything() {
    return [](Options&, std::string_view) -> Status { return ok(); };
}

}  // namespace foresay::cli
