#include "grammar/schema/pattern.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "grammar/schema/text.h"

namespace foresay::grammar {
namespace {

using Set = std::vector<CodeRange>;

const Set kDigits{{'0', '9'}};
const Set kWord{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
/// ECMA-262's white space and line ends.
const Set kSpace{{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                 {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const Set kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class Translator {
  public:
    explicit Translator(std::string_view text) : text_(text) {}

    Result<std::string> run() {
        const std::string any = json_char(complement({}));
        std::vector<std::string> choices;
        while (true) {
            const bool is_begin = take('^');
            FORESAY_TRY(std::string body, parse_sequence(0));
            const bool is_end = take('$');
            if (!at_end() && peek() != '|') {
                pos_ -= is_end ? 1 : 0;
                return unexpected();
            }
            std::string whole = is_begin ? "" : any + "* ";
            whole += body;
            whole += is_end ? "" : " " + any + "*";
            choices.push_back(std::move(whole));
            if (!take('|')) {
                break;
            }
        }
        std::string out = "\"\\\"\" ";
        out += choices.size() == 1 ? choices.front() : choice(choices);
        return out + " \"\\\"\"";
    }

  private:
    static constexpr int kMaxDepth = 30;

    bool at_end() const { return pos_ >= text_.size(); }

    char peek() const { return at_end() ? '\0' : text_[pos_]; }

    bool take(char c) {
        if (at_end() || text_[pos_] != c) {
            return false;
        }
        ++pos_;
        return true;
    }

    Error fail(const std::string& message) const {
        return error(Code::kInvalidArgument, fmt::format("pattern, at character {}: {}", pos_ + 1, message));
    }

    Error unexpected() const {
        switch (peek()) {
            case '^':
            case '$':
                return fail(fmt::format("'{}' is supported only at the ends of the pattern", peek()));
            case ')':
                return fail("')' without '('");
            default:
                return fail("a quantifier without anything before it");
        }
    }

    Result<std::string> parse_choice(int depth) {
        std::vector<std::string> choices;
        do {
            FORESAY_TRY(std::string sequence, parse_sequence(depth));
            choices.push_back(std::move(sequence));
        } while (take('|'));
        return choices.size() == 1 ? "(" + choices.front() + ")" : choice(choices);
    }

    Result<std::string> parse_sequence(int depth) {
        std::string out;
        while (!at_end() && std::string_view("|)^$*+?").find(peek()) == std::string_view::npos) {
            FORESAY_TRY(std::string atom, parse_atom(depth));
            FORESAY_TRY(const std::string quantifier, parse_quantifier());
            out += out.empty() ? "" : " ";
            out += atom + quantifier;
        }
        return out.empty() ? std::string("\"\"") : out;
    }

    Result<std::string> parse_atom(int depth) {
        if (take('(')) {
            if (depth >= kMaxDepth) {
                return fail(fmt::format("groups are nested deeper than {}", kMaxDepth));
            }
            if (take('?') && !take(':')) {
                return fail("look-around, named groups and flags are not supported");
            }
            FORESAY_TRY(std::string group, parse_choice(depth + 1));
            if (!take(')')) {
                return at_end() ? fail("'(' without ')'") : unexpected();
            }
            return group;
        }
        Set set;
        if (take('[')) {
            FORESAY_TRY(set, parse_class());
        } else if (take('.')) {
            set = complement(kLineEnds);
        } else if (peek() == '\\') {
            FORESAY_TRY(set, parse_escape(false));
        } else {
            FORESAY_TRY(const uint32_t c, parse_char());
            set = {{c, c}};
        }
        std::string atom = json_char(set);
        if (atom.empty()) {
            return fail("a character class that matches nothing");
        }
        return atom;
    }

    /// Behind the '['.
    Result<Set> parse_class() {
        const bool is_negated = take('^');
        Set set;
        while (!take(']')) {
            if (at_end()) {
                return fail("'[' without ']'");
            }
            FORESAY_TRY(const Set low, parse_class_part());
            const bool is_char = low.size() == 1 && low.front().low == low.front().high;
            const bool is_range = peek() == '-' && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']';
            if (!is_range) {
                set.insert(set.end(), low.begin(), low.end());
                continue;
            }
            ++pos_;
            FORESAY_TRY(const Set high, parse_class_part());
            if (!is_char || high.size() != 1 || high.front().low != high.front().high ||
                high.front().low < low.front().low) {
                return fail("a range in a class that isn't one of characters, or ends before it begins");
            }
            set.push_back({low.front().low, high.front().low});
        }
        set = normalised(std::move(set));
        return is_negated ? complement(set) : set;
    }

    Result<Set> parse_class_part() {
        if (peek() == '\\') {
            return parse_escape(true);
        }
        FORESAY_TRY(const uint32_t c, parse_char());
        return Set{{c, c}};
    }

    Result<Set> parse_escape(bool in_class) {
        ++pos_;
        const char c = peek();
        if (at_end()) {
            return fail("the pattern ends with '\\'");
        }
        ++pos_;
        const auto one = [](uint32_t code_point) { return Set{{code_point, code_point}}; };
        switch (c) {
            case 'd':
                return kDigits;
            case 'D':
                return complement(kDigits);
            case 'w':
                return kWord;
            case 'W':
                return complement(kWord);
            case 's':
                return kSpace;
            case 'S':
                return complement(kSpace);
            case 't':
                return one('\t');
            case 'n':
                return one('\n');
            case 'r':
                return one('\r');
            case 'f':
                return one('\f');
            case 'v':
                return one('\v');
            case '0':
                return one(0);
            case 'b':
                if (in_class) {
                    return one('\b');
                }
                break;
            case 'x': {
                FORESAY_TRY(const uint32_t value, parse_hex(2));
                return one(value);
            }
            case 'u': {
                FORESAY_TRY(const uint32_t value, parse_unicode());
                return one(value);
            }
            default:
                break;
        }
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (is_letter || static_cast<unsigned char>(c) >= 0x80) {
            return fail(fmt::format("the escape '\\{}' is not supported", is_letter ? c : '?'));
        }
        return one(static_cast<uint32_t>(c));
    }

    Result<uint32_t> parse_hex(size_t n_digits) {
        const std::string_view digits = text_.substr(pos_, n_digits);
        uint32_t value = 0;
        const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        if (digits.size() < n_digits || code != std::errc() || end != digits.data() + n_digits) {
            return fail(fmt::format("expected {} hexadecimal digits", n_digits));
        }
        pos_ += n_digits;
        return checked(value);
    }

    Result<uint32_t> checked(uint32_t value) const {
        if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
            return fail(fmt::format("U+{:04X} is not a character", value));
        }
        return value;
    }

    Result<uint32_t> parse_unicode() {
        if (!take('{')) {
            return parse_hex(4);
        }
        uint32_t value = 0;
        const auto [end, code] = std::from_chars(text_.data() + pos_, text_.data() + text_.size(), value, 16);
        if (code != std::errc()) {
            return fail("expected hexadecimal digits");
        }
        pos_ = static_cast<size_t>(end - text_.data());
        if (!take('}')) {
            return fail("expected '}'");
        }
        return checked(value);
    }

    /// One character; the text is valid UTF-8, for JSON is.
    Result<uint32_t> parse_char() {
        if (at_end()) {
            return fail("the pattern ends too early");
        }
        const auto first = static_cast<unsigned char>(text_[pos_]);
        const size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
        if (pos_ + size > text_.size()) {
            return fail("the pattern is not valid UTF-8");
        }
        uint32_t value = size == 1 ? first : first & (0x7FU >> size);
        for (size_t i = 1; i < size; ++i) {
            value = (value << 6U) | (static_cast<unsigned char>(text_[pos_ + i]) & 0x3FU);
        }
        pos_ += size;
        return checked(value);
    }

    Result<std::string> parse_quantifier() {
        uint32_t min = 1;
        uint32_t max = 1;
        if (take('*')) {
            min = 0;
            max = kUnbounded;
        } else if (take('+')) {
            max = kUnbounded;
        } else if (take('?')) {
            min = 0;
        } else if (take('{')) {
            FORESAY_TRY(min, parse_count());
            max = min;
            if (take(',')) {
                max = kUnbounded;
                if (peek() != '}') {
                    FORESAY_TRY(max, parse_count());
                }
            }
            if (!take('}')) {
                return fail("expected '}'");
            }
            if (max < min) {
                return fail("a repetition that allows nothing");
            }
        } else {
            return std::string();
        }
        take('?');  // a lazy quantifier finds the same texts
        return repetition(min, max);
    }

    Result<uint32_t> parse_count() {
        uint32_t value = 0;
        const auto [end, code] = std::from_chars(text_.data() + pos_, text_.data() + text_.size(), value);
        if (code != std::errc() || value > kMaxRepetition) {
            return fail(fmt::format("expected a repetition count up to {}", kMaxRepetition));
        }
        pos_ = static_cast<size_t>(end - text_.data());
        return value;
    }

    std::string_view text_;
    size_t pos_ = 0;
};

}  // namespace

Result<std::string> pattern_to_gbnf(std::string_view pattern) {
    return Translator(pattern).run();
}

}  // namespace foresay::grammar
