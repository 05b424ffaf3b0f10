// Methods of strings, dicts, lists and loops: Python's, as far as they don't change their object.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "chat/jinja/render.h"
#include "chat/jinja/text.h"

namespace foresay::jinja {
namespace {

Result<const std::string*> text_argument(std::string_view method, const Value& value) {
    if (!value.is_text()) {
        return value.is_undefined()
                   ? Render::undefined_error(value)
                   : type_error(fmt::format("{}() argument must be str, not {}", method, type_name(value)));
    }
    return &value.as_text();
}

template <Side side>
Result<Value> stripped(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("strip", args, {"chars"}, 0));
    if (bound[0] == nullptr || bound[0]->is_none()) {
        return render.text(std::string(strip(self.as_text(), side)));
    }
    FORESAY_TRY(const std::string* chars, text_argument("strip", *bound[0]));
    FORESAY_CHECK_OK(render.charge(self.as_text().size() / 64 * (1 + chars->size())));
    const std::string_view view = *chars;
    return render.text(std::string(strip(self.as_text(), side, &view)));
}

template <std::string (*mapping)(std::string_view)>
Result<Value> mapped(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("the method", args, {}, 0));
    (void)bound;
    return render.text(mapping(self.as_text()));
}

template <TextClass text_class>
Result<Value> classified(Render&, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("the method", args, {}, 0));
    (void)bound;
    return Value(has_class(self.as_text(), text_class));
}

/// A limit on pieces or replacements; negative and None are none.
Result<size_t> limit(const Value* value) {
    if (value == nullptr || value->is_none()) {
        return std::numeric_limits<size_t>::max();
    }
    if (!value->is_integer()) {
        return type_error(fmt::format("an integer is needed, not {}", type_name(*value)));
    }
    return value->as_integer() < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(value->as_integer());
}

Result<Value> texts(Render& render, const std::vector<std::string_view>& parts, List::Form form = List::Form::kList) {
    std::vector<Value> items;
    items.reserve(parts.size());
    for (const std::string_view part : parts) {
        FORESAY_TRY(Value item, render.text(std::string(part)));
        items.push_back(std::move(item));
    }
    return render.list(std::move(items), form);
}

/// split() without separator: runs of blanks part, and none stand at the ends.
std::vector<std::string_view> words(std::string_view text, size_t max_splits, bool from_right) {
    std::vector<std::string_view> parts;
    const Side near = from_right ? Side::kRight : Side::kLeft;
    text = strip(text, near);
    while (!text.empty()) {
        if (parts.size() == max_splits) {
            parts.push_back(strip(text, from_right ? Side::kLeft : Side::kRight));
            break;
        }
        // Cut where the first blank from this side is.
        size_t pos = from_right ? text.size() : 0;
        if (!from_right) {
            for (size_t bytes = 0; pos < text.size() && !is_space(text_at(text, pos, &bytes)); pos += bytes) {
            }
            parts.push_back(text.substr(0, pos));
            text = strip(text.substr(pos), near);
        } else {
            while (pos > 0) {
                size_t start = pos - 1;
                while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80U) {
                    --start;
                }
                size_t bytes = 0;
                if (is_space(text_at(text, start, &bytes))) {
                    break;
                }
                pos = start;
            }
            parts.push_back(text.substr(pos));
            text = strip(text.substr(0, pos), near);
        }
    }
    return parts;
}

template <bool from_right>
Result<Value> split(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("split", args, {"sep", "maxsplit"}, 0));
    FORESAY_TRY(const size_t max_splits, limit(bound[1]));
    std::string_view text = self.as_text();
    FORESAY_CHECK_OK(render.charge_text(text.size()));
    std::vector<std::string_view> parts;
    if (bound[0] == nullptr || bound[0]->is_none()) {
        parts = words(text, max_splits, from_right);
    } else {
        FORESAY_TRY(const std::string* separator, text_argument("split", *bound[0]));
        if (separator->empty()) {
            return type_error("empty separator");
        }
        while (parts.size() < max_splits) {
            const size_t at = from_right ? text.rfind(*separator) : text.find(*separator);
            if (at == std::string_view::npos) {
                break;
            }
            parts.push_back(from_right ? text.substr(at + separator->size()) : text.substr(0, at));
            text = from_right ? text.substr(0, at) : text.substr(at + separator->size());
        }
        parts.push_back(text);
    }
    if (from_right) {
        std::reverse(parts.begin(), parts.end());
    }
    return texts(render, parts);
}

