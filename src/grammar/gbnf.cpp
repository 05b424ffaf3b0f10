#include "grammar/gbnf.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

namespace foresay::grammar {
namespace {

constexpr uint32_t kLastCodePoint = 0x10FFFF;
constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;

bool is_surrogate(uint32_t code_point) {
    return code_point >= kFirstSurrogate && code_point <= kLastSurrogate;
}

bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// Recursive descent; each function leaves pos_ behind what it read.
class Parser {
  public:
    Parser(std::string_view text, const FindToken& find_token) : text_(text), find_token_(find_token) {
        for (size_t i = text.find('\n'); i != std::string_view::npos; i = text.find('\n', i + 1)) {
            newlines_.push_back(i);
        }
    }

    Result<Ast> run() {
        skip_blank(true);
        while (pos_ < text_.size()) {
            FORESAY_CHECK_OK(parse_rule());
            skip_blank(true);
        }
        for (const Rule& rule : ast_.rules) {
            if (rule.body == kUndefined) {
                return at(rule.line, rule.column, fmt::format("rule '{}' is not defined", rule.name));
            }
        }
        const auto root = rule_ids_.find("root");
        if (root == rule_ids_.end()) {
            return error(Code::kInvalidArgument, "a grammar needs a rule named 'root'");
        }
        ast_.root = root->second;
        return std::move(ast_);
    }

  private:
    static constexpr uint32_t kUndefined = 0xFFFFFFFFU;

    static Error at(int line, int column, const std::string& message) {
        return error(Code::kInvalidArgument, fmt::format("line {}, column {}: {}", line, column, message));
    }

    Error fail(size_t pos, const std::string& message) const {
        const auto [line, column] = place(pos);
        return at(line, column, message);
    }

    std::pair<int, int> place(size_t pos) const {
        const auto next = std::lower_bound(newlines_.begin(), newlines_.end(), pos);
        const size_t column = next == newlines_.begin() ? pos + 1 : pos - *(next - 1);
        return {static_cast<int>(next - newlines_.begin()) + 1, static_cast<int>(column)};
    }

    bool at_end() const { return pos_ >= text_.size(); }

    char peek() const { return at_end() ? '\0' : text_[pos_]; }

    bool take(std::string_view word) {
        if (text_.substr(pos_, word.size()) != word) {
            return false;
        }
        pos_ += word.size();
        return true;
    }

    /// Blanks and comments; line ends too where the rule can't end.
    void skip_blank(bool with_newlines) {
        while (!at_end()) {
            const char c = text_[pos_];
            if (c == '#') {
                while (!at_end() && text_[pos_] != '\n' && text_[pos_] != '\r') {
                    ++pos_;
                }
            } else if (c == ' ' || c == '\t' || (with_newlines && (c == '\n' || c == '\r'))) {
                ++pos_;
            } else {
                return;
            }
        }
    }

    std::string found() const {
        if (at_end()) {
            return "the end of the grammar";
        }
        const char c = text_[pos_];
        if (c == '\n' || c == '\r') {
            return "the end of the line";
        }
        return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7E
                   ? fmt::format("byte 0x{:02x}", static_cast<unsigned char>(c))
                   : fmt::format("'{}'", c);
    }

    Result<uint32_t> add(Node node) {
        if (ast_.nodes.size() >= kMaxNodes) {
            return fail(pos_, fmt::format("the grammar has more than {} parts", kMaxNodes));
        }
        ast_.nodes.push_back(std::move(node));
        return static_cast<uint32_t>(ast_.nodes.size() - 1);
    }

    Result<std::string> parse_name() {
        const size_t begin = pos_;
        while (is_name_char(peek())) {
            ++pos_;
        }
        if (pos_ == begin) {
            return fail(pos_, fmt::format("expected a rule's name, found {}", found()));
        }
        return std::string(text_.substr(begin, pos_ - begin));
    }

    /// The rule's index; a name that is used before its definition gets one too.
    uint32_t rule_id(const std::string& name, size_t pos) {
        const auto [it, is_new] = rule_ids_.try_emplace(name, static_cast<uint32_t>(ast_.rules.size()));
        if (is_new) {
            const auto [line, column] = place(pos);
            ast_.rules.push_back({name, kUndefined, line, column});
        }
        return it->second;
    }

