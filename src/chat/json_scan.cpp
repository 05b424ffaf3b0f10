#include "chat/json_scan.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace foresay::chat {
namespace {

bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

}  // namespace

JsonScan::State JsonScan::add(char c) {
    took_last_ = true;
    if (in_string_) {
        if (escaped_) {
            escaped_ = false;
        } else if (c == '\\') {
            escaped_ = true;
        } else if (c == '"') {
            in_string_ = false;
            return open_.empty() ? State::kDone : State::kMore;
        }
        return State::kMore;
    }
    if (in_word_) {
        if (!is_blank(c) && c != ',' && c != '}' && c != ']') {
            return State::kMore;
        }
        took_last_ = false;
        return State::kDone;
    }
    switch (c) {
        case '"':
            in_string_ = true;
            return State::kMore;
        case '{':
        case '[':
            if (open_.size() >= kMaxDepth) {
                return State::kBad;
            }
            open_.push_back(c == '{' ? '}' : ']');
            return State::kMore;
        case '}':
        case ']':
            if (open_.empty() || open_.back() != c) {
                return State::kBad;
            }
            open_.pop_back();
            return open_.empty() ? State::kDone : State::kMore;
        default:
            break;
    }
    if (open_.empty() && !is_blank(c)) {
        in_word_ = true;  // a number, true, false or null by itself
    }
    return State::kMore;
}

std::string unquoted(std::string_view json) {
    const nlohmann::json value = nlohmann::json::parse(json, nullptr, false);
    return value.is_string() ? value.get<std::string>() : std::string(json);
}

std::string json_quoted(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

CallObject::State CallObject::add(char c) {
    switch (at_) {
        case At::kStart:
            at_ = At::kKey;
            return c == '{' ? State::kMore : State::kBad;
        case At::kKey:
        case At::kNext:
            if (is_blank(c) || (c == ',' && at_ == At::kNext)) {
                at_ = c == ',' ? At::kKey : at_;
                return State::kMore;
            }
            if (c == '}') {
                at_ = At::kEnd;
                return has_name_ ? State::kDone : State::kBad;
            }
            if (c != '"' || at_ == At::kNext) {
                return State::kBad;
            }
            key_ = c;
            scan_ = {};
            scan_.add(c);
            at_ = At::kInKey;
            return State::kMore;
        case At::kInKey:
            key_ += c;
            if (scan_.add(c) == JsonScan::State::kDone) {
                key_ = unquoted(key_);
                at_ = At::kColon;
            }
            return State::kMore;
        case At::kColon:
            at_ = c == ':' ? At::kValue : at_;
            return c == ':' || is_blank(c) ? State::kMore : State::kBad;
        case At::kValue:
            if (is_blank(c)) {
                return State::kMore;
            }
            begin_value(c);
            [[fallthrough]];
        case At::kInValue: {
            const JsonScan::State state = scan_.add(c);
            if (state == JsonScan::State::kBad) {
                return State::kBad;
            }
            if (scan_.took_last()) {
                (streams_ ? arguments_ : value_) += c;
            }
            if (state == JsonScan::State::kMore) {
                return State::kMore;
            }
            end_value();
            at_ = At::kNext;
            return scan_.took_last() ? State::kMore : add(c);
        }
        case At::kEnd:
            break;
    }
    return State::kBad;
}

void CallObject::begin_value(char c) {
    at_ = At::kInValue;
    scan_ = {};
    value_.clear();
    streams_ = false;
    if (syntax_->name_key.empty()) {
        // {"the_name": {arguments}}
        name_ = key_;
        has_name_ = true;
        has_arguments_ = true;
        streams_ = true;
    } else if (key_ == syntax_->arguments_key || key_ == "arguments" || key_ == "parameters") {
        has_arguments_ = true;
        // Arguments written as the text of an object are read to their end first.
        streams_ = c != '"';
    }
}

void CallObject::end_value() {
    if (streams_) {
        return;
    }
    if (key_ == syntax_->name_key || (key_ == "name" && !has_name_)) {
        name_ = unquoted(value_);
        has_name_ = true;
    } else if (key_ == syntax_->id_key || key_ == "id") {
        id_ = unquoted(value_);
    } else if (key_ == syntax_->arguments_key || key_ == "arguments" || key_ == "parameters") {
        arguments_ += unquoted(value_);
    }
}

}  // namespace foresay::chat
