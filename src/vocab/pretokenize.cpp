// The steps run one after the other; each sees the segments of the last as texts of their own (so `$` and look-ahead
// end there).
#define PCRE2_CODE_UNIT_WIDTH 8
#include "vocab/pretokenize.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <atomic>
#include <string>
#include <utility>

#include "base/log.h"
#include "vocab/utf8.h"

namespace foresay::vocab {

namespace {

// Unicode's White_Space without the brackets of the class. PCRE2's own \s takes in U+180E, which the tokenizers don't.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

/// Writes `\s` and `\S` out. `\S` inside a class isn't used by the table.
std::string rewrite_spaces(std::string_view pattern) {
    std::string out;
    bool in_class = false;
    for (size_t i = 0; i < pattern.size(); ++i) {
        const char c = pattern[i];
        if (c == '\\' && i + 1 < pattern.size()) {
            const char escaped = pattern[++i];
            if (escaped == 's') {
                out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
            } else if (escaped == 'S') {
                out += fmt::format("[^{}]", kWhiteSpace);
            } else {
                out.append({c, escaped});
            }
            continue;
        }
        in_class = in_class ? c != ']' : c == '[';
        out.push_back(c);
    }
    return out;
}

bool is_white_space(uint32_t cp) {
    return (cp >= 0x09 && cp <= 0x0D) || cp == 0x20 || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

bool is_ascii_digit(char c) {
    return c >= '0' && c <= '9';
}

struct CodeFree {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};

using Code_ = std::unique_ptr<pcre2_code, CodeFree>;

/// What a thread needs to match: created once per thread, used by all patterns (none keeps groups beyond the match
/// itself).
struct Scratch {
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, 1024 * 1024, nullptr);

    Scratch() {
        if (context != nullptr) {
            // Far above what any pattern of the table needs (they don't nest), far below what a hang would take.
            pcre2_set_match_limit(context, 50'000'000);
            pcre2_set_heap_limit(context, 256 * 1024);  // KiB
            pcre2_jit_stack_assign(context, nullptr, stack);
        }
    }

    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    ~Scratch() {
        pcre2_jit_stack_free(stack);
        pcre2_match_context_free(context);
        pcre2_match_data_free(data);
    }
};

Scratch& thread_scratch() {
    thread_local Scratch scratch;
    return scratch;
}

/// The next match at or after `pos`; false when there is none. A match that runs into a limit counts as none: the rest
/// of the segment then stays one word, which costs a little quality on a text made to do that and nothing else.
bool next_match(const pcre2_code* code, std::string_view segment, size_t pos, Word* found) {
    Scratch& scratch = thread_scratch();
    if (scratch.data == nullptr) {
        return false;
    }
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(segment.data());
    int rc = pcre2_match(code, subject, segment.size(), pos, PCRE2_NO_UTF_CHECK, scratch.data, scratch.context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        rc = pcre2_match(code, subject, segment.size(), pos, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch.data,
                         scratch.context);
    }
    if (rc < 0) {
        if (rc != PCRE2_ERROR_NOMATCH) {
            log::debug("pre-tokenizer: PCRE2 error {} at byte {} of {}", rc, pos, segment.size());
        }
        return false;
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(scratch.data);
    *found = {offsets[0], offsets[1]};
    return true;
}

/// Collects the words of one step, leaving out empty ones.
class Collector {
  public:
    void add(size_t begin, size_t end) {
        if (end > begin) {
            words_.push_back({begin, end});
        }
    }

    std::vector<Word> take() { return std::move(words_); }

  private:
    std::vector<Word> words_;
};

void split_by_regex(const pcre2_code* code, std::string_view text, Word segment, Collector* out) {
    const std::string_view inside = text.substr(segment.begin, segment.end - segment.begin);
    size_t gap = 0;
    Word match;
    for (size_t pos = 0; pos < inside.size() && next_match(code, inside, pos, &match);) {
        out->add(segment.begin + gap, segment.begin + match.begin);
        out->add(segment.begin + match.begin, segment.begin + match.end);
        gap = match.end;
        // An empty match cuts and moves on; no pattern of the table has one, but a loop must not depend on that.
        pos = match.end > match.begin ? match.end
                                      : match.end + utf8_length_by_lead(static_cast<unsigned char>(inside[match.end]));
    }
    out->add(segment.begin + gap, segment.end);
}

void split_trailing_space(std::string_view text, Word segment, Collector* out) {
    size_t cut = segment.end;
    while (cut > segment.begin) {
        size_t start = cut - 1;
        while (start > segment.begin && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) {
            --start;
        }
        if (!is_white_space(decode_utf8(text, start).cp)) {
            break;
        }
        cut = start;
    }
    out->add(segment.begin, cut);
    out->add(cut, segment.end);
}

/// digits: compiled `\p{N}+`.
void split_digits_in_threes(const pcre2_code* digits, std::string_view text, Word segment, Collector* out) {
    Collector runs;
    const std::string_view inside = text.substr(segment.begin, segment.end - segment.begin);
    size_t gap = 0;
    Word match;
    for (size_t pos = 0; pos < inside.size() && next_match(digits, inside, pos, &match); pos = match.end) {
        out->add(segment.begin + gap, segment.begin + match.begin);
        gap = match.end;
        std::vector<size_t> starts;
        for (size_t at = match.begin; at < match.end;
             at += utf8_length_by_lead(static_cast<unsigned char>(inside[at]))) {
            starts.push_back(at);
        }
        size_t begin = match.begin;
        for (size_t i = starts.size() % 3 == 0 ? 3 : starts.size() % 3; i < starts.size(); i += 3) {
            out->add(segment.begin + begin, segment.begin + starts[i]);
            begin = starts[i];
        }
        out->add(segment.begin + begin, segment.begin + match.end);
    }
    out->add(segment.begin + gap, segment.end);
}

void split_ascii_digit_cuts(std::string_view text, Word segment, Collector* out) {
    size_t begin = segment.begin;
    for (size_t pos = segment.begin; pos < segment.end;) {
        if (!is_ascii_digit(text[pos])) {
            ++pos;
            continue;
        }
        size_t end = pos;
        while (end < segment.end && is_ascii_digit(text[end])) {
            ++end;
        }
        for (size_t cut = pos + (end - pos) % 3; cut < end; cut += 3) {
            out->add(begin, cut);
            begin = cut;
        }
        pos = end;
    }
    out->add(begin, segment.end);
}

void split_blank_chunks(std::string_view text, Word segment, Collector* out) {
    constexpr size_t kChunk = 512;  // of the pattern (jais-2)
    const std::string_view inside = text.substr(segment.begin, segment.end - segment.begin);
    std::vector<size_t> cuts;
    size_t n = 0;
    for (size_t pos = 0; pos < inside.size(); ++n) {
        const Decoded decoded = decode_utf8(inside, pos);
        if (!is_white_space(decoded.cp) || decoded.cp == '\n' || decoded.cp == '\r') {
            out->add(segment.begin, segment.end);
            return;
        }
        if (n % kChunk == 0) {
            cuts.push_back(pos);
        }
        pos += decoded.bytes;
    }
    cuts.push_back(inside.size());
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        out->add(segment.begin + cuts[i], segment.begin + cuts[i + 1]);
    }
}

Result<Code_> compile(const char* pattern) {
    const std::string rewritten = rewrite_spaces(pattern);
    int code = 0;
    PCRE2_SIZE offset = 0;
    Code_ compiled(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &code, &offset, nullptr));
    if (compiled == nullptr) {
        return error(Code::kInternal, fmt::format("PCRE2 error {} at {} of '{}'", code, offset, rewritten),
                     "pre-tokenizer");
    }
    if (pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE) != 0) {
        static std::atomic_flag told = ATOMIC_FLAG_INIT;  // hosts that forbid executable memory: slower, not broken
        if (!told.test_and_set()) {
            log::info("pre-tokenizer: no JIT on this host; tokenising takes about four times as long");
        }
    }
    return compiled;
}

}  // namespace

