// Special ids, the end-of-generation set and the attribute fix-ups that the reference makes after reading a file.
// Must not know algorithms. Source: shared/spec/tokenizers.md, sections 1.3, 3.3 and 8.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "vocab/token_table.h"

namespace foresay::vocab {

/// Ids of special tokens; kNoToken where a model has none.
struct SpecialIds {
    TokenId bos = kNoToken;
    TokenId eos = kNoToken;
    TokenId eot = kNoToken;
    TokenId eom = kNoToken;
    TokenId unk = kNoToken;
    TokenId sep = kNoToken;
    TokenId pad = kNoToken;
    TokenId mask = kNoToken;
    TokenId fim_pre = kNoToken;
    TokenId fim_suf = kNoToken;
    TokenId fim_mid = kNoToken;
    TokenId fim_pad = kNoToken;
    TokenId fim_rep = kNoToken;
    TokenId fim_sep = kNoToken;
};

/// Overlays tokenizer.ggml.*_token_id on `ids` (the kind's defaults). An id outside the vocabulary is ignored with a
/// warning, as the reference does; a default outside it becomes kNoToken. Errors: a key of the wrong type.
Status read_special_ids(const gguf::File& file, int32_t n_tokens, SpecialIds* ids);

/// Section 8: finds missing ids by text, sets attributes, and returns the end-of-generation ids, ascending.
std::vector<TokenId> apply_special_fixups(TokenTable* tokens, SpecialIds* ids);

/// Tokens that are cut out of the text before the algorithm sees it: control, user-defined and unknown ones.
std::vector<TokenId> partition_candidates(const TokenTable& tokens);

/// Section 3.3: kLstrip and kRstrip by the names of pre-tokenizer, architecture and model.
void apply_strip_rules(std::string_view pre, std::string_view architecture, std::string_view name, TokenTable* tokens);

}  // namespace foresay::vocab
