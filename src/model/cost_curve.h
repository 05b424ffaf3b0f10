// The cost curve t(n): what a forward pass over n new tokens costs. R(n) = t(n) / t(1) decides whether speculation
// pays.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/runner.h"

namespace foresay::model {

struct CostPoint {
    int32_t n = 0;
    double median_ms = 0.0;
    double p10_ms = 0.0;
    double p90_ms = 0.0;
};

/// Times passes over n rows (all with logits, as verification needs) of slot 0 at context depth `depth`, every n once
/// per round so that noise hits all alike. The first round warms up and doesn't count. progress(rounds done): may be
/// empty. Errors: capacity when depth + n exceeds the slot; what forward() reports.
Result<std::vector<CostPoint>> measure_cost_curve(Runner& runner, std::span<const int32_t> ns, int32_t rounds,
                                                  int32_t depth, const std::function<void(int32_t)>& progress = {});

}  // namespace foresay::model
