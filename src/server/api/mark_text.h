// Marks of chat templates ("<tool_call>") as pieces of grammar: a mark may be one control token, plain text, or both.
// Internal to server/api.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/trigger.h"
#include "vocab/vocab.h"

namespace foresay::server {

struct MarkPiece {
    std::string text;
    vocab::TokenId token = vocab::kNoToken;  ///< a control token, which has no text for a grammar
};

/// End-of-generation tokens are left out: a grammar allows them where it may end.
std::vector<MarkPiece> mark_pieces(const vocab::Vocab& vocab, std::string_view mark);
/// GBNF that reads the mark; empty for an empty mark.
std::string mark_gbnf(const vocab::Vocab& vocab, std::string_view mark);
/// What wakes a lazy grammar that begins with the mark. mark: not empty.
grammar::Trigger mark_trigger(const vocab::Vocab& vocab, std::string_view mark);

/// Rules that read any text up to and including the first place of `end`. Appended to *rules; returns the body that
/// uses them. prefix: of their names.
std::string text_until(const vocab::Vocab& vocab, std::string_view end, const std::string& prefix, std::string* rules);

}  // namespace foresay::server
