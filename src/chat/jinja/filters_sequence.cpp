#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "chat/jinja/filters.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/text.h"

namespace foresay::jinja::filters {
namespace {

/// How sort, min, max, unique, groupby and dictsort look at an item: an attribute of it, and strings without case.
struct Key {
    const Value* attribute = nullptr;
    bool case_sensitive = false;
};

Result<Value> key_of(Render& render, const Value& item, const Key& key) {
    Value value = item;
    if (key.attribute != nullptr && !key.attribute->is_none()) {
        FORESAY_TRY(value, dotted(render, item, *key.attribute));
    }
    return value.is_text() && !key.case_sensitive ? render.text(to_lower(value.as_text())) : Result<Value>(value);
}

/// A stable order of items by their keys. Errors: keys without order.
Result<std::vector<size_t>> order(Render& render, const std::vector<Value>& keys, bool reverse) {
    std::vector<size_t> indices(keys.size());
    for (size_t i = 0; i < indices.size(); ++i) {
        indices[i] = i;
    }
    // Merge sort by hand: an order that can fail must not reach std::sort, which needs a consistent one.
    std::vector<size_t> merged(keys.size());
    for (size_t width = 1; width < keys.size(); width *= 2) {
        for (size_t begin = 0; begin < keys.size(); begin += 2 * width) {
            const size_t middle = std::min(begin + width, keys.size());
            const size_t end = std::min(begin + 2 * width, keys.size());
            size_t left = begin;
            size_t right = middle;
            for (size_t out = begin; out < end; ++out) {
                bool takes_right = left >= middle;
                if (left < middle && right < end) {
                    FORESAY_TRY(takes_right, reverse ? render.less(keys[indices[left]], keys[indices[right]])
                                                     : render.less(keys[indices[right]], keys[indices[left]]));
                }
                merged[out] = takes_right ? indices[right++] : indices[left++];
            }
        }
        indices.swap(merged);
    }
    return indices;
}

Result<std::vector<Value>> keys_of(Render& render, const std::vector<Value>& items, const Key& key) {
    std::vector<Value> keys;
    keys.reserve(items.size());
    for (const Value& item : items) {
        FORESAY_TRY(Value value, key_of(render, item, key));
        keys.push_back(std::move(value));
    }
    return keys;
}

Result<Value> extreme(Render& render, const Value& self, const Args& args, bool is_max) {
    FORESAY_TRY(const std::vector<const Value*> bound,
                bind(is_max ? "max" : "min", args, {"case_sensitive", "attribute"}, 0));
    FORESAY_TRY(const std::shared_ptr<const List> list, render.items(self));
    if (list->items.empty()) {
        return Render::missing("No aggregated item, sequence was empty.");
    }
    const Key key{bound[1], bound[0] != nullptr && is_true(*bound[0])};
    FORESAY_TRY(const std::vector<Value> keys, keys_of(render, list->items, key));
    size_t best = 0;
    for (size_t i = 1; i < keys.size(); ++i) {
        FORESAY_TRY(const bool better, is_max ? render.less(keys[best], keys[i]) : render.less(keys[i], keys[best]));
        best = better ? i : best;
    }
    return list->items[best];
}

}  // namespace

Result<Value> dotted(Render& render, const Value& value, const Value& path) {
    if (path.is_integer()) {
        return render.item(value, path);
    }
    if (!path.is_text()) {
        return type_error(fmt::format("an attribute must be a string, not {}", type_name(path)));
    }
    Value at = value;
    std::string_view rest = path.as_text();
    while (true) {
        const size_t dot = rest.find('.');
        const std::string_view part = rest.substr(0, dot);
        int64_t index = 0;
        const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
        if (!part.empty() && parsed.ec == std::errc() && parsed.ptr == part.data() + part.size()) {
            FORESAY_TRY(at, render.item(at, Value(index)));
        } else {
            // Items before attributes, as jinja2's attribute getters do.
            FORESAY_TRY(at, render.item(at, Value::constant(std::string(part))));
        }
        if (dot == std::string_view::npos) {
            return at;
        }
        rest = rest.substr(dot + 1);
    }
}

Result<Value> batch(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("batch", args, {"linecount", "fill_with"}, 1));
    if (!bound[0]->is_integer() || bound[0]->as_integer() < 1) {
        return type_error("batch: a positive integer is needed");
    }
    FORESAY_TRY(const std::shared_ptr<const List> list, render.items(self));
    const auto n = static_cast<size_t>(bound[0]->as_integer());
    std::vector<Value> batches;
    for (size_t begin = 0; begin < list->items.size(); begin += std::min(n, list->items.size() - begin)) {
        const size_t end = begin + std::min(n, list->items.size() - begin);
        std::vector<Value> one(list->items.begin() + static_cast<std::ptrdiff_t>(begin),
                               list->items.begin() + static_cast<std::ptrdiff_t>(end));
        if (bound[1] != nullptr && !bound[1]->is_none() && one.size() < n) {
            FORESAY_CHECK_OK(render.charge(n - one.size()));
            one.resize(n, *bound[1]);
        }
        FORESAY_TRY(Value made, render.list(std::move(one)));
        batches.push_back(std::move(made));
    }
    return render.list(std::move(batches), List::Form::kGenerator);
}

