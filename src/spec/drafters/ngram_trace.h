// Test helper: replays shared/goldens/synthetic-pairs/ngram.json through a drafter as the reference's server would.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/test_paths.h"
#include "spec/drafter.h"

namespace foresay::spec {

using Ids = std::vector<TokenId>;

/// One slot's draft for a whole context.
inline Ids propose_for(Drafter& drafter, std::span<const TokenId> tokens, int32_t n_max = 1024, int slot = 0) {
    DraftRequest request;
    request.slot = slot;
    request.tokens = tokens;
    request.n_max = n_max;
    std::vector<Draft> drafts;
    EXPECT_TRUE(drafter.propose({&request, 1}, drafts).has_value());
    EXPECT_EQ(drafts.size(), 1U);
    return drafts.at(0).tokens;
}

struct TraceCount {
    int runs = 0;
    int drafted = 0;
    int accepted = 0;
};

/// Lets `stream` play the target from position n_prompt - 1 on; on_step(position, draft, accepted) for each draft.
inline TraceCount replay(Drafter& drafter, std::span<const TokenId> stream, size_t n_prompt,
                         const std::function<void(size_t, const Ids&, size_t)>& on_step, int slot = 0) {
    TraceCount count;
    drafter.begin(slot, stream.first(n_prompt - 1));
    for (size_t pos = n_prompt - 1; pos + 1 < stream.size();) {
        const Ids draft = propose_for(drafter, stream.first(pos + 1), 1024, slot);
        size_t accepted = 0;
        while (accepted < draft.size() && pos + 1 + accepted < stream.size() &&
               draft[accepted] == stream[pos + 1 + accepted]) {
            ++accepted;
        }
        if (!draft.empty()) {
            on_step(pos, draft, accepted);
            drafter.accepted(slot, static_cast<int32_t>(draft.size()), static_cast<int32_t>(accepted), true);
            count.drafted += static_cast<int>(draft.size());
            count.accepted += static_cast<int>(accepted);
        }
        pos += accepted + 1;
    }
    return count;
}

/// Every run of this type, exactly. make(params): the drafter of a run. Skips the test when the golden is missing.
inline void expect_reference_trace(const std::string& type, int n_runs,
                                   const std::function<std::unique_ptr<Drafter>(const nlohmann::json&)>& make) {
    const std::string path = shared_path("goldens/synthetic-pairs/ngram.json");
    std::ifstream file(path);
    if (!file.is_open()) {
        GTEST_SKIP() << "no golden at " << path;
    }
    const auto golden = nlohmann::json::parse(file, nullptr, false);
    ASSERT_FALSE(golden.is_discarded());
    const auto stream = golden["stream"].get<Ids>();
    int n_seen = 0;
    for (const auto& run : golden["runs"]) {
        if (run["type"] != type) {
            continue;
        }
        ++n_seen;
        const auto drafter = make(run["params"]);
        ASSERT_EQ(drafter->name(), type);
        size_t i_step = 0;
        const TraceCount count = replay(
            *drafter, stream, golden["n_prompt"].get<size_t>(), [&](size_t pos, const Ids& draft, size_t accepted) {
                ASSERT_LT(i_step, run["steps"].size()) << "a draft at " << pos << " that the reference doesn't make";
                const auto& step = run["steps"][i_step++];
                ASSERT_EQ(step[0].get<size_t>(), pos) << run["params"];
                ASSERT_EQ(step[1].get<Ids>(), draft) << "at " << pos << run["params"];
                ASSERT_EQ(step[2].get<size_t>(), accepted) << "at " << pos;
            });
        EXPECT_EQ(i_step, run["steps"].size());
        EXPECT_EQ(count.drafted, run["n_drafted"].get<int>());
        EXPECT_EQ(count.accepted, run["n_accepted"].get<int>());
    }
    EXPECT_EQ(n_seen, n_runs);
}

}  // namespace foresay::spec
