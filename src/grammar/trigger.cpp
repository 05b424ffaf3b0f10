#include "grammar/trigger.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>

namespace foresay::grammar {
namespace {

constexpr uint32_t kMatchLimit = 50'000;
constexpr uint32_t kHeapLimitKib = 4096;

struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};

struct FreeData {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

struct FreeContext {
    void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct Triggers::Pattern {
    std::unique_ptr<pcre2_code, FreeCode> code;
    bool is_full = false;

    static Result<std::shared_ptr<const Pattern>> compile(const std::string& text, bool is_full) {
        int code = 0;
        PCRE2_SIZE at = 0;
        // The text may be cut inside a character at either end.
        uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;
        options |= is_full ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0U;
        auto pattern = std::make_shared<Pattern>();
        pattern->is_full = is_full;
        pattern->code.reset(
            pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &code, &at, nullptr));
        if (pattern->code == nullptr) {
            PCRE2_UCHAR reason[128] = {};
            pcre2_get_error_message(code, reason, sizeof(reason));
            return error(Code::kInvalidArgument,
                         fmt::format("trigger pattern, at byte {}: {}", at, reinterpret_cast<const char*>(reason)),
                         "grammar_triggers");
        }
        return std::shared_ptr<const Pattern>(std::move(pattern));
    }

    size_t find(std::string_view text) const {
        const std::unique_ptr<pcre2_match_data, FreeData> data(
            pcre2_match_data_create_from_pattern(code.get(), nullptr));
        const std::unique_ptr<pcre2_match_context, FreeContext> context(pcre2_match_context_create(nullptr));
        if (data == nullptr || context == nullptr) {
            return std::string_view::npos;
        }
        pcre2_set_match_limit(context.get(), kMatchLimit);
        pcre2_set_heap_limit(context.get(), kHeapLimitKib);
        const int n = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, data.get(),
                                  context.get());
        if (n <= 0) {
            return std::string_view::npos;
        }
        const PCRE2_SIZE* places = pcre2_get_ovector_pointer(data.get());
        for (int group = 1; group < n; ++group) {
            const PCRE2_SIZE begin = places[2 * group];
            if (begin != PCRE2_UNSET && places[2 * group + 1] > begin) {
                return begin;
            }
        }
        return places[0];
    }
};

Result<Triggers> Triggers::create(std::vector<Trigger> triggers, int32_t n_tokens) {
    constexpr size_t kMost = 64;
    constexpr size_t kLongest = 1024;
    if (triggers.empty()) {
        return error(Code::kInvalidArgument, "a lazy grammar needs at least one trigger", "grammar_triggers");
    }
    if (triggers.size() > kMost) {
        return error(Code::kInvalidArgument, fmt::format("{} triggers, more than {}", triggers.size(), kMost),
                     "grammar_triggers");
    }
    Triggers checked;
    for (Trigger& trigger : triggers) {
        if (trigger.kind == Trigger::Kind::kToken) {
            if (trigger.token < 0 || trigger.token >= n_tokens) {
                return error(Code::kInvalidArgument, fmt::format("token {} is outside the vocabulary", trigger.token),
                             "grammar_triggers");
            }
            checked.tokens_.push_back(trigger.token);
            continue;
        }
        if (trigger.value.empty() || trigger.value.size() > kLongest) {
            return error(
                Code::kInvalidArgument,
                fmt::format("a trigger word must have 1 to {} bytes, this one has {}", kLongest, trigger.value.size()),
                "grammar_triggers");
        }
        if (trigger.kind != Trigger::Kind::kWord) {
            FORESAY_TRY(auto pattern, Pattern::compile(trigger.value, trigger.kind == Trigger::Kind::kPatternFull));
            checked.patterns_.push_back(std::move(pattern));
            continue;
        }
        checked.word_tail_size_ = std::max(checked.word_tail_size_, trigger.value.size() - 1);
        checked.words_.push_back(std::move(trigger.value));
    }
    return checked;
}

bool Triggers::has_token(TokenId id) const {
    return std::find(tokens_.begin(), tokens_.end(), id) != tokens_.end();
}

size_t Triggers::find_pattern(std::string_view text, bool is_whole) const {
    for (const auto& pattern : patterns_) {
        const size_t at = is_whole || !pattern->is_full ? pattern->find(text) : std::string_view::npos;
        if (at != std::string_view::npos) {
            return at;
        }
    }
    return std::string_view::npos;
}

size_t Triggers::find_word(std::string_view text) const {
    size_t best = std::string_view::npos;
    size_t best_end = std::string_view::npos;
    for (const std::string& word : words_) {
        const size_t at = text.find(word);
        if (at == std::string_view::npos) {
            continue;
        }
        // Whatever is complete first has woken the grammar; of two that end together the longer one.
        const size_t end = at + word.size();
        if (best == std::string_view::npos || end < best_end || (end == best_end && at < best)) {
            best = at;
            best_end = end;
        }
    }
    return best;
}

}  // namespace foresay::grammar
