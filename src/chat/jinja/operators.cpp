// Python's arithmetic, comparison and slicing on values.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/text.h"

namespace foresay::jinja {
namespace {

std::string_view symbol(Operator op) {
    static constexpr std::string_view kSymbols[] = {
        "+", "-", "*", "/", "//", "%", "** or pow()", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    return kSymbols[static_cast<size_t>(op)];
}

Error bad_types(Operator op, const Value& a, const Value& b) {
    if (op == Operator::kAdd && a.is_text()) {
        return type_error(fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
    }
    return type_error(
        fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b)));
}

Error overflow() {
    return type_error("an integer grows beyond 64 bits");
}

Result<Value> integer_power(int64_t base, int64_t exponent) {
    if (exponent < 0) {
        if (base == 0) {
            return type_error("zero can't be raised to a negative power");
        }
        return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    }
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
            return overflow();
        }
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
            return overflow();
        }
    }
    return Value(result);
}

Result<Value> integers(Operator op, int64_t a, int64_t b) {
    int64_t result = 0;
    switch (op) {
        case Operator::kAdd:
            return __builtin_add_overflow(a, b, &result) ? Result<Value>(overflow()) : Result<Value>(Value(result));
        case Operator::kSub:
            return __builtin_sub_overflow(a, b, &result) ? Result<Value>(overflow()) : Result<Value>(Value(result));
        case Operator::kMul:
            return __builtin_mul_overflow(a, b, &result) ? Result<Value>(overflow()) : Result<Value>(Value(result));
        case Operator::kPow:
            return integer_power(a, b);
        default:
            break;
    }
    if (b == 0) {
        return type_error("division by zero");
    }
    if (op == Operator::kDiv) {
        return Value(static_cast<double>(a) / static_cast<double>(b));
    }
    if (a == std::numeric_limits<int64_t>::min() && b == -1) {
        return op == Operator::kMod ? Result<Value>(Value(int64_t{0})) : Result<Value>(overflow());
    }
    // Python rounds towards minus infinity.
    const int64_t remainder = a % b;
    const bool adjusts = remainder != 0 && ((remainder < 0) != (b < 0));
    return Value(op == Operator::kMod ? remainder + (adjusts ? b : 0) : a / b - (adjusts ? 1 : 0));
}

Result<Value> floats(Operator op, double a, double b) {
    switch (op) {
        case Operator::kAdd:
            return Value(a + b);
        case Operator::kSub:
            return Value(a - b);
        case Operator::kMul:
            return Value(a * b);
        case Operator::kPow:
            return Value(std::pow(a, b));
        default:
            break;
    }
    if (b == 0.0) {
        return type_error("division by zero");
    }
    if (op == Operator::kDiv) {
        return Value(a / b);
    }
    double remainder = std::fmod(a, b);
    if (remainder != 0.0 && (remainder < 0) != (b < 0)) {
        remainder += b;
    }
    return Value(op == Operator::kMod ? remainder : std::floor((a - remainder) / b + 0.5));
}

Result<Value> repeat(Render& render, const Value& what, int64_t n) {
    const auto times = static_cast<size_t>(std::max<int64_t>(n, 0));
    if (what.is_text()) {
        const std::string& text = what.as_text();
        if (!text.empty() && times > render.max_text() / text.size()) {
            return render.check_text(std::numeric_limits<size_t>::max()).error();
        }
        std::string out;
        out.reserve(text.size() * times);
        for (size_t i = 0; i < times && !text.empty(); ++i) {
            out += text;
        }
        return render.text(std::move(out));
    }
    const List& list = what.as_list();
    const size_t n_items = list.items.size();
    if (n_items > 0 && times > render.options().limits.max_steps / n_items) {
        return render.charge(std::numeric_limits<size_t>::max()).error();
    }
    FORESAY_CHECK_OK(render.charge(n_items * times));
    if (n_items * times > render.options().limits.max_live_bytes / sizeof(Value)) {
        return error(Code::kCapacity, "a list grows too long");
    }
    std::vector<Value> items;
    items.reserve(n_items * times);
    for (size_t i = 0; i < times && n_items > 0; ++i) {
        items.insert(items.end(), list.items.begin(), list.items.end());
    }
    return render.list(std::move(items), list.form);
}

bool is_sequence(const Value& value) {
    return value.is_text() || (value.is_list() && (value.as_list().form == List::Form::kList ||
                                                   value.as_list().form == List::Form::kTuple));
}

