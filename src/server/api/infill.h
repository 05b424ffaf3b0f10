// POST /infill: code before and after a gap to the prompt that fills it. Source: shared/spec/server-api.md,
// section 8.1.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/parse_completion.h"
#include "vocab/fim.h"

namespace foresay::server {

struct InfillText {
    std::string prefix;
    std::string suffix;
    std::string prompt;                                      ///< what the gap begins with
    std::vector<std::pair<std::string, std::string>> extra;  ///< file name and text of other files
};

/// The prompt's tokens, cut to `room`: the prefix keeps its end and the suffix its beginning, and what both leave is
/// for the end of the other files.
std::vector<vocab::TokenId> infill_prompt(const InfillText& text, const vocab::Vocab& vocab,
                                          const vocab::FimTokens& fim, size_t room);

/// n_ctx: of one slot. Errors: as parse_fields; unsupported when the model has no tokens for it.
Result<CompletionRequest> parse_infill(const JsonIn& object, std::string_view body, const ParseContext& context,
                                       const vocab::FimTokens& fim, int32_t n_ctx);

}  // namespace foresay::server
