#include "cli/tune/steady.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace foresay::cli::tune {
namespace {

constexpr int kRounds = 100;
// How much of a sample's slowness is believed: the machine is as fast for one setting as for another on average, so
// where few passes tie two settings together, what they show must not move all samples of one of them.
constexpr double kBelief = 0.9;
const double kOutlier = std::log(2.0);  // a pass that was held up for longer says no more than this

using Shape = std::pair<int32_t, int32_t>;  // slots, rows

Shape shape_of(const PassCost& pass) {
    return {pass.n_slots, pass.n_rows};
}

struct Mean {
    double sum = 0.0;
    int64_t n = 0;

    void add(double value) {
        sum += value;
        ++n;
    }

    double value() const { return sum / static_cast<double>(n); }
};

/// Samples of one condition but for the text class. Logarithms of milliseconds: slowness of the sample + cost of the
/// shape + noise, by least squares, one after the other.
void net_out(const std::vector<Sample*>& samples) {
    std::vector<double> slowness(samples.size(), 0.0);
    std::map<Shape, double> cost;
    for (int round = 0; round < kRounds; ++round) {
        std::map<Shape, Mean> seen;
        for (size_t i = 0; i < samples.size(); ++i) {
            for (const PassCost& pass : samples[i]->passes) {
                const auto known = cost.find(shape_of(pass));
                const double value = std::log(pass.ms) - slowness[i];
                seen[shape_of(pass)].add(known == cost.end() ? value : std::min(value, known->second + kOutlier));
            }
        }
        for (const auto& [shape, mean] : seen) {
            cost[shape] = mean.value();
        }
        for (size_t i = 0; i < samples.size(); ++i) {
            Mean slower;
            for (const PassCost& pass : samples[i]->passes) {
                slower.add(std::min(kOutlier, std::log(pass.ms) - cost[shape_of(pass)]));
            }
            slowness[i] = kBelief * slower.value();
        }
    }
    for (size_t i = 0; i < samples.size(); ++i) {
        double steady_ms = 0.0;
        double took_ms = 0.0;
        for (const PassCost& pass : samples[i]->passes) {
            steady_ms += std::exp(cost[shape_of(pass)]);
            took_ms += pass.ms;
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
            sample.generate_s > 0.0 &&
            std::all_of(sample.passes.begin(), sample.passes.end(), [](const PassCost& pass) { return pass.ms > 0.0; });
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
