#include "chat/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chat/jinja/callable.h"
#include "chat/jinja/text.h"

namespace foresay::jinja {
namespace {

/// Dicts of more entries than this get a hash index.
constexpr size_t kIndexedFrom = 9;

std::string text_key(std::string_view text) {
    std::string key(1, 's');
    key.append(text);
    return key;
}

/// One text per key that compares equal: a letter for the type, then the value.
std::string key_text(const Value& key) {
    switch (key.kind()) {
        case Kind::kText:
            return text_key(key.as_text());
        case Kind::kBool:
        case Kind::kInt:
            return fmt::format("n{}", key.as_integer());
        case Kind::kFloat: {
            const double d = key.as_float();
            if (d == std::floor(d) && std::abs(d) < 9e15) {
                return fmt::format("n{}", static_cast<int64_t>(d));
            }
            return fmt::format("f{}", d);
        }
        default:
            return "0";  // None
    }
}

bool same_key(const Value& a, const Value& b) {
    if (a.is_text() || b.is_text()) {
        return a.is_text() && b.is_text() && a.as_text() == b.as_text();
    }
    if (a.is_number() && b.is_number()) {
        return a.is_integer() && b.is_integer() ? a.as_integer() == b.as_integer() : a.as_float() == b.as_float();
    }
    return a.kind() == b.kind();  // None is the only other kind of key
}

int deepest(const std::vector<Value>& items) {
    int depth = 0;
    for (const Value& item : items) {
        depth = std::max(depth, item.depth());
    }
    return depth;
}

Status too_long(size_t max_bytes) {
    return error(Code::kCapacity, fmt::format("a string grows beyond {} bytes", max_bytes));
}

Status append_items(const List& list, std::string_view open, std::string_view close, size_t max_bytes,
                    std::string* out) {
    out->append(open);
    for (size_t i = 0; i < list.items.size(); ++i) {
        if (i > 0) {
            out->append(", ");
        }
        FORESAY_CHECK_OK(append_repr(list.items[i], max_bytes, out));
    }
    if (list.form == List::Form::kTuple && list.items.size() == 1) {
        out->push_back(',');
    }
    out->append(close);
    return out->size() > max_bytes ? too_long(max_bytes) : ok();
}

Status append_dict(const Dict& dict, size_t max_bytes, std::string* out) {
    out->push_back('{');
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
        if (!first) {
            out->append(", ");
        }
        first = false;
        FORESAY_CHECK_OK(append_repr(key, max_bytes, out));
        out->append(": ");
        FORESAY_CHECK_OK(append_repr(value, max_bytes, out));
    }
    out->push_back('}');
    return out->size() > max_bytes ? too_long(max_bytes) : ok();
}

}  // namespace

int Value::depth() const {
    switch (kind()) {
        case Kind::kList:
            return as_list().depth;
        case Kind::kDict:
            return as_dict().depth;
        case Kind::kLoop:
            return as_loop().depth;
        case Kind::kCallable:
            return as_callable().depth;
        default:
            return 0;  // a namespace too: the render holds every one, so that destroying doesn't recurse through them
    }
}

List::List(std::vector<Value> values, Form list_form, Meter* meter)
    : items(std::move(values)),
      form(list_form),
      depth(deepest(items) + 1),
      metered(meter, sizeof(List) + items.capacity() * sizeof(Value)) {}

Dict::Dict(std::vector<std::pair<Value, Value>> values, Meter* meter)
    : metered(meter, sizeof(Dict) + values.size() * (values.size() < kIndexedFrom ? 1 : 3) * 2 * sizeof(Value)) {
    entries.reserve(values.size());
    const bool indexed = values.size() >= kIndexedFrom;
    for (auto& [key, value] : values) {
        depth = std::max(depth, value.depth() + 1);
        Value* earlier = nullptr;
        if (indexed) {
            const auto inserted = index_.emplace(key_text(key), entries.size());
            earlier = inserted.second ? nullptr : &entries[inserted.first->second].second;
        } else {
            const auto found = std::find_if(entries.begin(), entries.end(),
                                            [&, &k = key](const auto& entry) { return same_key(entry.first, k); });
            earlier = found == entries.end() ? nullptr : &found->second;
        }
        if (earlier != nullptr) {
            *earlier = std::move(value);
        } else {
            entries.emplace_back(std::move(key), std::move(value));
        }
    }
}

const Value* Dict::find(const Value& key) const {
    if (!index_.empty()) {
        const auto found = index_.find(key_text(key));
        return found == index_.end() ? nullptr : &entries[found->second].second;
    }
    for (const auto& entry : entries) {
        if (same_key(entry.first, key)) {
            return &entry.second;
        }
    }
    return nullptr;
}

const Value* Dict::find(std::string_view key) const {
    if (!index_.empty()) {
        const auto found = index_.find(text_key(key));
        return found == index_.end() ? nullptr : &entries[found->second].second;
    }
    for (const auto& entry : entries) {
        if (entry.first.is_text() && entry.first.as_text() == key) {
            return &entry.second;
        }
    }
    return nullptr;
}

