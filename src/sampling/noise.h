// Random numbers without state: each is a hash of (seed, position, purpose, token). So they don't depend on how many
// draws came before, on the slot or on the drafter (sampling.md 6). gumbel_noise itself is declared in sampler.h.
#pragma once

#include <cstdint>

#include "sampling/sampler.h"

namespace foresay::sampling {

/// What a number is for; equal (seed, position) with another purpose gives unrelated numbers.
enum class Purpose : uint32_t { kGumbel = 1, kXtc = 2, kAccept = 3, kResidual = 4 };

/// The identity of one draw, handed to the steps of the chain.
struct DrawKey {
    uint32_t seed = 0;
    int64_t position = 0;
};

/// 64 well-mixed bits for all numbers of one purpose at one position.
uint64_t noise_key(DrawKey key, Purpose purpose);
/// Uniform in (0, 1), a multiple of 2^-53, never 0 or 1: number `index` under the key.
double uniform_of(uint64_t noise_key, uint32_t index);
/// -ln(-ln(1 - v)): standard Gumbel noise. Below -ln(v) for every v, which lets a draw skip the logarithms.
float gumbel_of(double v);

}  // namespace foresay::sampling
