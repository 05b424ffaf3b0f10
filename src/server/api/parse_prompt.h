// The shapes of `prompt` and of /tokenize's `content`. Internal to server/api. Source: shared/spec/server-api.md,
// sections 4.1, 8.
#pragma once

#include <vector>

#include "base/result.h"
#include "server/api/json.h"
#include "vocab/vocab.h"

namespace foresay::server {

using Tokens = std::vector<vocab::TokenId>;

/// One or several prompts. Errors: invalid_argument (shape, empty list, token outside the vocabulary, media data).
Result<std::vector<Tokens>> parse_prompts(const JsonIn& prompt, const vocab::Vocab& vocab, size_t max_prompts);

/// A string, or a list that mixes strings and token ids, as one sequence. add_special: BOS if the first element is a
/// string.
Result<Tokens> parse_mixed(const JsonIn& value, const vocab::Vocab& vocab, bool add_special, bool parse_special);

/// A list of ids, each within the vocabulary.
Result<Tokens> parse_ids(const JsonIn& list, const vocab::Vocab& vocab);

}  // namespace foresay::server
