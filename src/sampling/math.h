// exp and log of the sampler, in double and the same on every machine: glibc picks other code where the CPU has FMA,
// and one different last bit may flip a draw. Built from +, -, *, / in a fixed order, compiled without contraction.
// Knows numbers only.
#pragma once

#include <cstddef>
#include <span>

namespace foresay::sampling {

/// e^x, relative error below 1e-15. 0 below -700 (far under anything a float probability can show); infinity above 709.
double exp_fixed(double x);
/// Natural log, relative error below 1e-15. x <= 0 and NaN: minus infinity.
double log_fixed(double x);
/// a^b for a >= 0 by the two above; 0^0 = 1.
double pow_fixed(double a, double b);
/// Sum over i of e^(x[i] - max), NaN counting as 0. Eight running sums in a fixed order: the same on every machine.
/// Cost: a few ns an element.
double sum_exp(std::span<const float> x, float max);
/// The largest element, minus infinity when there is none; NaN doesn't count.
float max_of(std::span<const float> x);
/// Whether any of 16 values is above the bound.
bool any_above(const float* values, float bound);

}  // namespace foresay::sampling
