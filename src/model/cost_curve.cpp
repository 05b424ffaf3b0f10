#include "model/cost_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace foresay::model {
namespace {

double percentile(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

std::vector<Row> rows_at(const Runner& runner, int32_t first, int32_t n, bool wants_logits) {
    std::vector<Row> rows;
    for (int32_t i = 0; i < n; ++i) {
        // Varied tokens: one repeated row would keep its embedding row in cache, which real text doesn't.
        const int32_t token = static_cast<int32_t>((int64_t{first + i} * 7919 + 13) % runner.model().hparams().n_vocab);
        rows.push_back({token, first + i, 0, wants_logits});
    }
    return rows;
}

}  // namespace

Result<std::vector<CostPoint>> measure_cost_curve(Runner& runner, std::span<const int32_t> ns, int32_t rounds,
                                                  int32_t depth, const std::function<void(int32_t)>& progress) {
    constexpr int32_t kFillChunk = 256;
    for (int32_t at = 0; at < depth; at += kFillChunk) {
        FORESAY_CHECK_OK(runner.forward(rows_at(runner, at, std::min(kFillChunk, depth - at), false)));
    }
    std::vector<std::vector<double>> times(ns.size());
    for (int32_t round = -1; round < rounds; ++round) {
        for (size_t i = 0; i < ns.size(); ++i) {
            // Verification wants every row's logits; for prompt-sized passes only the last row's.
            auto rows = rows_at(runner, depth, ns[i], ns[i] <= 64);
            rows.back().wants_logits = true;
            const auto start = std::chrono::steady_clock::now();
            FORESAY_CHECK_OK(runner.forward(rows));
            const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
            if (round >= 0) {
                times[i].push_back(elapsed.count());
            }
        }
        if (progress) {
            progress(round + 1);
        }
    }
    std::vector<CostPoint> curve;
    for (size_t i = 0; i < ns.size(); ++i) {
        curve.push_back({ns[i], percentile(times[i], 0.5), percentile(times[i], 0.1), percentile(times[i], 0.9)});
    }
    return curve;
}

}  // namespace foresay::model