Result<Value> splitlines(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("splitlines", args, {"keepends"}, 0));
    const bool keep = bound[0] != nullptr && is_true(*bound[0]);
    const std::string_view text = self.as_text();
    std::vector<std::string_view> parts;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find_first_of("\n\r\v\f\x1c\x1d\x1e", begin), text.size());
        const size_t next = end == text.size() ? end : end + (text.substr(end, 2) == "\r\n" ? 2 : 1);
        parts.push_back(text.substr(begin, (keep ? next : end) - begin));
        begin = next;
    }
    return texts(render, parts);
}

template <bool from_right>
Result<Value> partition(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("partition", args, {"sep"}, 1));
    FORESAY_TRY(const std::string* separator, text_argument("partition", *bound[0]));
    if (separator->empty()) {
        return type_error("empty separator");
    }
    const std::string_view text = self.as_text();
    const size_t at = from_right ? text.rfind(*separator) : text.find(*separator);
    if (at == std::string_view::npos) {
        return from_right ? texts(render, {"", "", text}, List::Form::kTuple)
                          : texts(render, {text, "", ""}, List::Form::kTuple);
    }
    return texts(render, {text.substr(0, at), *separator, text.substr(at + separator->size())}, List::Form::kTuple);
}

Result<Value> replace(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("replace", args, {"old", "new", "count"}, 2));
    FORESAY_TRY(const std::string* old_text, text_argument("replace", *bound[0]));
    FORESAY_TRY(const std::string* new_text, text_argument("replace", *bound[1]));
    FORESAY_TRY(const size_t most, limit(bound[2]));
    const std::string& text = self.as_text();
    FORESAY_CHECK_OK(render.charge_text(text.size()));
    std::string out;
    size_t pos = 0;
    for (size_t n = 0; n < most; ++n) {
        size_t at = text.find(*old_text, pos);
        if (old_text->empty()) {
            // An empty string is found before every character and at the end.
            at = n == 0              ? 0
                 : pos < text.size() ? text_offset(std::string_view(text).substr(pos), 1) + pos
                                     : std::string::npos;
            if (n > 0 && pos >= text.size()) {
                break;
            }
        }
        if (at == std::string::npos) {
            break;
        }
        FORESAY_CHECK_OK(render.check_text(out.size() + (at - pos) + new_text->size()));
        FORESAY_CHECK_OK(render.charge_text(new_text->size()));
        out.append(text, pos, at - pos);
        out += *new_text;
        pos = at + old_text->size();
    }
    out.append(text, pos);
    return render.text(std::move(out));
}

template <bool at_start>
Result<Value> affix(Render&, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind(at_start ? "startswith" : "endswith", args, {"affix"}, 1));
    const std::string& text = self.as_text();
    const auto holds = [&](const std::string& part) {
        return part.size() <= text.size() &&
               text.compare(at_start ? 0 : text.size() - part.size(), part.size(), part) == 0;
    };
    if (bound[0]->is_list() && bound[0]->as_list().form == List::Form::kTuple) {
        for (const Value& item : bound[0]->as_list().items) {
            FORESAY_TRY(const std::string* part, text_argument("startswith", item));
            if (holds(*part)) {
                return Value(true);
            }
        }
        return Value(false);
    }
    FORESAY_TRY(const std::string* part, text_argument(at_start ? "startswith" : "endswith", *bound[0]));
    return Value(holds(*part));
}

template <bool at_start>
Result<Value> remove_affix(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const Value found, affix<at_start>(render, self, args));
    if (!is_true(found)) {
        return self;
    }
    const size_t n = args.positional[0].as_text().size();
    const std::string& text = self.as_text();
    return render.text(at_start ? text.substr(n) : text.substr(0, text.size() - n));
}

