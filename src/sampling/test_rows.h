// Helpers of the sampling tests: rows from probabilities, samplers from a list of names. Only tests include it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "sampling/sampler.h"
#include "vocab/fake_vocab.h"

namespace foresay::sampling {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

/// Logits whose softmax is p.
inline std::vector<float> row_of(std::initializer_list<double> p) {
    std::vector<float> logits;
    for (const double value : p) {
        logits.push_back(static_cast<float>(std::log(value)));
    }
    return logits;
}

inline std::vector<float> random_row(size_t n, uint32_t seed, float spread) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0.0F, 1.0F);
    std::vector<float> logits(n);
    for (float& logit : logits) {
        logit = spread * normal(generator);
    }
    return logits;
}

/// Neutral parameters with these samplers: what a test sets is all that acts.
inline Params only(std::vector<std::string> samplers) {
    Params params;
    params.seed = 1;
    params.temperature = 1.0F;
    params.top_k = 0;
    params.top_p = 1.0F;
    params.min_p = 0.0F;
    params.samplers = std::move(samplers);
    return params;
}

inline std::unique_ptr<Sampler> make(const Params& params, std::shared_ptr<const vocab::Vocab> vocab) {
    auto sampler = Sampler::create(params, std::move(vocab));
    if (!sampler.has_value()) {
        ADD_FAILURE() << sampler.error().to_string();
        return nullptr;
    }
    return std::move(*sampler);
}

inline std::unique_ptr<Sampler> make(const Params& params, int32_t n_vocab) {
    return make(params, std::make_shared<vocab::FakeVocab>(n_vocab));
}

inline std::vector<TokenId> ids(const Draw& draw) {
    std::vector<TokenId> out;
    for (const Candidate& c : draw.candidates) {
        out.push_back(c.id);
    }
    return out;
}

/// The ids that survive the chain on this row.
inline std::vector<TokenId> survivors(const Params& params, const std::vector<float>& logits) {
    return ids(make(params, static_cast<int32_t>(logits.size()))->draw(logits, 0));
}

inline const Candidate* find(const Draw& draw, TokenId id) {
    for (const Candidate& c : draw.candidates) {
        if (c.id == id) {
            return &c;
        }
    }
    return nullptr;
}

}  // namespace foresay::sampling