    Status parse_rule() {
        const size_t begin = pos_;
        FORESAY_TRY(const std::string name, parse_name());
        skip_blank(false);
        if (!take("::=")) {
            return fail(pos_, fmt::format("expected '::=' behind '{}', found {}", name.substr(0, 64), found()));
        }
        const uint32_t id = rule_id(name, begin);
        if (ast_.rules[id].body != kUndefined) {
            return fail(begin, fmt::format("rule '{}' is defined twice, first in line {}", name, ast_.rules[id].line));
        }
        const auto [line, column] = place(begin);
        ast_.rules[id].line = line;
        ast_.rules[id].column = column;
        skip_blank(true);
        FORESAY_TRY(const uint32_t body, parse_choice(0));
        ast_.rules[id].body = body;
        if (!at_end() && peek() != '\n' && peek() != '\r') {
            return fail(pos_, fmt::format("expected the end of rule '{}', found {}", name.substr(0, 64), found()));
        }
        return ok();
    }

    Result<uint32_t> parse_choice(int depth) {
        Node choice;
        choice.kind = Node::Kind::kChoice;
        while (true) {
            FORESAY_TRY(const uint32_t sequence, parse_sequence(depth));
            choice.children.push_back(sequence);
            // An alternative may also begin the next line: no rule can begin with '|'.
            const size_t end = pos_;
            skip_blank(true);
            if (peek() != '|') {
                pos_ = depth > 0 ? pos_ : end;
                break;
            }
            ++pos_;
            skip_blank(true);
        }
        if (choice.children.size() == 1) {
            return choice.children.front();
        }
        return add(std::move(choice));
    }

    Result<uint32_t> parse_sequence(int depth) {
        Node sequence;
        while (true) {
            const char c = peek();
            const bool is_item =
                c == '"' || c == '[' || c == '(' || c == '.' || c == '<' || c == '!' || is_name_char(c);
            if (at_end() || !is_item) {
                break;
            }
            FORESAY_TRY(uint32_t item, parse_item(depth));
            FORESAY_TRY(item, parse_repeats(item));
            sequence.children.push_back(item);
            skip_blank(depth > 0);
        }
        if (sequence.children.size() == 1) {
            return sequence.children.front();
        }
        return add(std::move(sequence));
    }

    Result<uint32_t> parse_item(int depth) {
        const char c = peek();
        if (c == '"') {
            return parse_text();
        }
        if (c == '[') {
            return parse_class();
        }
        if (c == '<' || c == '!') {
            return parse_token();
        }
        if (c == '.') {
            ++pos_;
            Node any;
            any.kind = Node::Kind::kClass;
            any.ranges = complement({});
            return add(std::move(any));
        }
        if (c == '(') {
            if (depth >= kMaxGroupDepth) {
                return fail(pos_, fmt::format("groups are nested deeper than {}", kMaxGroupDepth));
            }
            const size_t begin = pos_++;
            skip_blank(true);
            FORESAY_TRY(const uint32_t group, parse_choice(depth + 1));
            if (peek() != ')') {
                return fail(pos_,
                            fmt::format("expected ')' for the '(' of line {}, found {}", place(begin).first, found()));
            }
            ++pos_;
            return group;
        }
        const size_t begin = pos_;
        FORESAY_TRY(const std::string name, parse_name());
        Node call;
        call.kind = Node::Kind::kRule;
        call.rule = rule_id(name, begin);
        return add(std::move(call));
    }

    Result<uint32_t> parse_text() {
        const size_t begin = pos_++;
        Node node;
        node.kind = Node::Kind::kText;
        while (peek() != '"') {
            if (at_end() || peek() == '\n') {
                return fail(begin, "the text has no closing '\"'");
            }
            FORESAY_TRY(const uint32_t code_point, parse_char());
            append_utf8(&node.text, code_point);
        }
        ++pos_;
        return add(std::move(node));
    }

    Result<uint32_t> parse_class() {
        const size_t begin = pos_++;
        const bool is_negated = take("^");
        std::vector<CodeRange> ranges;
        while (peek() != ']') {
            if (at_end() || peek() == '\n') {
                return fail(begin, "the character class has no closing ']'");
            }
            FORESAY_TRY(const uint32_t low, parse_char());
            uint32_t high = low;
            if (peek() == '-' && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']') {
                ++pos_;
                if (at_end() || peek() == '\n') {
                    return fail(begin, "the character class has no closing ']'");
                }
                const size_t high_pos = pos_;
                FORESAY_TRY(high, parse_char());
                if (high < low) {
                    return fail(high_pos, "the range ends before it begins");
                }
            }
            ranges.push_back({low, high});
        }
        ++pos_;
        Node node;
        node.kind = Node::Kind::kClass;
        node.ranges = normalised(std::move(ranges));
        if (is_negated) {
            node.ranges = complement(node.ranges);
        }
        if (node.ranges.empty()) {
            return fail(begin, "the character class is empty");
        }
        return add(std::move(node));
    }

