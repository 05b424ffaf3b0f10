#include "chat/jinja/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "chat/jinja/text.h"

namespace foresay::jinja {
namespace {

Result<Value> loop_attribute(Render& render, const Loop& loop, std::string_view name) {
    const auto index = static_cast<int64_t>(loop.index);
    const auto length = static_cast<int64_t>(loop.items->items.size());
    const std::pair<std::string_view, int64_t> numbers[] = {{"index", index + 1},
                                                            {"index0", index},
                                                            {"revindex", length - index},
                                                            {"revindex0", length - index - 1},
                                                            {"length", length},
                                                            {"depth", 1},
                                                            {"depth0", 0}};  // these count recursion, not nesting
    for (const auto& [key, number] : numbers) {
        if (key == name) {
            return Value(number);
        }
    }
    if (name == "first" || name == "last") {
        return Value(name == "first" ? index == 0 : index + 1 == length);
    }
    if (name == "previtem") {
        return index > 0 ? loop.items->items[loop.index - 1] : Render::missing("there is no previous item");
    }
    if (name == "nextitem") {
        return index + 1 < length ? loop.items->items[loop.index + 1] : Render::missing("there is no next item");
    }
    (void)render;
    return Render::missing(fmt::format("'loop' has no attribute '{}'", name));
}

/// The value of a bound method, or what stands for one that templates may not use; nullopt-like undefined otherwise.
Result<Value> method(Render& render, const Value& object, std::string_view name, bool* found) {
    *found = true;
    if (const Function function = find_method(object, name); function != nullptr) {
        Callable bound;
        bound.name = std::string(name);
        bound.function = function;
        bound.self = object;
        bound.depth = object.depth() + 1;
        return render.callable(std::move(bound));
    }
    if (is_refused_method(object, name)) {
        return Render::missing(
            fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(object)));
    }
    *found = false;
    return Value();
}

Value no_attribute(const Value& object, std::string_view name) {
    return Render::missing(fmt::format("'{}' has no attribute '{}'", object_name(object), name));
}

bool is_dunder(std::string_view name) {
    return name.size() >= 2 && name.substr(0, 2) == "__";
}

}  // namespace

Error type_error(std::string message) {
    return error(Code::kInvalidArgument, std::move(message));
}

Render::~Render() {
    for (const auto& ns : namespaces) {
        ns->attributes.clear();
    }
}

Status Render::charge(size_t n) {
    const size_t left = options_.limits.max_steps - steps_;
    if (n > left) {
        steps_ = options_.limits.max_steps;
        return error(Code::kCapacity,
                     fmt::format("the template runs for more than {} steps", options_.limits.max_steps));
    }
    steps_ += n;
    return ok();
}

Status Render::check_text(size_t bytes) const {
    return bytes <= max_text()
               ? ok()
               : Status(error(Code::kCapacity, fmt::format("a string grows beyond {} bytes", max_text())));
}

Status Render::check_memory() const {
    return meter.live_bytes <= options_.limits.max_live_bytes
               ? ok()
               : Status(error(Code::kCapacity, fmt::format("the template's values take more than {} bytes",
                                                           options_.limits.max_live_bytes)));
}

Result<Value> Render::text(std::string text, bool is_markup) {
    FORESAY_CHECK_OK(check_text(text.size()));
    FORESAY_CHECK_OK(charge_text(text.size()));
    auto made = std::make_shared<const Text>(std::move(text), &meter, is_markup);
    FORESAY_CHECK_OK(check_memory());
    return Value(std::move(made));
}

Result<Value> Render::list(std::vector<Value> items, List::Form form) {
    FORESAY_CHECK_OK(charge(1 + items.size()));
    auto made = std::make_shared<const List>(std::move(items), form, &meter);
    FORESAY_CHECK_OK(check_memory());
    if (made->depth > kMaxValueDepth) {
        return error(Code::kCapacity, fmt::format("a list is nested deeper than {} levels", kMaxValueDepth));
    }
    return Value(std::move(made));
}

Result<Value> Render::dict(Entries entries) {
    FORESAY_CHECK_OK(charge(1 + entries.size() * 2));
    auto made = std::make_shared<const Dict>(std::move(entries), &meter);
    FORESAY_CHECK_OK(check_memory());
    if (made->depth > kMaxValueDepth) {
        return error(Code::kCapacity, fmt::format("a dict is nested deeper than {} levels", kMaxValueDepth));
    }
    return Value(std::move(made));
}

