// Drives an Engine in tests: collects one request's events, runs several at once.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace foresay::test {

/// Everything that strict acceptance must leave as plain decoding has it.
struct Text {
    std::vector<int32_t> ids;
    std::string text;
    std::vector<float> values;  ///< chosen and top log-probabilities, in order

    bool operator==(const Text&) const = default;
};

class Collector : public engine::Sink {
  public:
    void token(const engine::TokenEvent& event) override {
        const std::lock_guard lock(mutex_);
        text_.ids.push_back(event.id);
        text_.text += event.text;
        text_.values.push_back(event.chosen.value);
        for (const auto& top : event.top) {
            text_.values.push_back(static_cast<float>(top.id));
            text_.values.push_back(top.value);
        }
        kinds_.push_back(event.kind);
    }

    void final(const engine::Final& result) override {
        const std::lock_guard lock(mutex_);
        text_.text += result.text_tail;
        final_ = result;
        done_.notify_all();
    }

    void failed(const Error& error) override {
        const std::lock_guard lock(mutex_);
        error_ = error;
        done_.notify_all();
    }

    void wait() {
        std::unique_lock lock(mutex_);
        done_.wait(lock, [this] { return final_.has_value() || error_.has_value(); });
    }

    const Text& text() const { return text_; }

    const engine::Final& result() const { return *final_; }

    const std::optional<Error>& error() const { return error_; }

    const std::vector<engine::TokenKind>& kinds() const { return kinds_; }

  private:
    std::mutex mutex_;
    std::condition_variable done_;
    Text text_;
    std::vector<engine::TokenKind> kinds_;
    std::optional<engine::Final> final_;
    std::optional<Error> error_;
};

inline std::unique_ptr<engine::Engine> make_engine(const engine::EngineOptions& options) {
    auto made = engine::Engine::create(options);
    EXPECT_TRUE(made.has_value()) << made.error().to_string();
    return made.has_value() ? std::move(*made) : nullptr;
}

inline std::shared_ptr<Collector> submit(engine::Engine& engine, engine::Request request) {
    auto sink = std::make_shared<Collector>();
    const auto id = engine.submit(std::move(request), sink);
    EXPECT_TRUE(id.has_value()) << id.error().to_string();
    return id.has_value() ? sink : nullptr;
}

inline std::shared_ptr<Collector> generate(engine::Engine& engine, engine::Request request) {
    auto sink = submit(engine, std::move(request));
    if (sink != nullptr) {
        sink->wait();
        EXPECT_FALSE(sink->error().has_value()) << sink->error()->to_string();
    }
    return sink;
}

inline engine::Request request_for(const engine::Engine& engine, const std::string& prompt, int32_t n_predict,
                                   float temperature, uint32_t seed = 42) {
    engine::Request request;
    request.prompt = engine.vocab()->encode(prompt, true, true);
    request.n_predict = n_predict;
    request.sampling.temperature = temperature;
    request.sampling.seed = seed;
    request.n_probs = 2;
    request.cache_prompt = false;
    return request;
}

}  // namespace foresay::test