struct PreTokenizer::Impl {
    struct Step {
        SplitStep::Kind kind = SplitStep::kRegex;
        Code_ code;
    };

    std::vector<Step> steps;
};

PreTokenizer::PreTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<const PreTokenizer>> PreTokenizer::create(std::span<const SplitStep> steps) {
    auto impl = std::make_unique<Impl>();
    for (const SplitStep& step : steps) {
        Impl::Step compiled{step.kind, nullptr};
        if (step.kind == SplitStep::kRegex || step.kind == SplitStep::kDigitsInThrees) {
            FORESAY_TRY(compiled.code, compile(step.kind == SplitStep::kRegex ? step.pattern : R"(\p{N}+)"));
        }
        impl->steps.push_back(std::move(compiled));
    }
    return std::make_unique<const PreTokenizer>(std::move(impl));
}

std::vector<Word> PreTokenizer::split(std::string_view text) const {
    std::vector<Word> segments;
    if (!text.empty()) {
        segments.push_back({0, text.size()});
    }
    for (const Impl::Step& step : impl_->steps) {
        Collector next;
        for (const Word& segment : segments) {
            switch (step.kind) {
                case SplitStep::kRegex:
                    split_by_regex(step.code.get(), text, segment, &next);
                    break;
                case SplitStep::kTrailingSpace:
                    split_trailing_space(text, segment, &next);
                    break;
                case SplitStep::kDigitsInThrees:
                    split_digits_in_threes(step.code.get(), text, segment, &next);
                    break;
                case SplitStep::kAsciiDigitCuts:
                    split_ascii_digit_cuts(text, segment, &next);
                    break;
                case SplitStep::kBlankChunks:
                    split_blank_chunks(text, segment, &next);
                    break;
            }
        }
        segments = next.take();
    }
    return segments;
}

}  // namespace foresay::vocab
