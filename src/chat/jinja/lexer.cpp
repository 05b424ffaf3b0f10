#include "chat/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "chat/jinja/text.h"
#include "vocab/utf8.h"

namespace foresay::jinja {
namespace {

bool is_name_start(uint32_t cp) {
    return cp == '_' || (cp < 0x80 && std::isalpha(static_cast<int>(cp)) != 0) || cp >= 0x80;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// "\r\n" and "\r" become "\n", and one newline at the end goes, as jinja2 does before it looks at a template.
std::string normalized(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            out += source[i];
            continue;
        }
        out += '\n';
        i += i + 1 < source.size() && source[i + 1] == '\n' ? 1 : 0;
    }
    if (!out.empty() && out.back() == '\n') {
        out.pop_back();
    }
    return out;
}

class Lexer {
  public:
    explicit Lexer(std::string_view source) : source_(source) {}

    Result<std::vector<Token>> run() {
        while (pos_ < source_.size()) {
            FORESAY_CHECK_OK(text_then_tag());
        }
        token_ = pos_;
        push(Token::Kind::kEnd, "");
        return std::move(tokens_);
    }

  private:
    Error fail(std::string message) {
        return error(Code::kInvalidArgument, std::move(message), to_string(position_at(pos_)));
    }

    /// Positions are asked for in ascending order but for errors, so the count goes on from the last one.
    Position position_at(size_t pos) {
        if (pos < counted_to_) {
            counted_to_ = 0;
            counted_ = {1, 1};
        }
        for (; counted_to_ < pos; ++counted_to_) {
            const auto byte = static_cast<unsigned char>(source_[counted_to_]);
            if (byte == '\n') {
                ++counted_.line;
                counted_.column = 1;
            } else if ((byte & 0xC0U) != 0x80U) {
                ++counted_.column;
            }
        }
        return counted_;
    }

