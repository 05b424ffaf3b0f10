// Tokens of fill-in-the-middle prompts. Source: shared/spec/tokenizers.md, section 8; server-api.md, 8.1.
#pragma once

#include "vocab/vocab.h"

namespace foresay::vocab {

/// kNoToken where a model has none.
struct FimTokens {
    TokenId prefix = kNoToken;
    TokenId suffix = kNoToken;
    TokenId middle = kNoToken;
    TokenId repository = kNoToken;
    TokenId file_separator = kNoToken;
};

/// Those of a vocabulary that came from a file; none for any other.
FimTokens fim_tokens(const Vocab& vocab);

}  // namespace foresay::vocab