template <bool from_right, bool must_find>
Result<Value> find(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("find", args, {"sub", "start"}, 1));
    FORESAY_TRY(const std::string* part, text_argument("find", *bound[0]));
    const std::string& text = self.as_text();
    FORESAY_CHECK_OK(render.charge_text(text.size()));
    size_t start = 0;
    if (bound[1] != nullptr && !bound[1]->is_none()) {
        if (!bound[1]->is_integer()) {
            return type_error("find(): the start must be an integer");
        }
        const int64_t at = bound[1]->as_integer();
        start = text_offset(text, at < 0 ? std::max<int64_t>(at + text_length(text), 0) : at);
    }
    size_t found = from_right ? text.rfind(*part) : text.find(*part, start);
    if (found != std::string::npos && found < start) {
        found = std::string::npos;
    }
    if (found == std::string::npos) {
        return must_find ? Result<Value>(type_error("substring not found")) : Result<Value>(Value(int64_t{-1}));
    }
    return Value(text_length(std::string_view(text).substr(0, found)));
}

Result<Value> count_text(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("count", args, {"sub"}, 1));
    FORESAY_TRY(const std::string* part, text_argument("count", *bound[0]));
    const std::string& text = self.as_text();
    FORESAY_CHECK_OK(render.charge_text(text.size()));
    if (part->empty()) {
        return Value(text_length(text) + 1);
    }
    int64_t n = 0;
    for (size_t at = text.find(*part); at != std::string::npos; at = text.find(*part, at + part->size())) {
        ++n;
    }
    return Value(n);
}

Result<Value> join(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("join", args, {"iterable"}, 1));
    FORESAY_TRY(const std::shared_ptr<const List> list, render.items(*bound[0]));
    std::string out;
    for (size_t i = 0; i < list->items.size(); ++i) {
        const Value& item = list->items[i];
        if (!item.is_text()) {
            return type_error(fmt::format("sequence item {}: expected str instance, {} found", i, type_name(item)));
        }
        FORESAY_CHECK_OK(render.check_text(out.size() + self.as_text().size() + item.as_text().size()));
        FORESAY_CHECK_OK(render.charge_text(self.as_text().size() + item.as_text().size()));
        out += i > 0 ? self.as_text() : "";
        out += item.as_text();
    }
    return render.text(std::move(out));
}

Result<Value> format(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(std::string text, format_braces(render, self.as_text(), args));
    return render.text(std::move(text));
}

enum class Pad { kLeft, kRight, kCenter, kZeros };

template <Pad pad>
Result<Value> padded(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("the method", args, {"width", "fillchar"}, 1));
    if (!bound[0]->is_integer()) {
        return type_error(fmt::format("a width must be an integer, not {}", type_name(*bound[0])));
    }
    std::string fill = pad == Pad::kZeros ? "0" : " ";
    if (bound[1] != nullptr) {
        FORESAY_TRY(const std::string* given, text_argument("the method", *bound[1]));
        if (text_length(*given) != 1) {
            return type_error("the fill character must be exactly one character long");
        }
        fill = *given;
    }
    const std::string& text = self.as_text();
    const int64_t missing = bound[0]->as_integer() - text_length(text);
    if (missing <= 0) {
        return self;
    }
    if (static_cast<size_t>(missing) > render.max_text()) {
        return render.check_text(render.max_text() + 1).error();
    }
    const auto n = static_cast<size_t>(missing);
    size_t left = pad == Pad::kLeft || pad == Pad::kZeros ? n : 0;
    if (pad == Pad::kCenter) {
        left = n / 2 + (n & static_cast<size_t>(bound[0]->as_integer()) & 1U);
    }
    const size_t sign = pad == Pad::kZeros && !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    std::string out = text.substr(0, sign);
    for (size_t i = 0; i < left; ++i) {
        out += fill;
    }
    out.append(text, sign);
    for (size_t i = left; i < n; ++i) {
        out += fill;
    }
    return render.text(std::move(out));
}

Result<Value> get(Render&, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("get", args, {"key", "default"}, 1));
    if (bound[0]->is_list() || bound[0]->is_dict()) {
        return type_error(fmt::format("unhashable type: '{}'", type_name(*bound[0])));
    }
    const Value* found = is_hashable(*bound[0]) ? self.as_dict().find(*bound[0]) : nullptr;
    return found != nullptr ? *found : bound[1] != nullptr ? *bound[1] : Value(Value::None{});
}

enum class View { kKeys, kValues, kItems };