Result<Value> items(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("items", args, {}, 0));
    (void)bound;
    if (self.is_undefined()) {
        return render.list({}, List::Form::kGenerator);
    }
    if (!self.is_dict()) {
        return type_error("Can only get item pairs from a mapping.");
    }
    std::vector<Value> pairs;
    for (const auto& entry : self.as_dict().entries) {
        FORESAY_TRY(Value pair, render.list({entry.first, entry.second}, List::Form::kTuple));
        pairs.push_back(std::move(pair));
    }
    return render.list(std::move(pairs), List::Form::kGenerator);
}

Result<Value> dictsort(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("dictsort", args, {"case_sensitive", "by", "reverse"}, 0));
    if (!self.is_dict()) {
        return self.is_undefined() ? Render::undefined_error(self)
                                   : type_error(fmt::format("dictsort needs a dict, not {}", type_name(self)));
    }
    const bool by_value = bound[1] != nullptr && bound[1]->is_text() && bound[1]->as_text() == "value";
    if (bound[1] != nullptr && !by_value && !(bound[1]->is_text() && bound[1]->as_text() == "key")) {
        return type_error("dictsort: you can only sort by either \"key\" or \"value\"");
    }
    std::vector<Value> pairs;
    std::vector<Value> keys;
    const Key key{nullptr, bound[0] != nullptr && is_true(*bound[0])};
    for (const auto& entry : self.as_dict().entries) {
        FORESAY_TRY(Value pair, render.list({entry.first, entry.second}, List::Form::kTuple));
        pairs.push_back(std::move(pair));
        FORESAY_TRY(Value sorted_by, key_of(render, by_value ? entry.second : entry.first, key));
        keys.push_back(std::move(sorted_by));
    }
    FORESAY_TRY(const std::vector<size_t> indices, order(render, keys, bound[2] != nullptr && is_true(*bound[2])));
    std::vector<Value> sorted;
    for (const size_t i : indices) {
        sorted.push_back(pairs[i]);
    }
    return render.list(std::move(sorted));
}

Result<Value> sort(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound,
                bind("sort", args, {"reverse", "case_sensitive", "attribute"}, 0));
    FORESAY_TRY(const std::shared_ptr<const List> list, render.items(self));
    const Key key{bound[2], bound[1] != nullptr && is_true(*bound[1])};
    FORESAY_TRY(const std::vector<Value> keys, keys_of(render, list->items, key));
    FORESAY_TRY(const std::vector<size_t> indices, order(render, keys, bound[0] != nullptr && is_true(*bound[0])));
    std::vector<Value> sorted;
    for (const size_t i : indices) {
        sorted.push_back(list->items[i]);
    }
    return render.list(std::move(sorted));
}

Result<Value> unique(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("unique", args, {"case_sensitive", "attribute"}, 0));
    FORESAY_TRY(const std::shared_ptr<const List> list, render.items(self));
    const Key key{bound[1], bound[0] != nullptr && is_true(*bound[0])};
    FORESAY_TRY(std::vector<Value> keys, keys_of(render, list->items, key));
    std::vector<Value> kept;
    std::vector<Value> kept_keys;
    for (size_t i = 0; i < keys.size(); ++i) {
        bool seen = false;
        for (size_t j = 0; j < kept_keys.size() && !seen; ++j) {
            FORESAY_TRY(seen, render.equal(kept_keys[j], keys[i]));
        }
        if (!seen) {
            kept.push_back(list->items[i]);
            kept_keys.push_back(std::move(keys[i]));
        }
    }
    return render.list(std::move(kept), List::Form::kGenerator);
}

