// What templates can call, and what the calls get. Internal to jinja.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/jinja/value.h"

namespace foresay::jinja {

class Render;
struct Scope;
struct Macro;

struct Args {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
};

/// A filter, a method of a value or a global function. self: what the filter or method is applied to.
using Function = Result<Value> (*)(Render& render, const Value& self, const Args& args);
/// A test (`x is name`).
using Test = Result<bool> (*)(Render& render, const Value& self, const Args& args);

struct Callable {
    std::string name;
    Function function = nullptr;  ///< null for macros
    Value self;                   ///< the value of a bound method
    int depth = 1;                ///< of self, plus 1
    const Macro* macro = nullptr;
    std::shared_ptr<Scope> scope;  ///< where the macro was defined
};

/// The variable `loop` of one pass through a for.
struct Loop {
    std::shared_ptr<const List> items;
    size_t index = 0;
    int depth = 1;  ///< of items, plus 1
};

/// Puts arguments in the order of `names`; absent ones are null. Pointers into args.
/// Errors: too many, unknown, double or missing ones (the first n_required must be there).
Result<std::vector<const Value*>> bind(std::string_view function, const Args& args,
                                       std::initializer_list<std::string_view> names, size_t n_required);

// The tables; null where there is no such name.
Function find_filter(std::string_view name);
Test find_test(std::string_view name);
/// range, namespace, dict, raise_exception, strftime_now.
Function find_global(std::string_view name);
/// A method that values of this kind offer.
Function find_method(const Value& object, std::string_view name);
/// True if Python's type has a method of this name that the sandbox refuses (it would change the value).
bool is_refused_method(const Value& object, std::string_view name);

}  // namespace foresay::jinja
