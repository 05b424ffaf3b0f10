// A vocabulary for tests: a list of texts, with settable token classes. Only tests include it.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "vocab/vocab.h"

namespace foresay::vocab {

class FakeVocab final : public Vocab {
  public:
    /// n tokens named "t0", "t1", and so on.
    explicit FakeVocab(int32_t n) {
        for (int32_t i = 0; i < n; ++i) {
            tokens.push_back(std::string("t").append(std::to_string(i)));  // "t" + ... warns falsely in g++ 12
        }
    }

    explicit FakeVocab(std::vector<std::string> texts) : tokens(std::move(texts)) {}

    std::vector<std::string> tokens;
    std::vector<TokenId> eog;  ///< ascending
    std::set<TokenId> control;
    std::vector<TokenId> suppressed_tokens;  ///< ascending
    TokenId eot_token = kNoToken;

    Kind kind() const override { return Kind::kBpe; }

    int32_t n_tokens() const override { return static_cast<int32_t>(tokens.size()); }

    /// Longest match first; a byte without a token is skipped.
    std::vector<TokenId> encode(std::string_view text, bool, bool) const override {
        std::vector<TokenId> ids;
        while (!text.empty()) {
            size_t best_size = 0;
            TokenId best = kNoToken;
            for (TokenId id = 0; id < n_tokens(); ++id) {
                const std::string& token = tokens[static_cast<size_t>(id)];
                if (token.size() > best_size && text.substr(0, token.size()) == token) {
                    best = id;
                    best_size = token.size();
                }
            }
            if (best != kNoToken) {
                ids.push_back(best);
            }
            text.remove_prefix(std::max<size_t>(best_size, 1));
        }
        return ids;
    }

    std::string piece(TokenId id, bool special) const override {
        if (id < 0 || id >= n_tokens() || (!special && is_control(id))) {
            return {};
        }
        return tokens[static_cast<size_t>(id)];
    }

    std::string decode(std::span<const TokenId> ids, bool, bool unparse_special) const override {
        std::string text;
        for (const TokenId id : ids) {
            text += piece(id, unparse_special);
        }
        return text;
    }

    bool is_control(TokenId id) const override { return control.count(id) > 0; }

    bool is_eog(TokenId id) const override { return std::binary_search(eog.begin(), eog.end(), id); }

    bool is_byte(TokenId) const override { return false; }

    TokenId bos() const override { return kNoToken; }

    TokenId eos() const override { return eog.empty() ? kNoToken : eog.front(); }

    TokenId eot() const override { return eot_token; }

    TokenId newline() const override { return kNoToken; }

    bool adds_bos() const override { return false; }

    bool adds_eos() const override { return false; }

    std::string_view text(TokenId id) const override {
        return id < 0 || id >= n_tokens() ? std::string_view() : std::string_view(tokens[static_cast<size_t>(id)]);
    }

    std::span<const TokenId> eog_tokens() const override { return eog; }

    std::span<const TokenId> suppressed() const override { return suppressed_tokens; }

    std::string_view chat_template() const override { return {}; }
};

}  // namespace foresay::vocab