    /// `<[id]>`, `<text>`, either with '!' in front.
    Result<uint32_t> parse_token() {
        const size_t begin = pos_;
        Node node;
        node.kind = Node::Kind::kToken;
        node.is_negated = take("!");
        if (!take("<")) {
            return fail(pos_, fmt::format("expected '<' behind '!', found {}", found()));
        }
        const size_t end = text_.find_first_of(">\n", pos_);
        if (end == std::string_view::npos || text_[end] != '>') {
            return fail(begin, "the token has no closing '>'");
        }
        const std::string_view inner = text_.substr(pos_, end - pos_);
        if (inner.size() > 2 && inner.front() == '[' && inner.back() == ']') {
            const std::string_view digits = inner.substr(1, inner.size() - 2);
            const auto [last, code] = std::from_chars(digits.data(), digits.data() + digits.size(), node.token);
            if (code != std::errc() || last != digits.data() + digits.size() || node.token < 0) {
                return fail(begin, fmt::format("'{}' is not a token id", digits.substr(0, 64)));
            }
        } else {
            // The peer's spelling: the brackets belong to the token's text, as in <think>.
            const std::string_view whole = text_.substr(pos_ - 1, end - pos_ + 2);
            node.token = find_token_ ? find_token_(whole) : vocab::kNoToken;
            if (node.token == vocab::kNoToken) {
                return fail(begin, fmt::format("'{}' is not one token of this model", whole.substr(0, 64)));
            }
        }
        pos_ = end + 1;
        return add(std::move(node));
    }

    Result<uint32_t> parse_number() {
        const size_t begin = pos_;
        uint32_t value = 0;
        const auto [end, code] = std::from_chars(text_.data() + pos_, text_.data() + text_.size(), value);
        if (code == std::errc::invalid_argument) {
            return fail(begin, fmt::format("expected a number, found {}", found()));
        }
        if (code != std::errc() || value > kMaxRepetition) {
            return fail(begin, fmt::format("repetition counts above {} are not supported", kMaxRepetition));
        }
        pos_ = static_cast<size_t>(end - text_.data());
        return value;
    }

    /// `* + ? {m} {m,} {m,n}` behind an item, any number of them.
    Result<uint32_t> parse_repeats(uint32_t item) {
        constexpr int kMost = 16;  // each is a level of the tree
        for (int n = 0;; ++n) {
            skip_blank(false);
            Node node;
            node.kind = Node::Kind::kRepeat;
            const size_t begin = pos_;
            if (take("*")) {
                node.max = kUnbounded;
            } else if (take("+")) {
                node.min = 1;
                node.max = kUnbounded;
            } else if (take("?")) {
                node.max = 1;
            } else if (take("{")) {
                skip_blank(false);
                FORESAY_TRY(node.min, parse_number());
                node.max = node.min;
                skip_blank(false);
                if (take(",")) {
                    skip_blank(false);
                    node.max = kUnbounded;
                    if (peek() != '}') {
                        FORESAY_TRY(node.max, parse_number());
                    }
                    skip_blank(false);
                }
                if (!take("}")) {
                    return fail(pos_, fmt::format("expected '}}', found {}", found()));
                }
                if (node.max < node.min) {
                    return fail(begin, fmt::format("the repetition {{{},{}}} allows nothing", node.min, node.max));
                }
            } else {
                return item;
            }
            if (n == kMost) {
                return fail(begin, fmt::format("more than {} repetitions of one item", kMost));
            }
            node.children = {item};
            FORESAY_TRY(item, add(std::move(node)));
        }
    }

    /// One character of a text or class: UTF-8, or an escape.
    Result<uint32_t> parse_char() {
        const size_t begin = pos_;
        if (peek() != '\\') {
            return parse_utf8();
        }
        ++pos_;
        const char c = peek();
        pos_ += at_end() ? 0 : 1;
        switch (c) {
            case 'n':
                return uint32_t{'\n'};
            case 'r':
                return uint32_t{'\r'};
            case 't':
                return uint32_t{'\t'};
            case '\\':
            case '"':
            case '[':
            case ']':
                return static_cast<uint32_t>(c);
            case 'x':
                return parse_hex(begin, 2);
            case 'u':
                return parse_hex(begin, 4);
            case 'U':
                return parse_hex(begin, 8);
            default:
                return fail(begin, R"(unknown escape; known: \n \r \t \\ \" \[ \] \xXX \uXXXX \UXXXXXXXX)");
        }
    }

