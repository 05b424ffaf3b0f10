#include "grammar/schema/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace foresay::grammar {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxDepth = 64;

/// Builds the tree from the parser's events.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
  public:
    bool null() override { return put({}); }

    bool boolean(bool value) override { return put(Json::of_bool(value)); }

    bool number_integer(number_integer_t value) override { return number(Json::Type::kInteger, std::to_string(value)); }

    bool number_unsigned(number_unsigned_t value) override {
        return number(Json::Type::kInteger, std::to_string(value));
    }

    bool number_float(number_float_t, const string_t& literal) override { return number(Json::Type::kNumber, literal); }

    bool string(string_t& value) override { return put(Json::of_string(value)); }

    bool binary(binary_t&) override { return false; }

    bool start_object(std::size_t) override { return open(Json::Type::kObject); }

    bool key(string_t& value) override {
        keys_.back() = value;
        return true;
    }

    bool end_object() override { return close(); }

    bool start_array(std::size_t) override { return open(Json::Type::kArray); }

    bool end_array() override { return close(); }

    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
        // The library prefixes its own code: "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
        const std::string what = e.what();
        const size_t bracket = what.find("] ");
        message = what.substr(bracket == std::string::npos ? 0 : bracket + 2, 400);
        return false;
    }

    Json root;
    std::string message;

  private:
    bool number(Json::Type type, std::string literal) {
        Json value;
        value.type = type;
        value.text = std::move(literal);
        return put(std::move(value));
    }

    bool put(Json value) {
        if (open_.empty()) {
            root = std::move(value);
        } else if (open_.back().is(Json::Type::kArray)) {
            open_.back().items.push_back(std::move(value));
        } else {
            open_.back().members.emplace_back(std::move(keys_.back()), std::move(value));
        }
        return true;
    }

    bool open(Json::Type type) {
        if (open_.size() >= kMaxDepth) {
            message = fmt::format("JSON is nested deeper than {} levels", kMaxDepth);
            return false;
        }
        open_.emplace_back().type = type;
        keys_.emplace_back();
        return true;
    }

    bool close() {
        Json value = std::move(open_.back());
        open_.pop_back();
        keys_.pop_back();
        std::unordered_set<std::string_view> seen;
        std::vector<bool> is_kept(value.members.size());
        for (size_t i = value.members.size(); i-- > 0;) {
            is_kept[i] = seen.insert(value.members[i].first).second;
        }
        if (seen.size() < value.members.size()) {
            decltype(value.members) kept;
            for (size_t i = 0; i < value.members.size(); ++i) {
                if (is_kept[i]) {
                    kept.push_back(std::move(value.members[i]));
                }
            }
            value.members = std::move(kept);
        }
        return put(std::move(value));
    }

    std::vector<Json> open_;
    std::vector<std::string> keys_;
};

void append_text(const Json& value, std::string* out) {
    switch (value.type) {
        case Json::Type::kNull:
            *out += "null";
            return;
        case Json::Type::kBool:
            *out += value.boolean ? "true" : "false";
            return;
        case Json::Type::kInteger:
        case Json::Type::kNumber:
            *out += value.text;
            return;
        case Json::Type::kString:
            *out += nlohmann::json(value.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
            return;
        case Json::Type::kArray:
            *out += '[';
            for (const Json& item : value.items) {
                *out += &item == &value.items.front() ? "" : ",";
                append_text(item, out);
            }
            *out += ']';
            return;
        case Json::Type::kObject:
            *out += '{';
            for (const auto& member : value.members) {
                *out += &member == &value.members.front() ? "" : ",";
                append_text(Json::of_string(member.first), out);
                *out += ':';
                append_text(member.second, out);
            }
            *out += '}';
            return;
    }
}

}  // namespace

Json Json::of_string(std::string text) {
    Json value;
    value.type = Type::kString;
    value.text = std::move(text);
    return value;
}

Json Json::of_array(std::vector<Json> items) {
    Json value;
    value.type = Type::kArray;
    value.items = std::move(items);
    return value;
}

Json Json::of_bool(bool boolean) {
    Json value;
    value.type = Type::kBool;
    value.boolean = boolean;
    return value;
}

const Json* Json::find(std::string_view key) const {
    const auto it =
        std::find_if(members.begin(), members.end(), [key](const auto& member) { return member.first == key; });
    return it == members.end() ? nullptr : &it->second;
}

Json* Json::find(std::string_view key) {
    return const_cast<Json*>(static_cast<const Json*>(this)->find(key));  // the object itself isn't const
}

void Json::set(std::string_view key, Json value) {
    if (Json* known = find(key); known != nullptr) {
        *known = std::move(value);
    } else {
        members.emplace_back(std::string(key), std::move(value));
    }
}

void Json::erase(std::string_view key) {
    members.erase(
        std::remove_if(members.begin(), members.end(), [key](const auto& member) { return member.first == key; }),
        members.end());
}

std::string_view Json::type_name() const {
    switch (type) {
        case Type::kNull:
            return "null";
        case Type::kBool:
            return "boolean";
        case Type::kInteger:
            return "integer";
        case Type::kNumber:
            return "number";
        case Type::kString:
            return "string";
        case Type::kArray:
            return "array";
        case Type::kObject:
            break;
    }
    return "object";
}

Result<Json> parse_json(std::string_view text) {
    if (text.size() > kMaxBytes) {
        return error(Code::kInvalidArgument, fmt::format("{} bytes of JSON, more than {}", text.size(), kMaxBytes));
    }
    Builder builder;
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
        return error(Code::kInvalidArgument, builder.message.empty() ? "parse error" : builder.message);
    }
    return std::move(builder.root);
}

std::string to_text(const Json& value) {
    std::string out;
    append_text(value, &out);
    return out;
}

}  // namespace foresay::grammar