const Value* Namespace::find(std::string_view name) const {
    for (const auto& attribute : attributes) {
        if (attribute.first == name) {
            return &attribute.second;
        }
    }
    return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
    for (auto& attribute : attributes) {
        if (attribute.first == name) {
            attribute.second = std::move(value);
            return;
        }
    }
    attributes.emplace_back(name, std::move(value));
}

bool is_hashable(const Value& value) {
    return value.is_text() || value.is_number() || value.is_none();
}

bool is_true(const Value& value) {
    switch (value.kind()) {
        case Kind::kUndefined:
        case Kind::kNone:
            return false;
        case Kind::kBool:
        case Kind::kInt:
            return value.as_integer() != 0;
        case Kind::kFloat:
            return value.as_float() != 0.0;
        case Kind::kText:
            return !value.as_text().empty();
        case Kind::kList:
            return value.as_list().form == List::Form::kGenerator || !value.as_list().items.empty();
        case Kind::kDict:
            return !value.as_dict().entries.empty();
        default:
            return true;
    }
}

bool is_equal(const Value& a, const Value& b, size_t* budget) {
    const size_t cost = 1 + (a.is_text() && b.is_text() ? std::min(a.as_text().size(), b.as_text().size()) / 64 : 0);
    *budget -= std::min(*budget, cost);
    if (*budget == 0) {
        return false;
    }
    if (a.is_number() && b.is_number()) {
        return a.is_integer() && b.is_integer() ? a.as_integer() == b.as_integer() : a.as_float() == b.as_float();
    }
    if (a.kind() != b.kind()) {
        return false;
    }
    switch (a.kind()) {
        case Kind::kUndefined:
        case Kind::kNone:
            return true;
        case Kind::kText:
            return a.as_text() == b.as_text();
        case Kind::kList: {
            const List& x = a.as_list();
            const List& y = b.as_list();
            return &x == &y || (x.form == y.form && x.form != List::Form::kGenerator &&
                                std::equal(x.items.begin(), x.items.end(), y.items.begin(), y.items.end(),
                                           [&](const Value& p, const Value& q) { return is_equal(p, q, budget); }));
        }
        case Kind::kDict: {
            const Dict& x = a.as_dict();
            const Dict& y = b.as_dict();
            return &x == &y || (x.entries.size() == y.entries.size() &&
                                std::all_of(x.entries.begin(), x.entries.end(), [&](const auto& entry) {
                                    const Value* other = y.find(entry.first);
                                    return other != nullptr && is_equal(entry.second, *other, budget);
                                }));
        }
        case Kind::kNamespace:
            return &a.as_namespace() == &b.as_namespace();
        case Kind::kLoop:
            return &a.as_loop() == &b.as_loop();
        default:
            return &a.as_callable() == &b.as_callable();
    }
}

std::string_view type_name(const Value& value) {
    switch (value.kind()) {
        case Kind::kUndefined:
            return "Undefined";
        case Kind::kNone:
            return "NoneType";
        case Kind::kBool:
            return "bool";
        case Kind::kInt:
            return "int";
        case Kind::kFloat:
            return "float";
        case Kind::kText:
            return "str";
        case Kind::kList:
            switch (value.as_list().form) {
                case List::Form::kList:
                    return "list";
                case List::Form::kTuple:
                    return "tuple";
                case List::Form::kView:
                    return "dict view";
                default:
                    return "generator";
            }
        case Kind::kDict:
            return "dict";
        case Kind::kNamespace:
            return "Namespace";
        case Kind::kLoop:
            return "LoopContext";
        default:
            return "function";
    }
}

std::string object_name(const Value& value) {
    return value.is_none() ? "None" : fmt::format("{} object", type_name(value));
}

Status append_str(const Value& value, size_t max_bytes, std::string* out) {
    if (value.is_text()) {
        out->append(value.as_text());
        return out->size() > max_bytes ? too_long(max_bytes) : ok();
    }
    if (value.is_undefined()) {
        return ok();
    }
    return append_repr(value, max_bytes, out);
}

Status append_repr(const Value& value, size_t max_bytes, std::string* out) {
    switch (value.kind()) {
        case Kind::kUndefined:
            out->append("Undefined");
            break;
        case Kind::kNone:
            out->append("None");
            break;
        case Kind::kBool:
            out->append(value.as_bool() ? "True" : "False");
            break;
        case Kind::kInt:
            out->append(fmt::format("{}", value.as_integer()));
            break;
        case Kind::kFloat:
            out->append(float_repr(value.as_float()));
            break;
        case Kind::kText:
            out->append(text_repr(value.as_text()));
            break;
        case Kind::kList:
            switch (value.as_list().form) {
                case List::Form::kTuple:
                    return append_items(value.as_list(), "(", ")", max_bytes, out);
                case List::Form::kView:
                    return append_items(value.as_list(), "dict_view([", "])", max_bytes, out);
                case List::Form::kGenerator:
                    out->append("<generator>");
                    break;
                default:
                    return append_items(value.as_list(), "[", "]", max_bytes, out);
            }
            break;
        case Kind::kDict:
            return append_dict(value.as_dict(), max_bytes, out);
        default:
            out->append(fmt::format("<{}>", type_name(value)));
            break;
    }
    return out->size() > max_bytes ? too_long(max_bytes) : ok();
}

}  // namespace foresay::jinja
