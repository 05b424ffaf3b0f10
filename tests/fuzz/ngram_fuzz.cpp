// Any bytes as a lookup file, and any sequence of texts, limits, accepts and shifts for every drafter without a model:
// no crash, no draft beyond its limit, no token outside the vocabulary.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/assert.h"
#include "spec/drafters/ngram_cache.h"
#include "spec/ngram.h"

namespace {

using namespace foresay::spec;

constexpr int32_t kVocab = 64;

std::vector<std::unique_ptr<Drafter>> all_drafters(std::shared_ptr<const NgramCounts> counts) {
    NgramOptions options;
    options.simple = options.map_k = options.map_k4v = {2, 4, 1};
    options.mod_n_match = 2;
    options.mod_n_min = 0;
    options.mod_n_max = 6;
    options.suffix_min_match = 1;
    options.suffix_max_depth = 8;
    options.suffix_max_nodes = 1 << 16;
    std::vector<std::unique_ptr<Drafter>> drafters;
    for (const SpecType type : {SpecType::kNgramSimple, SpecType::kNgramMapK, SpecType::kNgramMapK4v,
                                SpecType::kNgramMod, SpecType::kNgramSuffix}) {
        auto made = make_ngram(type, options, 256, kVocab);
        FORESAY_ASSERT(made.has_value());
        drafters.push_back(std::move(*made));
    }
    drafters.push_back(std::make_unique<NgramCache>(NgramCache::Options{counts, counts, false}));
    return drafters;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::shared_ptr<const NgramCounts> counts;
    if (auto parsed = parse_lookup({reinterpret_cast<const std::byte*>(data), size}, kVocab); parsed.has_value()) {
        counts = std::make_shared<const NgramCounts>(std::move(*parsed));
    }
    const auto drafters = all_drafters(counts);
    std::vector<TokenId> text{0};
    for (size_t i = 0; i + 1 < size && i < 2048; i += 2) {
        const int op = data[i] % 8;
        const int value = data[i + 1];
        text.push_back(value % kVocab);
        for (const auto& drafter : drafters) {
            if (op == 0) {
                drafter->begin(0, std::span(text).first(text.size() - 1));
            } else if (op == 1 && text.size() > 8) {
                drafter->shifted(0, 2, static_cast<int32_t>(text.size() / 2) - 2);
            } else if (op == 2) {
                drafter->reset(0);
            }
        }
        if (op == 1 && text.size() > 8) {
            text.erase(text.begin() + 2, text.begin() + static_cast<ptrdiff_t>(text.size() / 2));
        } else if (op == 3 && value % 16 == 0) {
            text.resize(1 + text.size() / 2);  // a shorter text without a word of warning
        }
        for (const auto& drafter : drafters) {
            DraftRequest request;
            request.tokens = text;
            request.n_max = value % 10;
            request.n_min = value / 64;
            std::vector<Draft> drafts;
            FORESAY_ASSERT(drafter->propose({&request, 1}, drafts).has_value() && drafts.size() == 1);
            const auto n = static_cast<int32_t>(drafts[0].tokens.size());
            FORESAY_ASSERT(n <= request.n_max);
            for (const TokenId token : drafts[0].tokens) {
                FORESAY_ASSERT(token >= 0 && token < kVocab);
            }
            if (n > 0) {
                drafter->accepted(0, n, value % (n + 1), op != 5);
            }
        }
    }
    return 0;
}