Result<Value> Render::name_space(std::vector<std::pair<std::string, Value>> attributes) {
    FORESAY_CHECK_OK(charge(8 + attributes.size()));
    auto made = std::make_shared<Namespace>();
    made->attributes = std::move(attributes);
    namespaces.push_back(made);
    meter.live_bytes += sizeof(Namespace) + 256;  // never taken off: namespaces stay to the end
    FORESAY_CHECK_OK(check_memory());
    return Value(std::move(made));
}

Result<Value> Render::callable(Callable callable) {
    if (callable.depth > kMaxValueDepth) {
        return error(Code::kCapacity, fmt::format("a value is nested deeper than {} levels", kMaxValueDepth));
    }
    return Value(std::make_shared<const Callable>(std::move(callable)));
}

Value Render::missing(std::string message) {
    auto missing = std::make_shared<Missing>();
    missing->message = std::move(message);
    return Value(std::shared_ptr<const Missing>(std::move(missing)));
}

Error Render::undefined_error(const Value& undefined) {
    const Missing* missing = undefined.as_missing();
    return type_error(missing == nullptr ? "an undefined value is used" : missing->message);
}

Result<Value> Render::attribute(const Value& object, std::string_view name) {
    FORESAY_CHECK_OK(charge(1));
    switch (object.kind()) {
        case Kind::kUndefined:
            return undefined_error(object);
        case Kind::kNamespace: {
            const Value* found = object.as_namespace().find(name);
            return found != nullptr ? *found : no_attribute(object, name);
        }
        case Kind::kLoop:
            if (name != "cycle") {
                return loop_attribute(*this, object.as_loop(), name);
            }
            break;
        default:
            break;
    }
    bool found = false;
    FORESAY_TRY(Value bound, method(*this, object, name, &found));
    if (found) {
        return bound;
    }
    if (object.is_dict()) {
        if (const Value* value = object.as_dict().find(name); value != nullptr) {
            return *value;
        }
    }
    if (is_dunder(name)) {
        return missing(fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(object)));
    }
    return no_attribute(object, name);
}

Result<Value> Render::list_item(const Value& object, int64_t index) {
    const bool is_text = object.is_text();
    const int64_t length =
        is_text ? text_length(object.as_text()) : static_cast<int64_t>(object.as_list().items.size());
    const int64_t at = index < 0 ? index + length : index;
    if (at < 0 || at >= length) {
        return missing(fmt::format("'{}' has no element {}", object_name(object), index));
    }
    if (!is_text) {
        return object.as_list().items[static_cast<size_t>(at)];
    }
    FORESAY_CHECK_OK(charge_text(object.as_text().size()));
    const size_t begin = text_offset(object.as_text(), at);
    size_t bytes = 0;
    text_at(object.as_text(), begin, &bytes);
    return text(object.as_text().substr(begin, bytes));
}

Result<Value> Render::item(const Value& object, const Value& key) {
    FORESAY_CHECK_OK(charge(1));
    if (object.is_undefined()) {
        return undefined_error(object);
    }
    if (object.is_dict()) {
        if (is_hashable(key)) {
            if (const Value* value = object.as_dict().find(key); value != nullptr) {
                return *value;
            }
        }
    } else if (key.is_integer() &&
               (object.is_text() || (object.is_list() && (object.as_list().form == List::Form::kList ||
                                                          object.as_list().form == List::Form::kTuple)))) {
        return list_item(object, key.as_integer());
    }
    if (!key.is_text()) {
        FORESAY_TRY(const std::string shown, str(key));
        return no_attribute(object, shown.substr(0, 100));
    }
    if (object.kind() == Kind::kNamespace || object.kind() == Kind::kLoop) {
        return attribute(object, key.as_text());
    }
    bool found = false;
    FORESAY_TRY(Value bound, method(*this, object, key.as_text(), &found));
    return found ? std::move(bound) : no_attribute(object, std::string_view(key.as_text()).substr(0, 100));
}

Result<std::shared_ptr<const List>> Render::items(const Value& value) {
    std::vector<Value> made;
    switch (value.kind()) {
        case Kind::kUndefined:
            break;
        case Kind::kText: {
            const std::string& all = value.as_text();
            FORESAY_CHECK_OK(charge(all.size()));
            for (size_t pos = 0, bytes = 0; pos < all.size(); pos += bytes) {
                text_at(all, pos, &bytes);
                FORESAY_TRY(Value character, text(all.substr(pos, bytes)));
                made.push_back(std::move(character));
            }
            break;
        }
        case Kind::kList: {
            const List& list = value.as_list();
            if (list.form != List::Form::kGenerator) {
                return value.list_ptr();
            }
            if (!list.is_spent) {
                list.is_spent = true;
                return value.list_ptr();
            }
            break;
        }
        case Kind::kDict:
            for (const auto& entry : value.as_dict().entries) {
                made.push_back(entry.first);
            }
            break;
        default:
            return type_error(fmt::format("'{}' object is not iterable", type_name(value)));
    }
    FORESAY_TRY(const Value result, list(std::move(made)));
    return result.list_ptr();
}

