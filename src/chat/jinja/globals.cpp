// Functions that every template can call.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "chat/jinja/render.h"
#include "vocab/utf8.h"

namespace foresay::jinja {
namespace {

/// As jinja2's sandbox: a longer range is an error.
constexpr int64_t kMaxRange = 100'000;

Result<Value> range(Render& render, const Value&, const Args& args) {
    if (args.positional.empty() || args.positional.size() > 3 || !args.named.empty()) {
        return type_error("range() takes one to three numbers");
    }
    for (const Value& value : args.positional) {
        if (!value.is_integer()) {
            return value.is_undefined()
                       ? Render::undefined_error(value)
                       : type_error(fmt::format("'{}' object cannot be interpreted as an integer", type_name(value)));
        }
    }
    const bool has_start = args.positional.size() > 1;
    const int64_t start = has_start ? args.positional[0].as_integer() : 0;
    const int64_t stop = args.positional[has_start ? 1 : 0].as_integer();
    const int64_t step = args.positional.size() > 2 ? args.positional[2].as_integer() : 1;
    if (step == 0) {
        return type_error("range() arg 3 must not be zero");
    }
    int64_t distance = 0;
    if (step == INT64_MIN || __builtin_sub_overflow(stop, start, &distance)) {
        return type_error("range(): the numbers are too large");
    }
    const int64_t by = step > 0 ? step : -step;
    const int64_t span = step > 0 ? distance : -distance;
    const int64_t n = span <= 0 ? 0 : (span - 1) / by + 1;
    if (n > kMaxRange) {
        return error(Code::kCapacity, fmt::format("range(): more than {} numbers", kMaxRange));
    }
    std::vector<Value> items;
    items.reserve(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
        items.emplace_back(start + i * step);
    }
    return render.list(std::move(items));
}

Result<Value> name_space(Render& render, const Value&, const Args& args) {
    std::vector<std::pair<std::string, Value>> attributes;
    if (args.positional.size() > 1) {
        return type_error("namespace() takes at most one dict");
    }
    if (!args.positional.empty()) {
        if (!args.positional[0].is_dict()) {
            return type_error("namespace() takes a dict");
        }
        for (const auto& [key, value] : args.positional[0].as_dict().entries) {
            if (!key.is_text()) {
                return type_error("namespace(): keys must be strings");
            }
            attributes.emplace_back(key.as_text(), value);
        }
    }
    for (const auto& [name, value] : args.named) {
        const auto found = std::find_if(attributes.begin(), attributes.end(),
                                        [&, &n = name](const auto& attribute) { return attribute.first == n; });
        if (found != attributes.end()) {
            found->second = value;
        } else {
            attributes.emplace_back(name, value);
        }
    }
    return render.name_space(std::move(attributes));
}

Result<Value> dict(Render& render, const Value&, const Args& args) {
    Entries entries;
    if (args.positional.size() > 1) {
        return type_error("dict() takes at most one dict or list of pairs");
    }
    if (!args.positional.empty() && args.positional[0].is_dict()) {
        entries = args.positional[0].as_dict().entries;
    } else if (!args.positional.empty()) {
        FORESAY_TRY(const std::shared_ptr<const List> pairs, render.items(args.positional[0]));
        for (const Value& pair : pairs->items) {
            if (!pair.is_list() || pair.as_list().items.size() != 2 || !is_hashable(pair.as_list().items[0])) {
                return type_error("dict(): every item must be a pair of a key and a value");
            }
            entries.emplace_back(pair.as_list().items[0], pair.as_list().items[1]);
        }
    }
    for (const auto& [name, value] : args.named) {
        entries.emplace_back(Value::constant(name), value);
    }
    return render.dict(std::move(entries));
}

Result<Value> raise_exception(Render& render, const Value&, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("raise_exception", args, {"message"}, 1));
    FORESAY_TRY(const std::string message, render.str(*bound[0]));
    return type_error(message.substr(0, 2000));
}

Result<Value> strftime_now(Render& render, const Value&, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("strftime_now", args, {"format"}, 1));
    if (!bound[0]->is_text() || bound[0]->as_text().size() > 1000) {
        return type_error("strftime_now() needs a format of at most 1000 bytes");
    }
    std::tm now{};
    if (render.options().now.has_value()) {
        now = *render.options().now;
    } else {
        const std::time_t seconds = std::time(nullptr);
        localtime_r(&seconds, &now);
    }
    const std::string format = bound[0]->as_text();
    // strftime can't tell an empty result from one that doesn't fit: a character in front makes it never empty.
    std::string out(16 * (format.size() + 16), '\0');
    out.resize(std::strftime(out.data(), out.size(), ("." + format).c_str(), &now));
    if (out.empty() || !vocab::is_valid_utf8(out)) {
        return type_error("strftime_now(): the format gives too long a text");
    }
    return render.text(out.substr(1));
}

struct Entry {
    std::string_view name;
    Function function;
};

constexpr Entry kGlobals[] = {{"range", range},
                              {"namespace", name_space},
                              {"dict", dict},
                              {"raise_exception", raise_exception},
                              {"strftime_now", strftime_now}};

}  // namespace

Function find_global(std::string_view name) {
    const auto* const found =
        std::find_if(std::begin(kGlobals), std::end(kGlobals), [&](const Entry& entry) { return entry.name == name; });
    return found == std::end(kGlobals) ? nullptr : found->function;
}

}  // namespace foresay::jinja
