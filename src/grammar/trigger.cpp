#include "grammar/trigger.h"

#include <fmt/format.h>

#include <algorithm>

namespace foresay::grammar {

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
        checked.tail_size_ = std::max(checked.tail_size_, trigger.value.size() - 1);
        checked.words_.push_back(std::move(trigger.value));
    }
    return checked;
}

bool Triggers::has_token(TokenId id) const {
    return std::find(tokens_.begin(), tokens_.end(), id) != tokens_.end();
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