Result<std::string> Render::str(const Value& value) {
    std::string out;
    FORESAY_CHECK_OK(append_str(value, max_text(), &out));
    FORESAY_CHECK_OK(charge_text(out.size()));
    return out;
}

Result<bool> Render::equal(const Value& a, const Value& b) {
    const size_t before = options_.limits.max_steps - steps_;
    size_t budget = before;
    const bool result = is_equal(a, b, &budget);
    if (budget == 0) {
        return charge(before + 1).error();
    }
    FORESAY_CHECK_OK(charge(before - budget));
    return result;
}

Result<bool> Render::less(const Value& a, const Value& b) {
    FORESAY_CHECK_OK(charge(1));
    if (a.is_number() && b.is_number()) {
        return a.is_integer() && b.is_integer() ? a.as_integer() < b.as_integer() : a.as_float() < b.as_float();
    }
    if (a.is_text() && b.is_text()) {
        FORESAY_CHECK_OK(charge_text(std::min(a.as_text().size(), b.as_text().size())));
        return a.as_text() < b.as_text();  // the order of UTF-8 is that of code points
    }
    if (a.is_list() && b.is_list() && a.as_list().form == b.as_list().form &&
        (a.as_list().form == List::Form::kList || a.as_list().form == List::Form::kTuple)) {
        const std::vector<Value>& x = a.as_list().items;
        const std::vector<Value>& y = b.as_list().items;
        for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
            FORESAY_TRY(const bool same, equal(x[i], y[i]));
            if (!same) {
                return less(x[i], y[i]);
            }
        }
        return x.size() < y.size();
    }
    if (a.is_undefined() || b.is_undefined()) {
        return undefined_error(a.is_undefined() ? a : b);
    }
    return type_error(fmt::format("'<' not supported between instances of '{}' and '{}'", type_name(a), type_name(b)));
}

Result<bool> Render::contains(const Value& container, const Value& item) {
    switch (container.kind()) {
        case Kind::kUndefined:
            return false;
        case Kind::kText:
            if (!item.is_text()) {
                return item.is_undefined()
                           ? undefined_error(item)
                           : type_error(
                                 fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
            }
            FORESAY_CHECK_OK(charge_text(container.as_text().size()));
            return container.as_text().find(item.as_text()) != std::string::npos;
        case Kind::kDict:
            if (item.is_list() || item.is_dict()) {
                return type_error(fmt::format("unhashable type: '{}'", type_name(item)));
            }
            return is_hashable(item) && container.as_dict().find(item) != nullptr;
        case Kind::kList: {
            FORESAY_TRY(const std::shared_ptr<const List> list, items(container));
            for (const Value& candidate : list->items) {
                FORESAY_TRY(const bool same, equal(candidate, item));
                if (same) {
                    return true;
                }
            }
            return false;
        }
        default:
            return type_error(fmt::format("argument of type '{}' is not iterable", type_name(container)));
    }
}

Result<std::vector<const Value*>> bind(std::string_view function, const Args& args,
                                       std::initializer_list<std::string_view> names, size_t n_required) {
    std::vector<const Value*> bound(names.size(), nullptr);
    if (args.positional.size() > names.size()) {
        return type_error(
            fmt::format("{}() takes at most {} arguments, {} given", function, names.size(), args.positional.size()));
    }
    for (size_t i = 0; i < args.positional.size(); ++i) {
        bound[i] = &args.positional[i];
    }
    for (const auto& [name, value] : args.named) {
        const auto* const found = std::find(names.begin(), names.end(), name);
        if (found == names.end()) {
            return type_error(fmt::format("{}() got an unexpected argument '{}'", function, name));
        }
        const Value*& place = bound[static_cast<size_t>(found - names.begin())];
        if (place != nullptr) {
            return type_error(fmt::format("{}() got two values for '{}'", function, name));
        }
        place = &value;
    }
    for (size_t i = 0; i < n_required; ++i) {
        if (bound[i] == nullptr) {
            return type_error(fmt::format("{}() misses its argument '{}'", function, names.begin()[i]));
        }
    }
    return bound;
}

}  // namespace foresay::jinja
