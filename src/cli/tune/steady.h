// Speeds with the machine's own ups and downs taken out. Pure.
#pragma once

#include <vector>

#include "cli/tune/stats.h"

namespace foresay::cli::tune {

/// Fills steady_s of all samples with passes. What a pass took is the machine's speed during its sample times what
/// passes of its shape (slots, rows) cost; both are fitted over the samples of one drafter, temperature and number of
/// clients (two-way layout, least squares on logarithms). steady_s then takes every pass at the cost of its
/// shape, and all other time of the sample (drafting, sampling) at the sample's speed. Samples whose passes share no
/// shape with those of others keep their own speed on average: nothing tells it from the cost of their shapes.
void net_out_machine(std::vector<Sample>* samples);

}  // namespace foresay::cli::tune