    void push(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), position_at(token_)}); }

    void push_text(std::string_view text) {
        if (!text.empty()) {
            push(Token::Kind::kText, std::string(text));
        }
    }

    bool at(std::string_view what) const { return source_.substr(pos_, what.size()) == what; }

    void skip_space() {
        for (size_t bytes = 0; pos_ < source_.size() && is_space(text_at(source_, pos_, &bytes));) {
            pos_ += bytes;
        }
    }

    /// Cuts what a tag's opening takes from the text before it. sign: the character after the opening; can_lstrip: a
    /// block or a comment, whose indentation lstrip_blocks removes.
    std::string_view before_tag(std::string_view text, char sign, bool can_lstrip) const {
        if (sign == '-') {
            return strip(text, Side::kRight);
        }
        if (sign == '+' || !can_lstrip) {
            return text;
        }
        const size_t newline = text.rfind('\n');
        const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
        const bool at_line_start = line > 0 || starts_line_;
        return at_line_start && strip(text.substr(line), Side::kLeft).empty() ? text.substr(0, line) : text;
    }

    /// Reads a closing "-%}", "+%}" or "%}" (close is "%}" or "#}"); false if there is none here.
    bool close_tag(std::string_view close, bool trims_newline) {
        const char sign = pos_ < source_.size() ? source_[pos_] : '\0';
        const size_t signed_length = sign == '-' || sign == '+' ? 1 : 0;
        if (source_.substr(std::min(source_.size(), pos_ + signed_length), close.size()) != close) {
            return false;
        }
        pos_ += signed_length + close.size();
        if (sign == '-') {
            skip_space();
        } else if (sign != '+' && trims_newline && at("\n")) {
            ++pos_;
        }
        starts_line_ = source_[pos_ - 1] == '\n';
        return true;
    }

    Status text_then_tag() {
        size_t open = pos_;
        do {
            open = source_.find('{', open);
            if (open == std::string_view::npos || open + 1 >= source_.size()) {
                token_ = pos_;
                push_text(source_.substr(pos_));
                pos_ = source_.size();
                return ok();
            }
            const char next = source_[open + 1];
            if (next == '{' || next == '%' || next == '#') {
                break;
            }
            ++open;
        } while (true);
        const char type = source_[open + 1];
        const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
        token_ = pos_;
        push_text(before_tag(source_.substr(pos_, open - pos_), sign, type != '{'));
        token_ = open;
        pos_ = open + 2 + (sign == '-' || (sign == '+' && type != '{') ? 1 : 0);
        if (type == '#') {
            return comment();
        }
        if (type == '{') {
            push(Token::Kind::kOutputBegin, "");
            return inside(true);
        }
        if (is_raw()) {
            return raw();
        }
        push(Token::Kind::kTagBegin, "");
        return inside(false);
    }

    Status comment() {
        const size_t opened = token_;
        for (; pos_ < source_.size(); ++pos_) {
            if ((source_[pos_] == '-' || source_[pos_] == '+' || source_[pos_] == '#') && close_tag("#}", true)) {
                return ok();
            }
        }
        pos_ = opened;
        return fail("a comment '{#' isn't closed");
    }

    /// After "{%": is this `raw %}`? Then moves past it.
    bool is_raw() {
        const size_t start = pos_;
        skip_space();
        if (at("raw")) {
            pos_ += 3;
            skip_space();
            if (!at("+") && close_tag("%}", false)) {
                return true;
            }
        }
        pos_ = start;
        return false;
    }

    Status raw() {
        const size_t opened = token_;
        const size_t begin = pos_;
        for (size_t open = source_.find("{%", pos_); open != std::string_view::npos;
             open = source_.find("{%", open + 1)) {
            pos_ = open + 2;
            const char sign = pos_ < source_.size() ? source_[pos_] : '\0';
            pos_ += sign == '-' || sign == '+' ? 1 : 0;
            skip_space();
            if (!at("endraw")) {
                continue;
            }
            pos_ += 6;
            skip_space();
            token_ = begin;
            const std::string_view text = before_tag(source_.substr(begin, open - begin), sign, true);
            if (close_tag("%}", true)) {
                push_text(text);
                return ok();
            }
        }
        pos_ = opened;
        return fail("'{% raw %}' isn't closed");
    }

    /// The tokens of a tag up to its end.
    Status inside(bool is_output) {
        const size_t opened = token_;
        std::string open_brackets;
        while (true) {
            skip_space();
            token_ = pos_;
            if (pos_ >= source_.size()) {
                pos_ = opened;
                return fail(fmt::format("'{}' isn't closed", is_output ? "{{" : "{%"));
            }
            if (open_brackets.empty()) {
                if (is_output && (at("}}") || at("-}}"))) {
                    pos_ += at("-}}") ? 3 : 2;
                    const bool strips = source_[token_] == '-';
                    push(Token::Kind::kOutputEnd, "");
                    if (strips) {
                        skip_space();
                    }
                    starts_line_ = source_[pos_ - 1] == '\n';
                    return ok();
                }
                if (!is_output && close_tag("%}", true)) {
                    push(Token::Kind::kTagEnd, "");
                    return ok();
                }
            }
            FORESAY_CHECK_OK(one(&open_brackets));
        }
    }

    Status one(std::string* open_brackets) {
        size_t bytes = 0;
        const uint32_t cp = text_at(source_, pos_, &bytes);
        if (is_name_start(cp)) {
            while (pos_ < source_.size()) {
                const uint32_t next = text_at(source_, pos_, &bytes);
                if (!is_name_start(next) && !(next < 0x80 && is_digit(static_cast<char>(next)))) {
                    break;
                }
                if (next >= 0x80 && is_space(next)) {
                    break;
                }
                pos_ += bytes;
            }
            push(Token::Kind::kName, std::string(source_.substr(token_, pos_ - token_)));
            return ok();
        }
        if (cp < 0x80 && is_digit(static_cast<char>(cp))) {
            return number();
        }
        if (cp == '"' || cp == '\'') {
            return string(static_cast<char>(cp));
        }
        return symbol(open_brackets);
    }

    size_t digits(size_t pos) const {
        while (pos < source_.size() && (is_digit(source_[pos]) || (source_[pos] == '_' && pos + 1 < source_.size() &&
                                                                   is_digit(source_[pos + 1])))) {
            ++pos;
        }
        return pos;
    }

    Status number() {
        const bool after_dot = token_ > 0 && source_[token_ - 1] == '.';  // x.0.1 is two items, not a float
        size_t end = digits(pos_);
        bool is_float = false;
        const auto digit_at = [&](size_t i) { return i < source_.size() && is_digit(source_[i]); };
        if (!after_dot && end < source_.size() && source_[end] == '.' && digit_at(end + 1)) {
            is_float = true;
            end = digits(end + 1);
        }
        if (!after_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
            const size_t sign =
                end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
            if (digit_at(end + 1 + sign)) {
                is_float = true;
                end = digits(end + 1 + sign);
            }
        }
        std::string text(source_.substr(pos_, end - pos_));
        text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
        pos_ = end;
        if (pos_ < source_.size() && is_name_start(static_cast<unsigned char>(source_[pos_]))) {
            return fail(fmt::format("unexpected '{}' after a number", source_[pos_]));
        }
        push(is_float ? Token::Kind::kFloat : Token::Kind::kInteger, std::move(text));
        return ok();
    }

    Status string(char quote) {
        std::string value;
        for (++pos_; pos_ < source_.size() && source_[pos_] != quote;) {
            if (source_[pos_] == '\\' && pos_ + 1 < source_.size()) {
                FORESAY_CHECK_OK(escape(&value));
            } else {
                value += source_[pos_++];
            }
        }
        if (pos_ >= source_.size()) {
            pos_ = token_;
            return fail("a string isn't closed");
        }
        ++pos_;
        push(Token::Kind::kString, std::move(value));
        return ok();
    }

    /// Python's escapes in strings. An unknown one stays as it is.
    Status escape(std::string* value) {
        const char c = source_[pos_ + 1];
        pos_ += 2;
        constexpr std::string_view kNames = "abfnrtv\\'\"";
        constexpr std::string_view kBytes = "\a\b\f\n\r\t\v\\'\"";
        if (const size_t i = kNames.find(c); i != std::string_view::npos) {
            *value += kBytes[i];
            return ok();
        }
        if (c == '\n') {
            return ok();
        }
        uint32_t cp = 0;
        if (c >= '0' && c <= '7') {
            --pos_;
            for (int n = 0; n < 3 && pos_ < source_.size() && source_[pos_] >= '0' && source_[pos_] <= '7'; ++n) {
                cp = cp * 8 + static_cast<uint32_t>(source_[pos_++] - '0');
            }
        } else if (c == 'x' || c == 'u' || c == 'U') {
            const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            for (size_t i = 0; i < n; ++i, ++pos_) {
                const char digit = pos_ < source_.size() ? source_[pos_] : '\0';
                if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) {
                    return fail(fmt::format("'\\{}' in a string needs {} hexadecimal digits", c, n));
                }
                cp = cp * 16 + static_cast<uint32_t>(is_digit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
            }
        } else {
            *value += '\\';
            --pos_;
            // The character itself is copied by the caller, byte by byte.
            *value += source_[pos_++];
            return ok();
        }
        if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) {
            return fail("an escape in a string isn't a character of Unicode");
        }
        vocab::append_utf8(cp, value);
        return ok();
    }

    Status symbol(std::string* open_brackets) {
        static constexpr std::array<std::string_view, 26> kOperators = {
            "==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
        for (const std::string_view op : kOperators) {
            if (!at(op)) {
                continue;
            }
            if (op == "(" || op == "[" || op == "{") {
                open_brackets->push_back(op == "(" ? ')' : op == "[" ? ']' : '}');
            } else if (op == ")" || op == "]" || op == "}") {
                if (open_brackets->empty()) {
                    return fail(fmt::format("unexpected '{}'", op));
                }
                if (open_brackets->back() != op[0]) {
                    return fail(fmt::format("unexpected '{}', expected '{}'", op, open_brackets->back()));
                }
                open_brackets->pop_back();
            }
            pos_ += op.size();
            push(Token::Kind::kOperator, std::string(op));
            return ok();
        }
        size_t bytes = 0;
        text_at(source_, pos_, &bytes);
        return fail(fmt::format("unexpected character '{}'", source_.substr(pos_, bytes)));
    }

    std::string_view source_;
    size_t pos_ = 0;
    size_t token_ = 0;         ///< where the token being read starts
    bool starts_line_ = true;  ///< the last tag's end took a newline with it (or this is the start)
    size_t counted_to_ = 0;
    Position counted_{1, 1};
    std::vector<Token> tokens_;
};

}  // namespace

std::string to_string(Position position) {
    return fmt::format("chat template, line {}, column {}", position.line, position.column);
}

Result<std::vector<Token>> tokenize(std::string_view source) {
    const std::string text = normalized(source);
    return Lexer(text).run();
}

}  // namespace foresay::jinja
