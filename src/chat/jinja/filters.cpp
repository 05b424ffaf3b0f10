// The table of filters, and those of single values.
#include "chat/jinja/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "chat/jinja/text.h"

namespace foresay::jinja {
namespace {

Result<Value> absolute(Render&, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("abs", args, {}, 0));
    (void)bound;
    if (self.kind() == Kind::kFloat) {
        return Value(std::abs(self.as_float()));
    }
    if (!self.is_integer() || self.as_integer() == INT64_MIN) {
        return type_error(fmt::format("bad operand type for abs(): '{}'", type_name(self)));
    }
    return Value(std::abs(self.as_integer()));
}

Result<Value> attr(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("attr", args, {"name"}, 1));
    if (!bound[0]->is_text()) {
        return type_error("attr needs a name");
    }
    // Only attributes: the items of a dict aren't any.
    return self.is_dict() && find_method(self, bound[0]->as_text()) == nullptr
               ? Result<Value>(Render::missing(fmt::format("'dict object' has no attribute '{}'", bound[0]->as_text())))
               : render.attribute(self, bound[0]->as_text());
}

Result<Value> fallback(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("default", args, {"default_value", "boolean"}, 0));
    const bool by_truth = bound[1] != nullptr && is_true(*bound[1]);
    if (!self.is_undefined() && !(by_truth && !is_true(self))) {
        return self;
    }
    return bound[0] != nullptr ? Result<Value>(*bound[0]) : render.text("");
}

Result<Value> to_integer(Render&, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("int", args, {"default", "base"}, 0));
    const Value otherwise = bound[0] != nullptr ? *bound[0] : Value(int64_t{0});
    if (self.is_integer()) {
        return Value(self.as_integer());
    }
    if (self.kind() == Kind::kFloat) {
        const double number = self.as_float();
        return std::abs(number) < 9.2e18 ? Value(static_cast<int64_t>(number)) : otherwise;
    }
    if (!self.is_text()) {
        return otherwise;
    }
    int base = 10;
    if (bound[1] != nullptr) {
        if (!bound[1]->is_integer() || bound[1]->as_integer() < 2 || bound[1]->as_integer() > 36) {
            return type_error("int: the base must be from 2 to 36");
        }
        base = static_cast<int>(bound[1]->as_integer());
    }
    std::string digits(strip(self.as_text(), Side::kBoth));
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    const size_t sign = !digits.empty() && digits[0] == '+' ? 1 : 0;
    int64_t number = 0;
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data() + sign, end, number, base);
    if (parsed.ec == std::errc() && parsed.ptr == end && sign < digits.size()) {
        return Value(number);
    }
    double real = 0;
    const auto as_real = std::from_chars(digits.data() + sign, end, real);
    if (as_real.ec == std::errc() && as_real.ptr == end && sign < digits.size() && std::abs(real) < 9.2e18) {
        return Value(static_cast<int64_t>(real));
    }
    return otherwise;
}

Result<Value> to_float(Render&, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("float", args, {"default"}, 0));
    const Value otherwise = bound[0] != nullptr ? *bound[0] : Value(0.0);
    if (self.is_number()) {
        return Value(self.as_float());
    }
    if (!self.is_text()) {
        return otherwise;
    }
    const std::string_view text = strip(self.as_text(), Side::kBoth);
    double number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    return !text.empty() && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? Value(number)
                                                                                                : otherwise;
}

Result<Value> rounded(Render&, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("round", args, {"precision", "method"}, 0));
    if (!self.is_number() || (bound[0] != nullptr && !bound[0]->is_integer())) {
        return type_error(fmt::format("round needs a number, not {}", type_name(self)));
    }
    const int64_t precision = bound[0] != nullptr ? bound[0]->as_integer() : 0;
    if (precision < -300 || precision > 300) {
        return type_error("round: the precision is out of range");
    }
    const std::string method = bound[1] != nullptr && bound[1]->is_text() ? bound[1]->as_text() : "common";
    if (method != "common" && method != "ceil" && method != "floor") {
        return type_error("round: the method must be common, ceil or floor");
    }
    if (method == "common") {
        if (self.is_integer() && precision >= 0) {
            return Value(self.as_integer());
        }
        // Correctly rounded from the exact binary value, as Python's round() is.
        const std::string text =
            precision >= 0
                ? fmt::format("{:.{}f}", self.as_float(), precision)
                : fmt::format("{}", std::nearbyint(self.as_float() * std::pow(10.0, static_cast<double>(precision))) *
                                        std::pow(10.0, static_cast<double>(-precision)));
        double number = 0;
        std::from_chars(text.data(), text.data() + text.size(), number);
        return Value(number);
    }
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = self.as_float() * scale;
    return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result<Value> length(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("length", args, {}, 0));
    (void)bound;
    switch (self.kind()) {
        case Kind::kUndefined:
            return Value(int64_t{0});
        case Kind::kText:
            FORESAY_CHECK_OK(render.charge_text(self.as_text().size()));
            return Value(text_length(self.as_text()));
        case Kind::kList:
            if (self.as_list().form != List::Form::kGenerator) {
                return Value(static_cast<int64_t>(self.as_list().items.size()));
            }
            break;
        case Kind::kDict:
            return Value(static_cast<int64_t>(self.as_dict().entries.size()));
        default:
            break;
    }
    return type_error(fmt::format("object of type '{}' has no len()", type_name(self)));
}

struct Entry {
    std::string_view name;
    Function function;
};

constexpr Entry kFilters[] = {
    {"abs", absolute},
    {"attr", attr},
    {"batch", filters::batch},
    {"capitalize", filters::capitalize},
    {"center", filters::center},
    {"count", length},
    {"d", fallback},
    {"default", fallback},
    {"dictsort", filters::dictsort},
    {"e", filters::escape},
    {"escape", filters::escape},
    {"first", filters::first},
    {"float", to_float},
    {"format", filters::format},
    {"from_json", filters::from_json},
    {"groupby", filters::groupby},
    {"indent", filters::indent},
    {"int", to_integer},
    {"items", filters::items},
    {"join", filters::join},
    {"last", filters::last},
    {"length", length},
    {"list", filters::list},
    {"lower", filters::lower},
    {"map", filters::map},
    {"max", filters::max},
    {"min", filters::min},
    {"reject", filters::reject},
    {"rejectattr", filters::rejectattr},
    {"replace", filters::replace},
    {"reverse", filters::reverse},
    {"round", rounded},
    {"safe", filters::safe},
    {"select", filters::select},
    {"selectattr", filters::selectattr},
    {"sort", filters::sort},
    {"string", filters::string},
    {"sum", filters::sum},
    {"title", filters::title},
    {"tojson", filters::tojson},
    {"trim", filters::trim},
    {"truncate", filters::truncate},
    {"unique", filters::unique},
    {"upper", filters::upper},
    {"urlencode", filters::urlencode},
    {"wordcount", filters::wordcount},
};

}  // namespace

Function find_filter(std::string_view name) {
    const auto* const found =
        std::find_if(std::begin(kFilters), std::end(kFilters), [&](const Entry& entry) { return entry.name == name; });
    return found == std::end(kFilters) ? nullptr : found->function;
}

}  // namespace foresay::jinja
