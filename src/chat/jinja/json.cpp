// JSON to values, and values to JSON as Python's json.dumps writes it.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "chat/jinja/render.h"
#include "chat/jinja/text.h"

namespace foresay::jinja {
namespace {

using Json = nlohmann::ordered_json;

void append_escaped(std::string_view text, bool ascii, std::string* out) {
    out->push_back('"');
    for (size_t pos = 0, bytes = 1; pos < text.size(); pos += bytes) {
        bytes = 1;
        const char c = text[pos];
        constexpr std::string_view kShort = "\"\\\n\r\t\b\f";
        constexpr std::string_view kLetters = "\"\\nrtbf";
        if (const size_t i = kShort.find(c); i != std::string_view::npos) {
            out->push_back('\\');
            out->push_back(kLetters[i]);
        } else if (static_cast<unsigned char>(c) < 0x20) {
            out->append(fmt::format("\\u{:04x}", static_cast<int>(c)));
        } else if (static_cast<unsigned char>(c) < 0x80) {
            if (ascii && c == 0x7F) {
                out->append("\x7f");
            } else {
                out->push_back(c);
            }
        } else {
            const uint32_t cp = text_at(text, pos, &bytes);
            if (!ascii) {
                out->append(text.substr(pos, bytes));
            } else if (cp < 0x10000) {
                out->append(fmt::format("\\u{:04x}", cp));
            } else {
                out->append(fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (cp >> 10U), 0xDC00 + (cp & 0x3FFU)));
            }
        }
    }
    out->push_back('"');
}

class Writer {
  public:
    Writer(Render& render, const JsonStyle& style) : render_(render), style_(style) {
        item_ = !style.item_separator.empty() ? style.item_separator : style.indent < 0 ? ", " : ",";
        key_ = !style.key_separator.empty() ? style.key_separator : ": ";
    }

    Status write(const Value& value, int level) {
        // Checked at every value: lists that share parts can have exponentially many paths.
        FORESAY_CHECK_OK(render_.charge(1));
        FORESAY_CHECK_OK(render_.check_text(out.size()));
        switch (value.kind()) {
            case Kind::kNone:
                out += "null";
                return ok();
            case Kind::kBool:
                out += value.as_bool() ? "true" : "false";
                return ok();
            case Kind::kInt:
                out += fmt::format("{}", value.as_integer());
                return ok();
            case Kind::kFloat:
                out += number(value.as_float());
                return ok();
            case Kind::kText:
                FORESAY_CHECK_OK(render_.charge_text(value.as_text().size()));
                append_escaped(value.as_text(), style_.ascii, &out);
                return ok();
            case Kind::kList:
                if (value.as_list().form == List::Form::kList || value.as_list().form == List::Form::kTuple) {
                    return list(value.as_list(), level);
                }
                break;
            case Kind::kDict:
                return dict(value.as_dict(), level);
            case Kind::kUndefined:
                return error(
                    Code::kInvalidArgument,
                    fmt::format("Object of type Undefined is not JSON serializable{}",
                                value.as_missing() != nullptr ? " (" + value.as_missing()->message + ")" : ""));
            default:
                break;
        }
        return type_error(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }

    std::string out;

  private:
    static std::string number(double value) {
        const std::string text = float_repr(value);
        return text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text == "nan" ? "NaN" : text;
    }

    void line(int level) {
        if (style_.indent >= 0) {
            out += '\n';
            out.append(static_cast<size_t>(style_.indent) * static_cast<size_t>(level), ' ');
        }
    }

    Status list(const List& list, int level) {
        out += '[';
        for (size_t i = 0; i < list.items.size(); ++i) {
            out += i > 0 ? item_ : "";
            line(level + 1);
            FORESAY_CHECK_OK(write(list.items[i], level + 1));
        }
        if (!list.items.empty()) {
            line(level);
        }
        out += ']';
        return ok();
    }

    Status dict(const Dict& dict, int level) {
        std::vector<const std::pair<Value, Value>*> entries;
        entries.reserve(dict.entries.size());
        for (const auto& entry : dict.entries) {
            entries.push_back(&entry);
        }
        if (style_.sort_keys) {
            const bool all_text =
                std::all_of(entries.begin(), entries.end(), [](auto* e) { return e->first.is_text(); });
            if (!all_text) {
                return type_error("sort_keys needs keys that are strings");
            }
            std::sort(entries.begin(), entries.end(),
                      [](auto* a, auto* b) { return a->first.as_text() < b->first.as_text(); });
        }
        out += '{';
        bool first = true;
        for (const auto* entry : entries) {
            out += first ? "" : item_;
            first = false;
            line(level + 1);
            std::string key;
            const Value& k = entry->first;
            if (k.is_text()) {
                key = k.as_text();
            } else if (k.is_none() || k.kind() == Kind::kBool) {
                key = k.is_none() ? "null" : k.as_bool() ? "true" : "false";
            } else {
                key = k.is_integer() ? fmt::format("{}", k.as_integer()) : number(k.as_float());
            }
            append_escaped(key, style_.ascii, &out);
            out += key_;
            FORESAY_CHECK_OK(write(entry->second, level + 1));
        }
        if (!entries.empty()) {
            line(level);
        }
        out += '}';
        return ok();
    }

    Render& render_;
    const JsonStyle& style_;
    std::string item_;
    std::string key_;
};

Result<Value> convert(Render& render, const Json& json, int depth) {
    if (depth > kMaxValueDepth) {
        return error(Code::kInvalidArgument, fmt::format("JSON is nested deeper than {} levels", kMaxValueDepth));
    }
    switch (json.type()) {
        case Json::value_t::boolean:
            return Value(json.get<bool>());
        case Json::value_t::number_integer:
            return Value(json.get<int64_t>());
        case Json::value_t::number_unsigned: {
            const auto number = json.get<uint64_t>();
            if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
                return error(Code::kInvalidArgument,
                             fmt::format("the integer {} doesn't fit 64 bits with sign", number));
            }
            return Value(static_cast<int64_t>(number));
        }
        case Json::value_t::number_float:
            return Value(json.get<double>());
        case Json::value_t::string:
            return render.text(json.get_ref<const std::string&>());
        case Json::value_t::array: {
            std::vector<Value> items;
            items.reserve(json.size());
            for (const Json& item : json) {
                FORESAY_TRY(Value value, convert(render, item, depth + 1));
                items.push_back(std::move(value));
            }
            return render.list(std::move(items));
        }
        case Json::value_t::object: {
            Entries entries;
            entries.reserve(json.size());
            for (const auto& item : json.items()) {
                FORESAY_TRY(Value key, render.text(item.key()));
                FORESAY_TRY(Value value, convert(render, item.value(), depth + 1));
                entries.emplace_back(std::move(key), std::move(value));
            }
            return render.dict(std::move(entries));
        }
        default:
            return Value(Value::None{});
    }
}

}  // namespace

Result<Value> Render::from_json(const Json& json) {
    return convert(*this, json, 1);
}

Result<std::string> to_json(Render& render, const Value& value, const JsonStyle& style) {
    Writer writer(render, style);
    FORESAY_CHECK_OK(writer.write(value, 0));
    FORESAY_CHECK_OK(render.check_text(writer.out.size()));
    return std::move(writer.out);
}

}  // namespace foresay::jinja
