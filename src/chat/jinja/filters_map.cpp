#include <fmt/format.h>

#include "chat/jinja/filters.h"

namespace foresay::jinja::filters {
namespace {

/// The arguments from `begin` on.
Args rest(const Args& args, size_t begin) {
    Args out;
    out.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(begin), args.positional.end());
    out.named = args.named;
    return out;
}

/// What map, select and their kin walk: nothing at all for values that count as false, even None (as jinja2).
Result<std::shared_ptr<const List>> walked(Render& render, const Value& self) {
    if (is_true(self) || self.is_undefined()) {
        return render.items(self);
    }
    FORESAY_TRY(const Value none, render.list({}));
    return none.list_ptr();
}

/// select, reject, selectattr and rejectattr: keeps the items whose (attribute's) test gives `wanted`.
Result<Value> choose(Render& render, const Value& self, const Args& args, bool by_attribute, bool wanted) {
    FORESAY_TRY(const std::shared_ptr<const List> all, walked(render, self));
    const size_t test_at = by_attribute ? 1 : 0;
    if (by_attribute && args.positional.empty()) {
        return type_error("selectattr and rejectattr need an attribute");
    }
    Test test = nullptr;
    Args test_args;
    if (args.positional.size() > test_at) {
        const Value& name = args.positional[test_at];
        test = name.is_text() ? find_test(name.as_text()) : nullptr;
        if (test == nullptr) {
            return type_error(fmt::format("there is no test '{}'", name.is_text() ? name.as_text() : "?"));
        }
        test_args = rest(args, test_at + 1);
    }
    std::vector<Value> kept;
    for (const Value& item : all->items) {
        FORESAY_CHECK_OK(render.charge(1));
        Value value = item;
        if (by_attribute) {
            FORESAY_TRY(value, dotted(render, item, args.positional[0]));
        }
        FORESAY_TRY(const bool holds, test != nullptr ? test(render, value, test_args) : Result<bool>(is_true(value)));
        if (holds == wanted) {
            kept.push_back(item);
        }
    }
    return render.list(std::move(kept), List::Form::kGenerator);
}

}  // namespace

Result<Value> map(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::shared_ptr<const List> all, walked(render, self));
    std::vector<Value> mapped;
    mapped.reserve(all->items.size());
    if (args.positional.empty()) {
        FORESAY_TRY(const std::vector<const Value*> bound, bind("map", args, {"attribute", "default"}, 1));
        for (const Value& item : all->items) {
            FORESAY_TRY(Value value, dotted(render, item, *bound[0]));
            mapped.push_back(value.is_undefined() && bound[1] != nullptr ? *bound[1] : std::move(value));
        }
        return render.list(std::move(mapped), List::Form::kGenerator);
    }
    const Value& name = args.positional[0];
    const Function filter = name.is_text() ? find_filter(name.as_text()) : nullptr;
    if (filter == nullptr) {
        return type_error(fmt::format("there is no filter '{}'", name.is_text() ? name.as_text() : "?"));
    }
    const Args filter_args = rest(args, 1);
    // A map whose filter is map can nest as deep as its arguments are many; each level takes one off.
    for (const Value& item : all->items) {
        FORESAY_CHECK_OK(render.charge(1));
        FORESAY_TRY(Value value, filter(render, item, filter_args));
        mapped.push_back(std::move(value));
    }
    return render.list(std::move(mapped), List::Form::kGenerator);
}

Result<Value> select(Render& render, const Value& self, const Args& args) {
    return choose(render, self, args, false, true);
}

Result<Value> reject(Render& render, const Value& self, const Args& args) {
    return choose(render, self, args, false, false);
}

Result<Value> selectattr(Render& render, const Value& self, const Args& args) {
    return choose(render, self, args, true, true);
}

Result<Value> rejectattr(Render& render, const Value& self, const Args& args) {
    return choose(render, self, args, true, false);
}

}  // namespace foresay::jinja::filters