    Result<uint32_t> parse_hex(size_t begin, size_t n_digits) {
        const std::string_view digits = text_.substr(pos_, n_digits);
        uint32_t value = 0;
        const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        if (digits.size() < n_digits || code != std::errc() || end != digits.data() + n_digits) {
            return fail(begin, fmt::format("the escape needs {} hexadecimal digits", n_digits));
        }
        if (value > kLastCodePoint || is_surrogate(value)) {
            return fail(begin, fmt::format("U+{:04X} is not a character", value));
        }
        pos_ += n_digits;
        return value;
    }

    Result<uint32_t> parse_utf8() {
        const auto byte = [this](size_t i) -> uint32_t {
            return pos_ + i < text_.size() ? static_cast<unsigned char>(text_[pos_ + i]) : 0U;
        };
        const uint32_t first = byte(0);
        if (first < 0x80) {
            ++pos_;
            return first;
        }
        const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
        uint32_t value = first & (0x7FU >> size);
        bool is_valid = first >= 0xC2 && first <= 0xF4;
        for (size_t i = 1; i < size; ++i) {
            is_valid = is_valid && (byte(i) & 0xC0U) == 0x80U;
            value = (value << 6U) | (byte(i) & 0x3FU);
        }
        const uint32_t least = size == 4 ? 0x10000 : size == 3 ? 0x800 : 0x80;
        if (!is_valid || value < least || value > kLastCodePoint || is_surrogate(value)) {
            return fail(pos_, "the grammar is not valid UTF-8");
        }
        pos_ += size;
        return value;
    }

    std::string_view text_;
    const FindToken& find_token_;
    std::vector<size_t> newlines_;
    size_t pos_ = 0;
    Ast ast_;
    std::map<std::string, uint32_t> rule_ids_;
};

}  // namespace

std::vector<CodeRange> normalised(std::vector<CodeRange> ranges) {
    std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) { return a.low < b.low; });
    std::vector<CodeRange> joined;
    for (const CodeRange& range : ranges) {
        if (!joined.empty() && range.low <= joined.back().high + 1) {
            joined.back().high = std::max(joined.back().high, range.high);
        } else {
            joined.push_back(range);
        }
    }
    return joined;
}

std::vector<CodeRange> complement(const std::vector<CodeRange>& ranges) {
    std::vector<CodeRange> out;
    uint32_t next = 0;
    const auto gap = [&out](uint32_t low, uint32_t high) {
        if (low < kFirstSurrogate && high > kLastSurrogate) {
            out.push_back({low, kFirstSurrogate - 1});
            out.push_back({kLastSurrogate + 1, high});
        } else if (!(is_surrogate(low) && is_surrogate(high))) {
            out.push_back(
                {is_surrogate(low) ? kLastSurrogate + 1 : low, is_surrogate(high) ? kFirstSurrogate - 1 : high});
        }
    };
    for (const CodeRange& range : ranges) {
        if (range.low > next) {
            gap(next, range.low - 1);
        }
        next = range.high + 1;
    }
    if (next <= kLastCodePoint) {
        gap(next, kLastCodePoint);
    }
    return out;
}

void append_utf8(std::string* out, uint32_t code_point) {
    const auto push = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
    if (code_point < 0x80) {
        push(code_point);
    } else if (code_point < 0x800) {
        push(0xC0U | (code_point >> 6U));
        push(0x80U | (code_point & 0x3FU));
    } else if (code_point < 0x10000) {
        push(0xE0U | (code_point >> 12U));
        push(0x80U | ((code_point >> 6U) & 0x3FU));
        push(0x80U | (code_point & 0x3FU));
    } else {
        push(0xF0U | (code_point >> 18U));
        push(0x80U | ((code_point >> 12U) & 0x3FU));
        push(0x80U | ((code_point >> 6U) & 0x3FU));
        push(0x80U | (code_point & 0x3FU));
    }
}

Result<Ast> parse_gbnf(std::string_view text, const FindToken& find_token) {
    if (text.size() > kMaxGbnfBytes) {
        return error(Code::kInvalidArgument,
                     fmt::format("the grammar has {} bytes, more than {}", text.size(), kMaxGbnfBytes));
    }
    return Parser(text, find_token).run();
}

}  // namespace foresay::grammar
