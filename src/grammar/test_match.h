// Helpers of the grammar tests: does a text match? Only tests include it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "vocab/fake_vocab.h"

namespace foresay::grammar {

/// Tokens 0..255 are the bytes, then come `more`; the last one ends the text.
inline std::shared_ptr<vocab::FakeVocab> byte_vocab(const std::vector<std::string>& more = {}) {
    std::vector<std::string> texts;
    for (int i = 0; i < 256; ++i) {
        texts.emplace_back(1, static_cast<char>(i));
    }
    texts.insert(texts.end(), more.begin(), more.end());
    texts.emplace_back("<end>");
    auto vocab = std::make_shared<vocab::FakeVocab>(texts);
    vocab->eog = {static_cast<TokenId>(texts.size() - 1)};
    vocab->control = {vocab->eog.front()};
    return vocab;
}

inline std::shared_ptr<Grammar> compiled(std::string_view gbnf, const std::vector<std::string>& more = {}) {
    auto grammar = Grammar::compile(gbnf, std::make_shared<TokenTrie>(byte_vocab(more)));
    if (!grammar.has_value()) {
        ADD_FAILURE() << grammar.error().to_string() << "\n" << gbnf.substr(0, 2000);
        return nullptr;
    }
    return *grammar;
}

/// Bytes of the text that the grammar takes, one by one.
inline size_t n_taken(Matcher& matcher, std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
        const auto id = static_cast<TokenId>(static_cast<unsigned char>(text[i]));
        if (!matcher.allows(id)) {
            return i;
        }
        matcher.accept(id);
    }
    return text.size();
}

inline bool matches(const std::shared_ptr<Grammar>& grammar, std::string_view text) {
    if (grammar == nullptr) {
        return false;
    }
    Matcher matcher(grammar);
    return n_taken(matcher, text) == text.size() && matcher.allows(grammar->tokens().eog_tokens().front());
}

inline bool matches(std::string_view gbnf, std::string_view text) {
    return matches(compiled(gbnf), text);
}

/// The message of the error that compiling gives; empty when there is none.
inline std::string compile_error(std::string_view gbnf) {
    const auto grammar = Grammar::compile(gbnf, std::make_shared<TokenTrie>(byte_vocab()));
    return grammar.has_value() ? std::string() : grammar.error().message;
}

}  // namespace foresay::grammar
