#include <fmt/format.h>

#include <algorithm>

#include "chat/jinja/filters.h"
#include "chat/jinja/text.h"

namespace foresay::jinja {

std::string html_escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '\'':
                out += "&#39;";
                break;
            case '"':
                out += "&#34;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

}  // namespace foresay::jinja

namespace foresay::jinja::filters {
namespace {

/// A non-negative count below the longest text.
Result<size_t> count(Render& render, const Value* value, size_t fallback) {
    if (value == nullptr) {
        return fallback;
    }
    if (!value->is_integer()) {
        return type_error(fmt::format("an integer is needed, not {}", type_name(*value)));
    }
    const auto n = static_cast<size_t>(std::max<int64_t>(value->as_integer(), 0));
    FORESAY_CHECK_OK(render.check_text(n));
    return n;
}

template <std::string (*mapping)(std::string_view)>
Result<Value> mapped(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("the filter", args, {}, 0));
    (void)bound;
    FORESAY_TRY(const std::string text, render.str(self));
    return render.text(mapping(text));
}

/// jinja2's title filter: a letter behind a blank, '-', '(', '{', '[' or '<' is upper, the rest lower.
std::string words_titled(std::string_view text) {
    std::string out;
    size_t begin = 0;
    for (size_t i = 0; i <= text.size(); ++i) {
        const bool breaks = i < text.size() && (std::string_view("-({[<").find(text[i]) != std::string_view::npos ||
                                                is_space(static_cast<unsigned char>(text[i])));
        if (breaks || i == text.size()) {
            out += to_capitalized(text.substr(begin, i - begin));
            if (breaks) {
                out += text[i];
            }
            begin = i + 1;
        }
    }
    return out;
}

std::vector<std::string_view> lines(std::string_view text) {
    std::vector<std::string_view> out;
    size_t begin = 0;
    while (true) {
        const size_t end = text.find('\n', begin);
        out.push_back(text.substr(begin, end - begin));
        if (end == std::string_view::npos) {
            return out;
        }
        begin = end + 1;
    }
}

}  // namespace

Result<Value> capitalize(Render& render, const Value& self, const Args& args) {
    return mapped<to_capitalized>(render, self, args);
}

Result<Value> lower(Render& render, const Value& self, const Args& args) {
    return mapped<to_lower>(render, self, args);
}

Result<Value> upper(Render& render, const Value& self, const Args& args) {
    return mapped<to_upper>(render, self, args);
}

Result<Value> title(Render& render, const Value& self, const Args& args) {
    return mapped<words_titled>(render, self, args);
}

Result<Value> string(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("string", args, {}, 0));
    (void)bound;
    if (self.is_text()) {
        return self;
    }
    FORESAY_TRY(std::string text, render.str(self));
    return render.text(std::move(text));
}

Result<Value> safe(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("safe", args, {}, 0));
    (void)bound;
    FORESAY_TRY(std::string text, render.str(self));
    return render.text(std::move(text), true);
}

Result<Value> trim(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("trim", args, {"chars"}, 0));
    FORESAY_TRY(const std::string text, render.str(self));
    if (bound[0] == nullptr || bound[0]->is_none()) {
        return render.text(std::string(strip(text, Side::kBoth)));
    }
    if (!bound[0]->is_text()) {
        return type_error(fmt::format("trim() needs a string, not {}", type_name(*bound[0])));
    }
    FORESAY_CHECK_OK(render.charge(text.size() / 64 * (1 + bound[0]->as_text().size())));
    const std::string_view chars = bound[0]->as_text();
    return render.text(std::string(strip(text, Side::kBoth, &chars)));
}

Result<Value> center(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("center", args, {"width"}, 0));
    FORESAY_TRY(std::string text, render.str(self));
    FORESAY_TRY(const size_t width, count(render, bound[0], 80));
    const auto length = static_cast<size_t>(text_length(text));
    if (length >= width) {
        return render.text(std::move(text));
    }
    const size_t pad = width - length;
    const size_t left = pad / 2 + (pad & width & 1U);  // as CPython centres
    return render.text(std::string(left, ' ') + text + std::string(pad - left, ' '));
}

Result<Value> escape(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("escape", args, {}, 0));
    (void)bound;
    FORESAY_TRY(const std::string text, render.str(self));
    return render.text(html_escaped(text), true);
}

Result<Value> format(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::string text, render.str(self));
    if (!args.positional.empty() && !args.named.empty()) {
        return type_error("format: can't handle positional and named arguments at the same time");
    }
    Value values;
    if (!args.named.empty()) {
        Entries entries;
        for (const auto& [name, value] : args.named) {
            entries.emplace_back(Value::constant(name), value);
        }
        FORESAY_TRY(values, render.dict(std::move(entries)));
    } else {
        FORESAY_TRY(values, render.list(args.positional, List::Form::kTuple));
    }
    FORESAY_TRY(std::string out, format_percent(render, text, values));
    return render.text(std::move(out));
}

Result<Value> indent(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("indent", args, {"width", "first", "blank"}, 0));
    FORESAY_TRY(std::string text, render.str(self));
    std::string margin;
    if (bound[0] != nullptr && bound[0]->is_text()) {
        margin = bound[0]->as_text();
    } else {
        FORESAY_TRY(const size_t width, count(render, bound[0], 4));
        margin.assign(width, ' ');
    }
    const bool first = bound[1] != nullptr && is_true(*bound[1]);
    const bool blank = bound[2] != nullptr && is_true(*bound[2]);
    text += '\n';  // jinja2 does so, which keeps a newline at the end
    std::vector<std::string_view> all = lines(text);
    all.pop_back();  // what follows the added newline
    FORESAY_CHECK_OK(render.check_text(text.size() + margin.size() * std::min(all.size(), render.max_text())));
    if (margin.size() > render.max_text() / (all.size() + 1)) {
        return render.check_text(render.max_text() + 1).error();
    }
    std::string out;
    for (size_t i = 0; i < all.size(); ++i) {
        if (i > 0) {
            out += '\n';
        }
        if (i == 0 ? first : (blank || !all[i].empty())) {
            out += margin;
        }
        out += all[i];
    }
    return render.text(std::move(out));
}