Result<Value> groupby(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound,
                bind("groupby", args, {"attribute", "default", "case_sensitive"}, 1));
    FORESAY_TRY(const std::shared_ptr<const List> list, render.items(self));
    const bool case_sensitive = bound[2] != nullptr && is_true(*bound[2]);
    std::vector<Value> values;
    std::vector<Value> keys;
    for (const Value& item : list->items) {
        FORESAY_TRY(Value value, dotted(render, item, *bound[0]));
        if (value.is_undefined() && bound[1] != nullptr) {
            value = *bound[1];
        }
        FORESAY_TRY(Value key, key_of(render, value, {nullptr, case_sensitive}));
        values.push_back(std::move(value));
        keys.push_back(std::move(key));
    }
    FORESAY_TRY(const std::vector<size_t> indices, order(render, keys, false));
    std::vector<Value> groups;
    for (size_t begin = 0; begin < indices.size();) {
        size_t end = begin;
        std::vector<Value> members;
        bool same = true;
        while (end < indices.size() && same) {
            members.push_back(list->items[indices[end++]]);
            if (end < indices.size()) {
                FORESAY_TRY(same, render.equal(keys[indices[begin]], keys[indices[end]]));
            }
        }
        FORESAY_TRY(Value group, render.list(std::move(members)));
        FORESAY_TRY(Value pair, render.list({values[indices[begin]], std::move(group)}, List::Form::kTuple));
        groups.push_back(std::move(pair));
        begin = end;
    }
    return render.list(std::move(groups));
}

Result<Value> first(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("first", args, {}, 0));
    (void)bound;
    FORESAY_TRY(const std::shared_ptr<const List> list, render.items(self));
    return list->items.empty() ? Render::missing("No first item, sequence was empty.") : list->items.front();
}

Result<Value> last(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("last", args, {}, 0));
    (void)bound;
    FORESAY_TRY(const std::shared_ptr<const List> list, render.items(self));
    return list->items.empty() ? Render::missing("No last item, sequence was empty.") : list->items.back();
}

Result<Value> join(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("join", args, {"d", "attribute"}, 0));
    FORESAY_TRY(const std::shared_ptr<const List> list, render.items(self));
    FORESAY_TRY(const std::string separator, bound[0] != nullptr ? render.str(*bound[0]) : Result<std::string>(""));
    std::string out;
    for (size_t i = 0; i < list->items.size(); ++i) {
        Value item = list->items[i];
        if (bound[1] != nullptr && !bound[1]->is_none()) {
            FORESAY_TRY(item, dotted(render, item, *bound[1]));
        }
        FORESAY_TRY(const std::string part, render.str(item));
        FORESAY_CHECK_OK(render.check_text(out.size() + part.size() + separator.size()));
        FORESAY_CHECK_OK(render.charge_text(part.size() + separator.size()));
        out += i > 0 ? separator : "";
        out += part;
    }
    return render.text(std::move(out));
}

Result<Value> list(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("list", args, {}, 0));
    (void)bound;
    FORESAY_TRY(const std::shared_ptr<const List> all, render.items(self));
    return render.list(all->items);
}

Result<Value> max(Render& render, const Value& self, const Args& args) {
    return extreme(render, self, args, true);
}

Result<Value> min(Render& render, const Value& self, const Args& args) {
    return extreme(render, self, args, false);
}

Result<Value> reverse(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("reverse", args, {}, 0));
    (void)bound;
    if (self.is_text()) {
        const Value step(int64_t{-1});
        return slice_value(render, self, nullptr, nullptr, &step);
    }
    FORESAY_TRY(const std::shared_ptr<const List> all, render.items(self));
    return render.list({all->items.rbegin(), all->items.rend()}, List::Form::kGenerator);
}

Result<Value> sum(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("sum", args, {"attribute", "start"}, 0));
    FORESAY_TRY(const std::shared_ptr<const List> all, render.items(self));
    Value total = bound[1] != nullptr ? *bound[1] : Value(int64_t{0});
    if (total.is_text()) {
        return type_error("sum() can't sum strings");
    }
    for (const Value& item : all->items) {
        Value value = item;
        if (bound[0] != nullptr && !bound[0]->is_none()) {
            FORESAY_TRY(value, dotted(render, item, *bound[0]));
        }
        FORESAY_TRY(total, binary(render, Operator::kAdd, total, value));
    }
    return total;
}

}  // namespace foresay::jinja::filters
