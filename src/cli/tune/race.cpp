#include "cli/tune/race.h"

#include <fmt/format.h>

#include <algorithm>

namespace foresay::cli::tune {
namespace {

constexpr double kScreenShare = 0.5;    // of the time; the rest confirms
constexpr size_t kFinalists = 2;        // of each family
constexpr int32_t kLeastScreening = 2;  // rounds

/// Several clients ask twice each: when the first is done, others still work, and with one text each what follows
/// would be a large part of the time.
size_t prompts_per_client(int32_t clients) {
    return clients > 1 ? 2 : 1;
}

class Race {
  public:
    Race(const RaceOptions& options, PromptPool& pool, Bench& bench, const RaceProgress& progress)
        : options_(options), pool_(pool), bench_(bench), progress_(progress) {}

    Result<RaceResult> run();

  private:
    Status screen();
    Status confirm();
    /// Every setting on new prompts of every class. *n_run: how many classes were run. Behind `share` of the time no
    /// further class is begun.
    Status round(const std::string& what, Stage stage, const std::vector<Setting>& settings, float temperature,
                 int32_t clients, double share, int32_t* n_run);
    Status run_group(const std::string& what, Stage stage, const std::vector<Setting>& settings,
                     const Condition& condition, const std::vector<std::string>& prompts);

    Filter first() const { return {nullptr, options_.temperatures.front(), options_.clients.front()}; }

    bool is_late(double share) {
        return bench_.seconds() >= options_.begin_s + share * (options_.end_s - options_.begin_s);
    }

    const RaceOptions& options_;
    PromptPool& pool_;
    Bench& bench_;
    const RaceProgress& progress_;
    std::vector<Setting> alive_;
    RaceResult result_;
    int32_t group_ = 0;
};

/// The order of a group: another one each time, so that no setting always follows the same one.
std::vector<Setting> shuffled(std::vector<Setting> settings, int32_t group) {
    uint64_t state = static_cast<uint64_t>(group) * 0x9e3779b97f4a7c15U + 1;
    for (size_t i = settings.size(); i > 1; --i) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        std::swap(settings[i - 1], settings[static_cast<size_t>((state >> 33) % i)]);
    }
    return settings;
}

Status Race::run_group(const std::string& what, Stage stage, const std::vector<Setting>& settings,
                       const Condition& condition, const std::vector<std::string>& prompts) {
    Setting plain;
    plain.source = settings.front().source;
    std::vector<Setting> all = settings;
    all.push_back(plain);
    all = shuffled(std::move(all), group_);
    for (size_t i = 0; i < all.size(); ++i) {
        const double length = options_.end_s - options_.begin_s;
        progress_(fmt::format("{}: {} of {}, {}", what, i + 1, all.size(), condition.text_class),
                  length > 0.0 ? std::min(1.0, (bench_.seconds() - options_.begin_s) / length) : 1.0);
        FORESAY_TRY(Sample sample, bench_.run(all[i], condition, prompts));
        sample.setting = all[i];
        sample.condition = condition;
        sample.stage = stage;
        sample.group = group_;
        result_.samples.push_back(std::move(sample));
    }
    ++group_;
    return ok();
}

Status Race::round(const std::string& what, Stage stage, const std::vector<Setting>& settings, float temperature,
                   int32_t clients, double share, int32_t* n_run) {
    *n_run = 0;
    for (const std::string& text_class : options_.classes) {
        if (*n_run > 0 && is_late(share)) {
            return ok();
        }
        const std::vector<std::string> prompts =
            pool_.take(text_class, static_cast<size_t>(clients) * prompts_per_client(clients));
        if (prompts.empty()) {
            continue;
        }
        FORESAY_CHECK_OK(run_group(what, stage, settings, {text_class, temperature, clients}, prompts));
        ++*n_run;
    }
    return ok();
}

Status Race::screen() {
    for (int32_t i = 0; i < options_.max_rounds; ++i) {
        if (i > 0 && is_late(kScreenShare)) {
            return ok();
        }
        int32_t n_run = 0;
        FORESAY_CHECK_OK(round(fmt::format("screening {}", i + 1), Stage::kScreen, alive_,
                               options_.temperatures.front(), options_.clients.front(), kScreenShare, &n_run));
        if (n_run == 0) {
            if (i == 0) {
                return error(Code::kInvalidArgument, "there are too few prompts for one round", "--prompts",
                             "give at least two per client");
            }
            return ok();
        }
        if (options_.prune) {
            const size_t before = alive_.size();
            alive_ = better_half(result_.samples, alive_, first(), kFinalists);
            if (alive_.size() == before && i + 1 >= kLeastScreening) {
                return ok();
            }
        }
    }
    return ok();
}

Status Race::confirm() {
    struct Place {
        float temperature;
        int32_t clients;
    };

    std::vector<Place> places;
    for (const float temperature : options_.temperatures) {
        for (const int32_t clients : options_.clients) {
            const bool is_first_of_either =
                temperature == options_.temperatures.front() || clients == options_.clients.front();
            if (is_first_of_either) {  // a cross, not a grid: hours would be spent in its corners
                places.push_back({temperature, clients});
            }
        }
    }
    for (int32_t i = 0; i < options_.max_rounds; ++i) {
        bool is_anything_run = false;
        for (const Place& place : places) {
            // The first place is measured once whatever the time: without it there is no result.
            const bool is_needed = i == 0 && &place == &places.front();
            if (!is_needed && is_late(1.0)) {
                if (i == 0) {
                    result_.notes.push_back(fmt::format("no time was left for temperature {:g} with {} clients",
                                                        place.temperature, place.clients));
                }
                continue;
            }
            int32_t n_run = 0;
            FORESAY_CHECK_OK(round(fmt::format("measuring {} (temperature {:g}, {} client{})", i + 1, place.temperature,
                                               place.clients, place.clients == 1 ? "" : "s"),
                                   Stage::kConfirm, alive_, place.temperature, place.clients, 1.0, &n_run));
            if (n_run == 0 && i == 0) {
                result_.notes.push_back(fmt::format("no prompts were left for temperature {:g} with {} clients",
                                                    place.temperature, place.clients));
            }
            is_anything_run = is_anything_run || n_run > 0;
        }
        if (!is_anything_run || is_late(1.0)) {
            return ok();
        }
    }
    return ok();
}

Result<RaceResult> Race::run() {
    alive_ = options_.settings;
    FORESAY_CHECK_OK(screen());
    if (options_.prune) {
        // The finalists: the best of each family and the adaptive ones.
        std::vector<Setting> finalists = alive_;
        while (true) {
            const size_t before = finalists.size();
            finalists = better_half(result_.samples, finalists, first(), 1);
            if (finalists.size() == before) {
                break;
            }
        }
        alive_ = std::move(finalists);
    }
    FORESAY_CHECK_OK(confirm());
    return std::move(result_);
}

}  // namespace

