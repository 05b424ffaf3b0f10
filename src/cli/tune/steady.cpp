#include "cli/tune/steady.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace foresay::cli::tune {
namespace {

constexpr int kRounds = 100;
// How much of a sample's slowness is believed: the machine is as fast for one setting as for another on average, so
// where few passes tie two settings together, what they show must not move all samples of one of them.
constexpr double kBelief = 0.9;
const double kOutlier = std::log(2.0);  // a pass that was held up for longer says no more than this

struct Mean {
    double sum = 0.0;
    int64_t n = 0;

    void add(double value) {
        sum += value;
        ++n;
    }

    double value() const { return sum / static_cast<double>(n); }
};

/// A pass as the fit sees it.
struct Seen {
    size_t shape = 0;
    double log_ms = 0.0;
};

/// The passes of every sample; *n_shapes: of how many shapes (slots, rows).
std::vector<std::vector<Seen>> seen_of(const std::vector<Sample*>& samples, size_t* n_shapes) {
    std::map<std::pair<int32_t, int32_t>, size_t> shapes;
    std::vector<std::vector<Seen>> seen(samples.size());
    for (size_t i = 0; i < samples.size(); ++i) {
        for (const engine::PassInfo& pass : samples[i]->passes) {
            const size_t shape = shapes.try_emplace({pass.n_slots, pass.n_rows}, shapes.size()).first->second;
            seen[i].push_back({shape, std::log(pass.ms)});
        }
    }
    *n_shapes = shapes.size();
    return seen;
}

/// Samples of one condition but for the text class. Logarithms of milliseconds: slowness of the sample + cost of the
/// shape + noise, by least squares, one after the other.
void net_out(const std::vector<Sample*>& samples) {
    size_t n_shapes = 0;
    const std::vector<std::vector<Seen>> seen = seen_of(samples, &n_shapes);
    std::vector<double> slowness(samples.size(), 0.0);
    std::vector<double> cost(n_shapes, std::numeric_limits<double>::infinity());  // at first nothing is an outlier
    for (int round = 0; round < kRounds; ++round) {
        std::vector<Mean> means(n_shapes);
        for (size_t i = 0; i < samples.size(); ++i) {
            for (const Seen& pass : seen[i]) {
                means[pass.shape].add(std::min(pass.log_ms - slowness[i], cost[pass.shape] + kOutlier));
            }
        }
        std::transform(means.begin(), means.end(), cost.begin(), [](const Mean& mean) { return mean.value(); });
        for (size_t i = 0; i < samples.size(); ++i) {
            Mean slower;
            for (const Seen& pass : seen[i]) {
                slower.add(std::min(kOutlier, pass.log_ms - cost[pass.shape]));
            }
            slowness[i] = kBelief * slower.value();
        }
    }
    for (size_t i = 0; i < samples.size(); ++i) {
        double steady_ms = 0.0;
        double took_ms = 0.0;
        for (size_t k = 0; k < seen[i].size(); ++k) {
            steady_ms += std::exp(cost[seen[i][k].shape]);
            took_ms += samples[i]->passes[k].ms;
        }
        const double rest_ms = std::max(0.0, 1000.0 * samples[i]->generate_s - took_ms);
        samples[i]->steady_s = (steady_ms + rest_ms / std::exp(slowness[i])) / 1000.0;
    }
}

}  // namespace

void net_out_machine(std::vector<Sample>* samples) {
    std::map<std::tuple<size_t, float, int32_t>, std::vector<Sample*>> conditions;
    for (Sample& sample : *samples) {
        const bool is_timed =
            sample.generate_s > 0.0 && std::all_of(sample.passes.begin(), sample.passes.end(),
                                                   [](const engine::PassInfo& pass) { return pass.ms > 0.0; });
        if (is_timed && !sample.passes.empty()) {
            conditions[{sample.setting.source, sample.condition.temperature, sample.condition.clients}].push_back(
                &sample);
        }
    }
    for (const auto& [condition, of_condition] : conditions) {
        net_out(of_condition);
    }
}

}  // namespace foresay::cli::tune
