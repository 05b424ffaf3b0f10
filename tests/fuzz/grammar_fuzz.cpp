// Grammars and schemas of any bytes, and matching any bytes under what compiles: nothing may crash, masks say what
// allows() says, tokens of several bytes go where their bytes go, and what a schema's grammar lets end is JSON.
// Input: a byte (0, 1: GBNF, 2, 3: schema; odd: lazy), the grammar, a zero byte, the text.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "grammar/grammar.h"
#include "grammar/schema.h"
#include "vocab/fake_vocab.h"

#include <nlohmann/json.hpp>

namespace {

using foresay::grammar::Grammar;
using foresay::grammar::Matcher;
using foresay::grammar::TokenTrie;
using foresay::grammar::Trouble;
using foresay::vocab::TokenId;

constexpr TokenId kFirstLong = 256;
const std::array<std::string_view, 6> kLong{"{\"", "\": ", "\"}", "true", "[[", "\xe6\x97"};
constexpr TokenId kEnd = kFirstLong + static_cast<TokenId>(kLong.size());

std::shared_ptr<const TokenTrie> trie() {
    static const auto instance = [] {
        std::vector<std::string> texts;
        for (int i = 0; i < 256; ++i) {
            texts.emplace_back(1, static_cast<char>(i));
        }
        texts.insert(texts.end(), kLong.begin(), kLong.end());
        texts.emplace_back("<end>");
        auto vocab = std::make_shared<foresay::vocab::FakeVocab>(texts);
        vocab->eog = {kEnd};
        vocab->control = {kEnd};
        return std::make_shared<const TokenTrie>(vocab);
    }();
    return instance;
}

void check_long_tokens(const Matcher& at) {
    for (size_t i = 0; i < kLong.size(); ++i) {
        Matcher whole = at;
        Matcher parts = at;
        bool is_taken = true;
        for (size_t j = 0; j < kLong[i].size() && is_taken; ++j) {
            const auto byte = static_cast<TokenId>(static_cast<unsigned char>(kLong[i][j]));
            is_taken = parts.allows(byte);
            if (is_taken) {
                parts.accept(byte);
            }
        }
        const bool is_allowed = whole.allows(kFirstLong + static_cast<TokenId>(i));
        // A grammar that names tokens (<[id]>) tells them from their bytes, so nothing can be said then: see the
        // caller.
        FORESAY_ASSERT(is_allowed == is_taken || whole.trouble() != Trouble::kNone ||
                       parts.trouble() != Trouble::kNone);
    }
}

void match(const std::shared_ptr<Grammar>& grammar, std::string_view text, bool is_lazy, bool is_json,
           bool names_tokens) {
    std::shared_ptr<const foresay::grammar::Triggers> triggers;
    if (is_lazy) {
        auto made = foresay::grammar::Triggers::create(
            {{foresay::grammar::Trigger::Kind::kWord, "{\"", foresay::vocab::kNoToken}}, kEnd + 1);
        triggers = std::make_shared<const foresay::grammar::Triggers>(std::move(*made));
    }
    Matcher matcher(grammar, triggers);
    std::string taken;
    constexpr size_t kMostBytes = 300;
    for (size_t i = 0; i < text.size() && i < kMostBytes; ++i) {
        const auto byte = static_cast<TokenId>(static_cast<unsigned char>(text[i]));
        if (i % 16 == 0) {
            Matcher copy = matcher;
            const auto mask = copy.mask();
            if (mask != nullptr) {
                for (TokenId id = 0; id <= kEnd; id += 7) {
                    FORESAY_ASSERT(mask->has(id) == copy.allows(id) || copy.trouble() != Trouble::kNone);
                }
            }
            if (!names_tokens && !is_lazy) {
                check_long_tokens(matcher);
            }
        }
        if (!matcher.allows(byte)) {
            continue;  // the next byte may fit: so random texts get further
        }
        matcher.accept(byte);
        FORESAY_ASSERT(matcher.trouble() != Trouble::kRefused);
        taken += text[i];
        if (matcher.allows(kEnd) && is_json && !is_lazy) {
            FORESAY_ASSERT(nlohmann::json::accept(taken));
        }
    }
    matcher.accept(kEnd);
    FORESAY_ASSERT(!matcher.allows('a'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0 || size > 4096) {
        return 0;
    }
    const int mode = data[0] % 4;
    const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    const size_t zero = std::min(rest.find('\0'), rest.size());
    std::string gbnf(rest.substr(0, zero));
    const std::string_view text = rest.substr(std::min(zero + 1, rest.size()));
    if (mode >= 2) {
        const auto compiled = foresay::grammar::schema_to_gbnf(gbnf);
        if (!compiled.has_value()) {
            FORESAY_ASSERT(!compiled.error().message.empty());
            return 0;
        }
        gbnf = compiled->gbnf;
    }
    const auto grammar = Grammar::compile(gbnf, trie());
    if (!grammar.has_value()) {
        FORESAY_ASSERT(!grammar.error().message.empty());
        return 0;
    }
    match(*grammar, text, mode % 2 == 1, mode >= 2, mode < 2 && gbnf.find('<') != std::string::npos);
    return 0;
}
