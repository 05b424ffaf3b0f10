#include "cli/flags.h"

#include <algorithm>
#include <map>

#include "base/assert.h"

namespace foresay::cli {
namespace {

std::string normalised(std::string_view spelling) {
    std::string name(spelling);
    if (name.rfind("--", 0) == 0) {
        std::replace(name.begin(), name.end(), '_', '-');
    }
    return name;
}

using Index =
    std::map<std::string, std::vector<FlagMatch>, std::less<>>;  // rows of one spelling: of different commands

void add_row(Index& index, const std::string& name, FlagMatch match) {
    std::vector<FlagMatch>& rows = index[name];
    for (const FlagMatch& row : rows) {
        FORESAY_ASSERT((row.flag->commands & match.flag->commands) == 0);  // one command can't have it twice
    }
    rows.push_back(match);
}

Index make_index() {
    Index index;
    for (const FlagGroup& group : flag_groups()) {
        for (const Flag& flag : group.flags) {
            for (const std::string& name : flag.names) {
                add_row(index, name, {&flag, false});
            }
            for (const std::string& name : flag.negated) {
                add_row(index, name, {&flag, true});
            }
        }
    }
    return index;
}

const Index& flag_index() {
    static const Index kIndex = make_index();
    return kIndex;
}

/// Levenshtein's distance with transpositions of neighbours counted as one (the commonest slip in typing).
size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) {
        for (size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            const size_t substituted = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substituted});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[a.size()][b.size()];
}

}  // namespace

ValueKind Flag::kind() const {
    if (!value.empty()) {
        return ValueKind::kValue;
    }
    return negated.empty() ? ValueKind::kNone : ValueKind::kBoolean;
}

const std::vector<FlagGroup>& flag_groups() {
    static const std::vector<FlagGroup> kGroups{general_flags(), local_flags(),       tune_flags(),  model_flags(),
                                                compute_flags(), speculation_flags(), ngram_flags(), sampling_flags(),
                                                server_flags(),  template_flags(),    log_flags(),   placement_flags()};
    return kGroups;
}

FlagMatch find_flag(std::string_view spelling, unsigned commands) {
    const auto found = flag_index().find(normalised(spelling));
    if (found == flag_index().end()) {
        return {};
    }
    const std::vector<FlagMatch>& rows = found->second;
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [commands](const FlagMatch& m) { return (m.flag->commands & commands) != 0; });
    return row == rows.end() ? rows.front() : *row;
}

std::string nearest_flag(std::string_view spelling, unsigned commands) {
    std::vector<std::string> words;
    for (const auto& [name, rows] : flag_index()) {
        // Short names are all within two letters of each other: only long ones are worth a guess.
        if (name.rfind("--", 0) == 0 && std::any_of(rows.begin(), rows.end(), [commands](const FlagMatch& m) {
                return (m.flag->commands & commands) != 0;
            })) {
            words.push_back(name);
        }
    }
    const std::string typed = normalised(spelling);
    // "-model" is "--model" with a dash lost.
    const std::string near = nearest_word(typed, words);
    return near.empty() && typed.rfind("--", 0) != 0 ? nearest_word("-" + typed, words) : near;
}

std::string nearest_word(std::string_view typed, std::span<const std::string> words) {
    std::string best;
    // Leading dashes are the same everywhere: they must not make a short name look long.
    const size_t n_dashes = std::min(typed.find_first_not_of('-'), typed.size());
    size_t best_distance = (typed.size() - n_dashes) / 3 + 1;
    for (const std::string& word : words) {
        const size_t distance = edit_distance(typed, word);
        if (distance < best_distance) {
            best = word;
            best_distance = distance;
        }
    }
    return best;
}

}  // namespace foresay::cli