const Setting* best_of(const std::vector<Sample>& samples, const std::vector<Setting>& settings, const Filter& filter,
                       bool relaxed) {
    const Setting* best = nullptr;
    double highest = 0.0;
    for (const Setting& setting : settings) {
        if (setting.is_plain() || setting.is_relaxed() != relaxed) {
            continue;
        }
        const Figure figure = speed_up(samples, setting, filter);
        if (figure.n > 0 && figure.value > highest) {
            highest = figure.value;
            best = &setting;
        }
    }
    return best;
}

std::vector<Setting> better_half(const std::vector<Sample>& samples, const std::vector<Setting>& settings,
                                 const Filter& filter, size_t least) {
    std::vector<Setting> kept;
    for (const bool relaxed : {false, true}) {
        std::vector<std::pair<double, size_t>> ranked;  // the fastest first
        for (size_t i = 0; i < settings.size(); ++i) {
            if (settings[i].is_relaxed() != relaxed) {
                continue;
            }
            if (settings[i].adaptive) {
                kept.push_back(settings[i]);
            } else {
                ranked.emplace_back(-speed_up(samples, settings[i], filter).value, i);
            }
        }
        std::sort(ranked.begin(), ranked.end());
        ranked.resize(std::min(ranked.size(), std::max(least, (ranked.size() + 1) / 2)));
        for (const auto& [score, i] : ranked) {
            kept.push_back(settings[i]);
        }
    }
    return kept;
}

Result<RaceResult> race(const RaceOptions& options, PromptPool& pool, Bench& bench, const RaceProgress& progress) {
    if (options.settings.empty() || options.temperatures.empty() || options.clients.empty()) {
        return error(Code::kInvalidArgument, "there is nothing to measure");
    }
    return Race(options, pool, bench, progress).run();
}

}  // namespace foresay::cli::tune