template <View view>
Result<Value> viewed(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("the method", args, {}, 0));
    (void)bound;
    std::vector<Value> items;
    items.reserve(self.as_dict().entries.size());
    for (const auto& entry : self.as_dict().entries) {
        if (view != View::kItems) {
            items.push_back(view == View::kKeys ? entry.first : entry.second);
            continue;
        }
        FORESAY_TRY(Value pair, render.list({entry.first, entry.second}, List::Form::kTuple));
        items.push_back(std::move(pair));
    }
    return render.list(std::move(items), List::Form::kView);
}

Result<Value> copy(Render&, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("copy", args, {}, 0));
    (void)bound;
    return self;  // values don't change, so a copy is the value
}

template <bool counts>
Result<Value> occurrences(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind(counts ? "count" : "index", args, {"value"}, 1));
    int64_t n = 0;
    for (size_t i = 0; i < self.as_list().items.size(); ++i) {
        FORESAY_TRY(const bool same, render.equal(self.as_list().items[i], *bound[0]));
        if (same && !counts) {
            return Value(static_cast<int64_t>(i));
        }
        n += same ? 1 : 0;
    }
    return counts ? Result<Value>(Value(n)) : Result<Value>(type_error("index(): the value isn't in the list"));
}

Result<Value> cycle(Render&, const Value& self, const Args& args) {
    if (args.positional.empty() || !args.named.empty()) {
        return type_error("cycle() needs items");
    }
    return args.positional[self.as_loop().index % args.positional.size()];
}

struct Entry {
    std::string_view name;
    Function function;
};

constexpr Entry kTextMethods[] = {
    {"strip", stripped<Side::kBoth>},
    {"lstrip", stripped<Side::kLeft>},
    {"rstrip", stripped<Side::kRight>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"replace", replace},
    {"startswith", affix<true>},
    {"endswith", affix<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"upper", mapped<to_upper>},
    {"lower", mapped<to_lower>},
    {"casefold", mapped<to_lower>},
    {"title", mapped<to_title>},
    {"capitalize", mapped<to_capitalized>},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count_text},
    {"join", join},
    {"format", format},
    {"isalpha", classified<TextClass::kAlpha>},
    {"isdigit", classified<TextClass::kDigit>},
    {"isdecimal", classified<TextClass::kDigit>},
    {"isnumeric", classified<TextClass::kDigit>},
    {"isalnum", classified<TextClass::kAlnum>},
    {"isspace", classified<TextClass::kSpace>},
    {"isupper", classified<TextClass::kUpper>},
    {"islower", classified<TextClass::kLower>},
    {"ljust", padded<Pad::kRight>},
    {"rjust", padded<Pad::kLeft>},
    {"center", padded<Pad::kCenter>},
    {"zfill", padded<Pad::kZeros>},
};

constexpr Entry kDictMethods[] = {{"get", get},
                                  {"keys", viewed<View::kKeys>},
                                  {"values", viewed<View::kValues>},
                                  {"items", viewed<View::kItems>},
                                  {"copy", copy}};

constexpr Entry kListMethods[] = {{"index", occurrences<false>}, {"count", occurrences<true>}, {"copy", copy}};

constexpr Entry kLoopMethods[] = {{"cycle", cycle}};

template <size_t n>
Function look_up(const Entry (&table)[n], std::string_view name) {
    const auto* const found =
        std::find_if(std::begin(table), std::end(table), [&](const Entry& entry) { return entry.name == name; });
    return found == std::end(table) ? nullptr : found->function;
}

}  // namespace

Function find_method(const Value& object, std::string_view name) {
    switch (object.kind()) {
        case Kind::kText:
            return look_up(kTextMethods, name);
        case Kind::kDict:
            return look_up(kDictMethods, name);
        case Kind::kList:
            return object.as_list().form == List::Form::kList || object.as_list().form == List::Form::kTuple
                       ? look_up(kListMethods, name)
                       : nullptr;
        case Kind::kLoop:
            return look_up(kLoopMethods, name);
        default:
            return nullptr;
    }
}

bool is_refused_method(const Value& object, std::string_view name) {
    constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
    constexpr std::string_view kList[] = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
    if (object.is_dict()) {
        return std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
    }
    return object.is_list() && object.as_list().form == List::Form::kList &&
           std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
}

}  // namespace foresay::jinja
