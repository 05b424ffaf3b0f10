// The tests of `x is name`.
#include <fmt/format.h>

#include <algorithm>

#include "chat/jinja/interpreter.h"
#include "chat/jinja/text.h"

namespace foresay::jinja {
namespace {

template <Operator op>
Result<bool> compared(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("the test", args, {"other"}, 1));
    return compare_values(render, op, self, *bound[0]);
}

/// A test without arguments that only looks at the value.
template <bool (*holds)(const Value&)>
Result<bool> plain(Render&, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("the test", args, {}, 0));
    (void)bound;
    return holds(self);
}

bool is_sequence(const Value& v) {
    return v.is_text() || v.is_dict() ||
           (v.is_list() && (v.as_list().form == List::Form::kList || v.as_list().form == List::Form::kTuple)) ||
           v.is_undefined();
}

bool is_iterable(const Value& v) {
    return v.is_text() || v.is_dict() || v.is_list() || v.is_undefined();
}

Result<bool> parity(const Value& self, int64_t rest) {
    if (!self.is_integer()) {
        return self.is_undefined() ? Render::undefined_error(self)
                                   : type_error(fmt::format("a number is needed, not {}", type_name(self)));
    }
    return (self.as_integer() % 2 != 0 ? 1 : 0) == rest;
}

Result<bool> is_even(Render&, const Value& self, const Args&) {
    return parity(self, 0);
}

Result<bool> is_odd(Render&, const Value& self, const Args&) {
    return parity(self, 1);
}

Result<bool> is_divisible(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("divisibleby", args, {"num"}, 1));
    FORESAY_TRY(const Value rest, binary(render, Operator::kMod, self, *bound[0]));
    return !is_true(rest);
}

Result<bool> is_same(Render&, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("sameas", args, {"other"}, 1));
    const Value& other = *bound[0];
    if (self.kind() != other.kind()) {
        return false;
    }
    // Python's identity, as far as templates can rely on it: constants and numbers by value, the rest by being one
    // object.
    switch (self.kind()) {
        case Kind::kText:
            return &self.as_text() == &other.as_text() || self.as_text() == other.as_text();
        case Kind::kList:
            return &self.as_list() == &other.as_list();
        case Kind::kDict:
            return &self.as_dict() == &other.as_dict();
        default: {
            size_t budget = 16;
            return is_equal(self, other, &budget);
        }
    }
}

Result<bool> is_in(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("in", args, {"seq"}, 1));
    return render.contains(*bound[0], self);
}

Result<bool> is_filter(Render&, const Value& self, const Args&) {
    return self.is_text() && find_filter(self.as_text()) != nullptr;
}

Result<bool> is_test(Render&, const Value& self, const Args&) {
    return self.is_text() && find_test(self.as_text()) != nullptr;
}

struct Entry {
    std::string_view name;
    Test test;
};

constexpr Entry kTests[] = {
    {"defined", plain<[](const Value& v) { return !v.is_undefined(); }>},
    {"undefined", plain<[](const Value& v) { return v.is_undefined(); }>},
    {"none", plain<[](const Value& v) { return v.is_none(); }>},
    {"string", plain<[](const Value& v) { return v.is_text(); }>},
    {"number", plain<[](const Value& v) { return v.is_number(); }>},
    {"integer", plain<[](const Value& v) { return v.kind() == Kind::kInt; }>},
    {"float", plain<[](const Value& v) { return v.kind() == Kind::kFloat; }>},
    {"boolean", plain<[](const Value& v) { return v.kind() == Kind::kBool; }>},
    {"true", plain<[](const Value& v) { return v.kind() == Kind::kBool && v.as_bool(); }>},
    {"false", plain<[](const Value& v) { return v.kind() == Kind::kBool && !v.as_bool(); }>},
    {"mapping", plain<[](const Value& v) { return v.is_dict(); }>},
    {"sequence", plain<is_sequence>},
    {"iterable", plain<is_iterable>},
    {"callable", plain<[](const Value& v) { return v.kind() == Kind::kCallable || v.is_undefined(); }>},
    {"escaped", plain<[](const Value&) { return false; }>},
    {"lower", plain<[](const Value& v) { return v.is_text() && has_class(v.as_text(), TextClass::kLower); }>},
    {"upper", plain<[](const Value& v) { return v.is_text() && has_class(v.as_text(), TextClass::kUpper); }>},
    {"even", is_even},
    {"odd", is_odd},
    {"divisibleby", is_divisible},
    {"sameas", is_same},
    {"in", is_in},
    {"filter", is_filter},
    {"test", is_test},
    {"eq", compared<Operator::kEq>},
    {"equalto", compared<Operator::kEq>},
    {"==", compared<Operator::kEq>},
    {"ne", compared<Operator::kNe>},
    {"!=", compared<Operator::kNe>},
    {"lt", compared<Operator::kLt>},
    {"lessthan", compared<Operator::kLt>},
    {"<", compared<Operator::kLt>},
    {"le", compared<Operator::kLe>},
    {"<=", compared<Operator::kLe>},
    {"gt", compared<Operator::kGt>},
    {"greaterthan", compared<Operator::kGt>},
    {">", compared<Operator::kGt>},
    {"ge", compared<Operator::kGe>},
    {">=", compared<Operator::kGe>},
};

}  // namespace

Test find_test(std::string_view name) {
    const auto* const found =
        std::find_if(std::begin(kTests), std::end(kTests), [&](const Entry& entry) { return entry.name == name; });
    return found == std::end(kTests) ? nullptr : found->test;
}

}  // namespace foresay::jinja