Result<Value> replace(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("replace", args, {"old", "new", "count"}, 2));
    FORESAY_TRY(const std::string text, render.str(self));
    FORESAY_TRY(const std::string old_text, render.str(*bound[0]));
    FORESAY_TRY(const std::string new_text, render.str(*bound[1]));
    Args rest;
    FORESAY_TRY(Value old_value, render.text(old_text));
    FORESAY_TRY(Value new_value, render.text(new_text));
    rest.positional = {std::move(old_value), std::move(new_value)};
    if (bound[2] != nullptr && !bound[2]->is_none()) {
        rest.positional.push_back(*bound[2]);
    }
    FORESAY_TRY(const Value subject, render.text(text));
    return find_method(subject, "replace")(render, subject, rest);
}

Result<Value> truncate(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound,
                bind("truncate", args, {"length", "killwords", "end", "leeway"}, 0));
    FORESAY_TRY(const std::string text, render.str(self));
    FORESAY_TRY(const size_t length, count(render, bound[0], 255));
    FORESAY_TRY(const std::string end, bound[2] != nullptr ? render.str(*bound[2]) : Result<std::string>("..."));
    FORESAY_TRY(const size_t leeway, count(render, bound[3], 5));
    const auto end_length = static_cast<size_t>(text_length(end));
    if (length < end_length) {
        return type_error(fmt::format("truncate: expected length >= {}, got {}", end_length, length));
    }
    if (static_cast<size_t>(text_length(text)) <= length + leeway) {
        return render.text(text);
    }
    std::string kept = text.substr(0, text_offset(text, static_cast<int64_t>(length - end_length)));
    if (bound[1] == nullptr || !is_true(*bound[1])) {
        kept = kept.substr(0, kept.rfind(' '));
    }
    return render.text(kept + end);
}

Result<Value> wordcount(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("wordcount", args, {}, 0));
    (void)bound;
    FORESAY_TRY(const std::string text, render.str(self));
    int64_t n = 0;
    bool in_word = false;
    for (size_t pos = 0, bytes = 0; pos < text.size(); pos += bytes) {
        const uint32_t cp = text_at(text, pos, &bytes);
        const std::string_view one = std::string_view(text).substr(pos, bytes);
        const bool is_word = cp == '_' || has_class(one, TextClass::kAlnum);
        n += is_word && !in_word ? 1 : 0;
        in_word = is_word;
    }
    return Value(n);
}

Result<Value> tojson(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound,
                bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
    JsonStyle style;
    // jinja2's own filter has `indent` in the first place, and Hugging Face's `ensure_ascii`: an integer that isn't a
    // bool is taken as the indent.
    const Value* indent = bound[1];
    if (bound[0] != nullptr && bound[0]->kind() == Kind::kInt && indent == nullptr) {
        indent = bound[0];
    } else {
        style.ascii = bound[0] != nullptr && is_true(*bound[0]);
    }
    if (indent != nullptr && !indent->is_none()) {
        if (!indent->is_integer() || indent->as_integer() > 64) {
            return type_error("tojson: indent must be an integer of at most 64");
        }
        style.indent = static_cast<int>(std::max<int64_t>(indent->as_integer(), 0));
    }
    if (bound[2] != nullptr && !bound[2]->is_none()) {
        const bool fits = bound[2]->is_list() && bound[2]->as_list().items.size() == 2 &&
                          bound[2]->as_list().items[0].is_text() && bound[2]->as_list().items[1].is_text();
        if (!fits) {
            return type_error("tojson: separators must be two strings");
        }
        style.item_separator = bound[2]->as_list().items[0].as_text();
        style.key_separator = bound[2]->as_list().items[1].as_text();
    }
    style.sort_keys = bound[3] != nullptr && is_true(*bound[3]);
    FORESAY_TRY(std::string text, to_json(render, self, style));
    return render.text(std::move(text));
}

Result<Value> from_json(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("from_json", args, {}, 0));
    (void)bound;
    if (!self.is_text()) {
        return type_error(fmt::format("from_json needs a string, not {}", type_name(self)));
    }
    const std::string& text = self.as_text();
    // Before parsing: values of a million levels overflow the stack when they are copied.
    int depth = 0;
    for (const char c : text) {
        depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
        if (depth > kMaxValueDepth) {
            return type_error("from_json: the text is nested too deeply");
        }
    }
    FORESAY_CHECK_OK(render.charge(text.size()));
    const nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, false);
    if (json.is_discarded()) {
        return type_error("from_json: the text isn't JSON");
    }
    return render.from_json(json);
}

Result<Value> urlencode(Render& render, const Value& self, const Args& args) {
    FORESAY_TRY(const std::vector<const Value*> bound, bind("urlencode", args, {}, 0));
    (void)bound;
    FORESAY_TRY(const std::string text, render.str(self));
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain =
            byte < 0x80 && (std::isalnum(byte) != 0 || std::string_view("_.-~/").find(c) != std::string_view::npos);
        out += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
    }
    return render.text(std::move(out));
}

}  // namespace foresay::jinja::filters
