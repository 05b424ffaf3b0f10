// One slot: a sequence in the caches and the task that runs on it. Only the engine thread touches it.
#pragma once

#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/text_out.h"
#include "sampling/sampler.h"
#include "spec/acceptor.h"

namespace foresay::engine {

using Clock = std::chrono::steady_clock;

struct Task {
    int64_t id = -1;
    Request request;
    SpecInForce spec;
    std::shared_ptr<Sink> sink;
    std::unique_ptr<sampling::Sampler> sampler;
    std::optional<spec::Acceptor> acceptor;
};

struct Slot {
    enum class State { kIdle, kPrompt, kGenerating };

    int id = 0;
    State state = State::kIdle;
    /// The text: prompt and emitted tokens, less what context shifts dropped. The first n_past of them are in the
    /// cache.
    std::vector<TokenId> context;
    int32_t n_past = 0;
    /// So many leading cells are what evaluating the context afresh would give. Cells that were moved aren't: they saw
    /// tokens that are gone. Only these may be reused, or reuse would change results.
    int32_t n_pure = std::numeric_limits<int32_t>::max();
    Clock::time_point last_used{};

    std::optional<Task> task;
    std::optional<TextOut> text;
    int32_t n_prompt = 0;   ///< prompt tokens of the task
    int32_t n_decoded = 0;  ///< tokens emitted for the task
    bool truncated = false;
    bool has_new_line = false;
    Timings timings;
    std::vector<double> pooled;  ///< of a task with `embed`: what the rows so far add up to
    Clock::time_point t_start{};
    Clock::time_point t_first_token{};
    bool line_seen = false;  ///< a newline came since generation began (time limit looks at it)

    bool busy() const { return state != State::kIdle; }
};

}  // namespace foresay::engine
