// An engine driven from a command: prompts in, whole generations out, every run cold. For tune and doctor.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "chat/chat.h"
#include "engine/engine.h"
#include "model/cost_curve.h"

namespace foresay::cli {

/// What one request gave.
struct Generation {
    engine::Final result;
    std::vector<vocab::TokenId> ids;
    std::vector<float> logprobs;           ///< of the emitted tokens, when n_probs was asked for
    std::vector<int32_t> pool_sizes;       ///< candidates left by truncation, when post_sampling_probs was asked for
    std::vector<double> times_s;           ///< when the tokens' passes were computed, from the submit of the run
    std::vector<engine::PassInfo> passes;  ///< of the tokens

    double first_s() const { return times_s.empty() ? 0.0 : times_s.front(); }

    double last_s() const { return times_s.empty() ? 0.0 : times_s.back(); }
};

class Session {
  public:
    /// Loads the models. raw: prompts are taken as they are; else they go through the model's chat template where it
    /// has one. Errors: as Engine::create; a template that can't be used.
    static Result<std::unique_ptr<Session>> create(const engine::EngineOptions& options, bool raw);
    ~Session();

    /// Errors: what the template reports.
    Result<std::vector<vocab::TokenId>> encode(const std::string& prompt) const;

    bool has_template() const { return templates_.has_value(); }

    /// Empties all slots, submits the requests at once, the i-th for slot i % n_clients (each slot takes its own in
    /// turn), and waits for all. n_clients: 1..slots. Errors: the first request's that failed.
    Result<std::vector<Generation>> run(const std::vector<engine::Request>& requests, size_t n_clients);

    engine::Engine& engine() { return *engine_; }

  private:
    Session() = default;
    Status erase_slots();

    std::unique_ptr<engine::Engine> engine_;
    std::optional<chat::Templates> templates_;
};

/// The cost curve of a model, 1..n_widest rows, measured without an engine. Loads the model and lets it go again.
Result<std::vector<model::CostPoint>> cost_curve_of(const engine::EngineOptions& options, const std::string& path,
                                                    int32_t n_widest, int32_t rounds);

/// Lowers the log to warnings: a line per request would bury the command's own output.
void quieten_log(const log::Options& options);

/// A progress line: rewritten in place on a terminal, else a line whenever the text in front of the colon changes.
class ProgressLine {
  public:
    explicit ProgressLine(bool on_terminal) : on_terminal_(on_terminal) {}

    ~ProgressLine();
    void show(const std::string& text, double share);

  private:
    bool on_terminal_;
    std::string last_;
    size_t width_ = 0;
};

}  // namespace foresay::cli