Result<Value> add(Render& render, const Value& a, const Value& b) {
    if (a.is_text() && b.is_text() && (a.is_markup() || b.is_markup())) {
        const std::string left = a.is_markup() ? a.as_text() : html_escaped(a.as_text());
        return render.text(left + (b.is_markup() ? b.as_text() : html_escaped(b.as_text())), true);
    }
    if (a.is_text() && b.is_text()) {
        FORESAY_CHECK_OK(render.check_text(a.as_text().size() + b.as_text().size()));
        return render.text(a.as_text() + b.as_text());
    }
    if (a.is_list() && b.is_list() && is_sequence(a) && is_sequence(b) && a.as_list().form == b.as_list().form) {
        std::vector<Value> items = a.as_list().items;
        items.insert(items.end(), b.as_list().items.begin(), b.as_list().items.end());
        return render.list(std::move(items), a.as_list().form);
    }
    return bad_types(Operator::kAdd, a, b);
}

}  // namespace

Result<Value> binary(Render& render, Operator op, const Value& a, const Value& b) {
    if (a.is_undefined() || b.is_undefined()) {
        return Render::undefined_error(a.is_undefined() ? a : b);
    }
    if (a.is_number() && b.is_number()) {
        return a.is_integer() && b.is_integer() ? integers(op, a.as_integer(), b.as_integer())
                                                : floats(op, a.as_float(), b.as_float());
    }
    if (op == Operator::kAdd) {
        return add(render, a, b);
    }
    if (op == Operator::kMul && is_sequence(a) && b.is_integer()) {
        return repeat(render, a, b.as_integer());
    }
    if (op == Operator::kMul && is_sequence(b) && a.is_integer()) {
        return repeat(render, b, a.as_integer());
    }
    if (op == Operator::kMod && a.is_text()) {
        FORESAY_TRY(std::string text, format_percent(render, a.as_text(), b));
        return render.text(std::move(text));
    }
    return bad_types(op, a, b);
}

Result<bool> compare_values(Render& render, Operator op, const Value& a, const Value& b) {
    switch (op) {
        case Operator::kEq:
            return render.equal(a, b);
        case Operator::kNe: {
            FORESAY_TRY(const bool same, render.equal(a, b));
            return !same;
        }
        case Operator::kLt:
            return render.less(a, b);
        case Operator::kGt:
            return render.less(b, a);
        case Operator::kLe:
        case Operator::kGe: {
            // Not the negation of the other order: comparisons with NaN are all false.
            FORESAY_TRY(const bool below, op == Operator::kLe ? render.less(a, b) : render.less(b, a));
            return below ? Result<bool>(true) : render.equal(a, b);
        }
        case Operator::kIn:
            return render.contains(b, a);
        default: {
            FORESAY_TRY(const bool found, render.contains(b, a));
            return !found;
        }
    }
}

Result<Value> slice_value(Render& render, const Value& value, const Value* from, const Value* to, const Value* step) {
    if (value.is_undefined()) {
        return Render::undefined_error(value);
    }
    if (!is_sequence(value)) {
        return Render::missing(fmt::format("'{}' can't be sliced", object_name(value)));
    }
    const auto integer = [](const Value* part, int64_t fallback) -> Result<int64_t> {
        if (part == nullptr || part->is_none()) {
            return fallback;
        }
        if (!part->is_integer()) {
            return type_error("slice indices must be integers or None");
        }
        return part->as_integer();
    };
    const bool is_text = value.is_text();
    const int64_t length = is_text ? text_length(value.as_text()) : static_cast<int64_t>(value.as_list().items.size());
    FORESAY_TRY(const int64_t by, integer(step, 1));
    if (by == 0) {
        return type_error("slice step cannot be zero");
    }
    const bool forward = by > 0;
    const auto clip = [&](int64_t i) {
        const int64_t at = i < 0 ? (i < -length ? -1 : i + length) : i;
        return forward ? std::clamp<int64_t>(at, 0, length) : std::clamp<int64_t>(at, -1, length - 1);
    };
    FORESAY_TRY(const int64_t first, integer(from, forward ? 0 : length - 1));
    FORESAY_TRY(const int64_t last, integer(to, forward ? length : -length - 1));
    const int64_t begin = clip(first);
    const int64_t end = clip(last);
    if (is_text) {
        const std::string& text = value.as_text();
        FORESAY_CHECK_OK(render.charge_text(text.size()));
        if (by == 1) {
            const size_t at = text_offset(text, begin);
            return render.text(begin < end ? text.substr(at, text_offset(text, end) - at) : std::string());
        }
    }
    FORESAY_TRY(const std::shared_ptr<const List> all, render.items(value));
    std::vector<Value> items;
    // The distance first: begin + by could pass the largest integer.
    for (int64_t i = begin; forward ? i < end : i > end;) {
        items.push_back(all->items[static_cast<size_t>(i)]);
        if (forward ? by >= end - i : by <= end - i) {
            break;
        }
        i += by;
    }
    if (!is_text) {
        return render.list(std::move(items), value.as_list().form);
    }
    std::string text;
    for (const Value& item : items) {
        text += item.as_text();
    }
    return render.text(std::move(text));
}

}  // namespace foresay::jinja
