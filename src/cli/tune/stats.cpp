#include "cli/tune/stats.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace foresay::cli::tune {
namespace {

constexpr int kResamples = 2000;
constexpr double kTail = 0.025;
// One or two values of a stratum say nothing of its spread: then the differences between strata have to stand in for
// it, which makes intervals too wide rather than too narrow.
constexpr size_t kLeastInStratum = 4;

/// splitmix64 (Steele, Lea, Flood 2014): a fixed seed makes reports reproducible.
class Random {
  public:
    size_t below(size_t n) {
        state_ += 0x9e3779b97f4a7c15U;
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return static_cast<size_t>((z ^ (z >> 31)) % n);
    }

  private:
    uint64_t state_ = 20240229;
};

using Strata = std::map<std::string, std::vector<double>>;

double mean(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double value : values) {
        sum += value;
    }
    return sum / static_cast<double>(values.size());
}

double mean_of_means(const Strata& strata);

/// Of as many values drawn anew within each stratum.
double drawn_within(const Strata& strata, Random& random) {
    Strata drawn = strata;
    for (auto& [name, values] : drawn) {
        const std::vector<double>& from = strata.at(name);
        for (double& value : values) {
            value = from[random.below(from.size())];
        }
    }
    return mean_of_means(drawn);
}

/// Of as many values drawn anew from all of them.
double drawn_from_all(const std::vector<PairedLog>& logs, Random& random) {
    Strata drawn;
    for (size_t i = 0; i < logs.size(); ++i) {
        const PairedLog& log = logs[random.below(logs.size())];
        drawn[log.stratum].push_back(log.value);
    }
    return mean_of_means(drawn);
}

double mean_of_means(const Strata& strata) {
    double sum = 0.0;
    for (const auto& [name, values] : strata) {
        sum += mean(values);
    }
    return sum / static_cast<double>(strata.size());
}

}  // namespace

std::vector<Span> while_all_write(const std::vector<std::vector<double>>& texts, size_t n_clients) {
    const int n_wanted = static_cast<int>(std::min(texts.size(), n_clients));
    std::map<double, int> changes;  // how many texts more are being written from then on
    for (const std::vector<double>& text : texts) {
        if (!text.empty()) {
            ++changes[text.front()];
            --changes[text.back()];
        }
    }
    std::vector<Span> spans;
    int n_writing = 0;
    double since = 0.0;
    for (const auto& [at, change] : changes) {
        if (n_wanted > 0 && n_writing == n_wanted) {
            spans.push_back({since, at});
        }
        n_writing += change;
        since = at;
    }
    return spans;
}

Figure geometric_mean(const std::vector<PairedLog>& logs) {
    if (logs.empty()) {
        return {};
    }
    Strata strata;
    for (const PairedLog& log : logs) {
        strata[log.stratum].push_back(log.value);
    }
    Figure figure;
    figure.n = static_cast<int32_t>(logs.size());
    figure.value = std::exp(mean_of_means(strata));
    Random random;
    std::vector<double> means;
    means.reserve(kResamples);
    const bool is_thin = std::any_of(strata.begin(), strata.end(),
                                     [](const auto& stratum) { return stratum.second.size() < kLeastInStratum; });
    for (int i = 0; i < kResamples; ++i) {
        means.push_back(is_thin ? drawn_from_all(logs, random) : drawn_within(strata, random));
    }
    std::sort(means.begin(), means.end());
    const auto at = [&](double share) {
        return std::exp(means[static_cast<size_t>(share * static_cast<double>(means.size() - 1))]);
    };
    figure.low = at(kTail);
    figure.high = at(1.0 - kTail);
    return figure;
}

bool passes(const Sample& sample, const Filter& filter) {
    if (filter.confirmed_only && sample.stage != Stage::kConfirm) {
        return false;
    }
    if (filter.condition != nullptr) {
        return sample.condition == *filter.condition;
    }
    return sample.condition.temperature == filter.temperature && sample.condition.clients == filter.clients;
}

Figure speed_up(const std::vector<Sample>& samples, const Setting& setting, const Filter& filter) {
    const auto rate = [&](const Sample& sample) {
        return filter.timing == Timing::kWhole    ? sample.total_tok_s()
               : filter.timing == Timing::kSteady ? sample.steady_tok_s()
                                                  : sample.tok_s();
    };
    std::vector<PairedLog> logs;
    for (const Sample& sample : samples) {
        if (sample.setting != setting || !passes(sample, filter) || rate(sample) <= 0.0) {
            continue;
        }
        const auto plain = std::find_if(samples.begin(), samples.end(), [&](const Sample& other) {
            return other.setting.is_plain() && other.setting.source == sample.setting.source &&
                   other.group == sample.group && other.condition == sample.condition && rate(other) > 0.0;
        });
        if (plain != samples.end()) {
            logs.push_back({sample.condition.text_class, std::log(rate(sample) / rate(*plain))});
        }
    }
    return geometric_mean(logs);
}

Sample total(const std::vector<Sample>& samples, const Setting& setting, const Filter& filter) {
    Sample sum;
    sum.setting = setting;
    for (const Sample& s : samples) {
        if (s.setting != setting || !passes(s, filter)) {
            continue;
        }
        sum.n_tokens += s.n_tokens;
        sum.n_timed += s.n_timed;
        sum.generate_s += s.generate_s;
        sum.total_s += s.total_s;
        sum.n_drafted += s.n_drafted;
        sum.n_accepted += s.n_accepted;
        sum.n_relaxed += s.n_relaxed;
        sum.n_verified += s.n_verified;
        sum.rank_sum += s.rank_sum;
        sum.gap_sum += s.gap_sum;
        sum.accepted_at.resize(std::max(sum.accepted_at.size(), s.accepted_at.size()));
        for (size_t i = 0; i < s.accepted_at.size(); ++i) {
            sum.accepted_at[i] += s.accepted_at[i];
        }
    }
    return sum;
}

}  // namespace foresay::cli::tune
