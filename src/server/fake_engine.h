// An engine and a vocabulary for the server's tests: scripted answers, held and released by the test, cancellations
// counted. Only tests and the fuzzer include it. No sleeps: everything waits on conditions.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "vocab/vocab.h"

namespace foresay::server {

/// Tokens 0..255 are bytes; then <s>, </s> and a few words.
class ByteVocab final : public vocab::Vocab {
  public:
    static constexpr vocab::TokenId kBos = 256;
    static constexpr vocab::TokenId kEos = 257;
    static constexpr vocab::TokenId kWord = 258;  ///< " hello"
    static constexpr int32_t kTokens = 260;
    bool bos_in_front = true;
    std::vector<std::pair<std::string, std::string>> named_templates;

    vocab::Kind kind() const override { return vocab::Kind::kSpm; }

    int32_t n_tokens() const override { return kTokens; }

    std::vector<vocab::TokenId> encode(std::string_view text, bool add_special, bool parse_special) const override {
        std::vector<vocab::TokenId> ids;
        if (add_special && bos_in_front) {
            ids.push_back(kBos);
        }
        while (!text.empty()) {
            if (parse_special && text.starts_with("<s>")) {
                ids.push_back(kBos);
                text.remove_prefix(3);
            } else if (parse_special && text.starts_with("</s>")) {
                ids.push_back(kEos);
                text.remove_prefix(4);
            } else {
                ids.push_back(static_cast<unsigned char>(text.front()));
                text.remove_prefix(1);
            }
        }
        return ids;
    }

    std::string piece(vocab::TokenId id, bool special) const override {
        if (id >= 0 && id < 256) {
            return std::string(1, static_cast<char>(id));
        }
        if (id == kBos || id == kEos) {
            return special ? std::string(text(id)) : std::string();
        }
        return std::string(text(id));
    }

    std::string decode(std::span<const vocab::TokenId> ids, bool, bool unparse_special) const override {
        std::string out;
        for (const vocab::TokenId id : ids) {
            out += piece(id, unparse_special);
        }
        return out;
    }

    bool is_control(vocab::TokenId id) const override { return id == kBos || id == kEos; }

    bool is_eog(vocab::TokenId id) const override { return id == kEos; }

    bool is_byte(vocab::TokenId id) const override { return id >= 0 && id < 256; }

    vocab::TokenId bos() const override { return kBos; }

    vocab::TokenId eos() const override { return kEos; }

    vocab::TokenId eot() const override { return vocab::kNoToken; }

    vocab::TokenId newline() const override { return '\n'; }

    bool adds_bos() const override { return bos_in_front; }

    bool adds_eos() const override { return false; }

    std::string_view text(vocab::TokenId id) const override {
        constexpr std::array<std::string_view, 4> kTexts{"<s>", "</s>", " hello", " world"};
        return id >= kBos && id < kTokens ? kTexts[static_cast<size_t>(id - kBos)] : std::string_view();
    }

    std::span<const vocab::TokenId> eog_tokens() const override { return eog_; }

    std::span<const vocab::TokenId> suppressed() const override { return {}; }

    std::string_view chat_template() const override { return "{{ messages }}"; }

    std::span<const std::pair<std::string, std::string>> named_chat_templates() const override {
        return named_templates;
    }

  private:
    std::vector<vocab::TokenId> eog_{kEos};
};

/// What one task does.
struct Script {
    std::vector<engine::TokenEvent> events;
    engine::Final result;
    std::string error;    ///< not empty: failed() instead of final()
    int hold_at = -1;     ///< waits before this event (events.size(): before the end) until release() or cancel()
    bool silent = false;  ///< no started() before the first event
};

/// The text, one byte token at a time; whole characters come out with their last byte.
inline Script script_of(std::string_view text) {
    Script script;
    vocab::Utf8Stream stream;
    for (const char c : text) {
        engine::TokenEvent event;
        event.id = static_cast<unsigned char>(c);
        event.text = stream.push(std::string_view(&c, 1));
        script.events.push_back(std::move(event));
    }
    script.result.text_tail = stream.finish();
    script.result.stop_type = engine::StopType::kLimit;
    script.result.timings.predicted_n = static_cast<int32_t>(text.size());
    script.result.timings.predicted_ms = 10.0;
    return script;
}

/// 20 MB of text, more than the socket buffers hold, and then no end.
inline Script script_that_fills_sockets() {
    Script script;
    engine::TokenEvent event;
    event.id = 'x';
    event.text = std::string(1000, 'x');
    script.events.assign(20000, event);
    script.hold_at = 20000;
    return script;
}

class FakeEngine final : public engine::Engine {
  public:
    using ScriptFor = std::function<Script(const engine::Request&)>;

    explicit FakeEngine(ScriptFor script_for) : script_for_(std::move(script_for)) {
        info_.name = "fake";
        info_.path = "/models/fake.gguf";
        info_.architecture = "fake";
        info_.n_vocab = ByteVocab::kTokens;
        info_.n_ctx_slot = 64;
        info_.n_parallel = 2;
        info_.n_embd = 2;
        info_.spec_types = "draft-simple";
        options_.spec.n_max = 8;
        info_.spec_n_max = 8;
        thread_ = std::thread([this] { run(); });
    }

    ~FakeEngine() override { FakeEngine::shutdown(); }

    FakeEngine(const FakeEngine&) = delete;
    FakeEngine& operator=(const FakeEngine&) = delete;

    Result<int64_t> submit(engine::Request request, std::shared_ptr<engine::Sink> sink) override {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (stopping_) {
            return error(Code::kCancelled, "shutting down");
        }
        const auto n_prompt = static_cast<int32_t>(request.prompt.size());
        if (n_prompt >= info_.n_ctx_slot) {
            return error(Code::kCapacity, "request (" + std::to_string(n_prompt) +
                                              " tokens) exceeds the available context size (" +
                                              std::to_string(info_.n_ctx_slot) + " tokens), try increasing it");
        }
        Task task;
        task.script = script_for_(request);
        task.script.result.timings.prompt_n = n_prompt;
        task.script.result.timings.prompt_ms = 5.0;
        task.script.result.seed = request.sampling.seed;
        task.script.result.spec.n_max = std::min(request.spec.n_max.value_or(options_.spec.n_max), options_.spec.n_max);
        task.script.result.spec.relaxed_top_n = request.spec.relaxed_top_n.value_or(0);
        task.script.result.slot = static_cast<int>(next_id_) % info_.n_parallel;
        task.n_prompt = n_prompt;
        task.embed = request.embed;
        task.sink = std::move(sink);
        requests_.push_back(std::move(request));
        tasks_.emplace(next_id_, std::move(task));
        changed_.notify_all();
        return next_id_++;
    }

    void cancel(int64_t task) override {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++n_cancelled_;
        const auto it = tasks_.find(task);
        if (it != tasks_.end()) {
            it->second.cancelled = true;
        }
        changed_.notify_all();
    }

    /// Slots hold 7 tokens; a file named "missing" can't be restored.
    Status slot_action(engine::SlotAction action, int slot, std::string path,
                       std::function<void(Result<engine::SlotFileResult>)> done) override {
        slot_paths_.push_back(path);
        if (slot < 0 || slot >= info_.n_parallel) {
            return error(Code::kInvalidArgument, "Invalid slot ID");
        }
        if (action == engine::SlotAction::kRestore && path.ends_with("missing")) {
            done(error(Code::kNotFound, "cannot open " + path));
        } else {
            done(engine::SlotFileResult{7, 100, 0.5});
        }
        return ok();
    }

    void shutdown() override {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            stopping_ = true;
            changed_.notify_all();
        }
        if (thread_.joinable()) {
            thread_.join();
        }
    }

    const engine::ModelInfo& info() const override { return info_; }

    engine::Pooling pooling() const override { return pooling_; }

    const engine::EngineOptions& options() const override { return options_; }

    std::shared_ptr<const vocab::Vocab> vocab() const override { return vocab_; }

    std::vector<engine::SlotSnapshot> slots() const override {
        std::vector<engine::SlotSnapshot> list(static_cast<size_t>(info_.n_parallel));
        const std::lock_guard<std::mutex> lock(mutex_);
        for (size_t i = 0; i < list.size(); ++i) {
            list[i].id = static_cast<int>(i);
            list[i].n_ctx = info_.n_ctx_slot;
            list[i].is_processing = i < tasks_.size();
            list[i].id_task = requests_.size() > i ? static_cast<int64_t>(i) : -1;
        }
        return list;
    }

    engine::Metrics metrics() const override {
        engine::Metrics metrics;
        metrics.tokens_predicted_total = 7;
        metrics.sched_growths_total = 3;
        metrics.drafts[{"draft-simple", "strict"}] = {2, 8, 5, 0};
        metrics.drafts[{"draft-simple", "relaxed"}] = {1, 4, 4, 3};
        metrics.accepted_per_position = {3, 2};
        return metrics;
    }

    /// Lets every task that is held go on, now and later.
    void release() {
        const std::lock_guard<std::mutex> lock(mutex_);
        released_ = true;
        changed_.notify_all();
    }

    /// Waits until n tasks are held. false after 10 s.
    bool wait_for_held(int n) {
        return wait([this, n] { return n_held_ >= n; });
    }

    bool wait_for_cancelled(int n) {
        return wait([this, n] { return n_cancelled_ >= n; });
    }

    bool wait_for_idle() {
        return wait([this] { return tasks_.empty(); });
    }

    int n_cancelled() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return n_cancelled_;
    }

    std::vector<engine::Request> requests() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return requests_;
    }

    engine::ModelInfo info_;
    engine::EngineOptions options_;
    std::vector<std::string> slot_paths_;
    engine::Pooling pooling_ = engine::Pooling::kMean;
    std::shared_ptr<ByteVocab> vocab_ = std::make_shared<ByteVocab>();

  private:
    struct Task {
        Script script;
        std::shared_ptr<engine::Sink> sink;
        size_t next = 0;
        int32_t n_prompt = 0;
        bool embed = false;
        bool begun = false;
        bool counted = false;
        bool cancelled = false;
    };

    bool wait(const std::function<bool()>& condition) {
        std::unique_lock<std::mutex> lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(10), condition);
    }

    bool is_held(const Task& task) const {
        return !released_ && !stopping_ && !task.cancelled && task.script.hold_at == static_cast<int>(task.next);
    }

    void run() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            bool moved = false;
            for (auto it = tasks_.begin(); it != tasks_.end();) {
                Task& task = it->second;
                begin(task);
                if (is_held(task)) {
                    n_held_ += task.counted ? 0 : 1;
                    task.counted = true;
                    changed_.notify_all();
                    ++it;
                    continue;
                }
                moved = true;
                it = step(task) ? tasks_.erase(it) : std::next(it);
            }
            changed_.notify_all();
            if (stopping_ && tasks_.empty()) {
                return;
            }
            if (!moved) {
                changed_.wait(lock);
            }
        }
    }

    static void begin(Task& task) {
        if (!task.begun) {
            task.begun = true;
            if (!task.script.silent) {
                task.sink->started(task.script.result.slot);
                task.sink->prompt_progress(0, 0, task.n_prompt, 0.0);
                task.sink->prompt_progress(task.n_prompt, 0, task.n_prompt, 5.0);
            }
        }
    }

    /// One event of the task; true at its end.
    bool step(Task& task) {
        if (task.cancelled) {
            task.sink->failed(error(Code::kCancelled, "cancelled"));
            return true;
        }
        if (stopping_ || task.next == task.script.events.size()) {
            if (task.script.error.empty()) {
                if (task.embed) {
                    task.sink->embedding({3.0F, static_cast<float>(task.n_prompt)});
                }
                task.sink->final(task.script.result);
            } else {
                task.sink->failed(error(Code::kInternal, task.script.error));
            }
            return true;
        }
        task.sink->token(task.script.events[task.next++]);
        return false;
    }

    ScriptFor script_for_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<int64_t, Task> tasks_;          // guarded by mutex_
    std::vector<engine::Request> requests_;  // guarded by mutex_
    int64_t next_id_ = 0;                    // guarded by mutex_
    int n_cancelled_ = 0;                    // guarded by mutex_
    int n_held_ = 0;                         // guarded by mutex_
    bool released_ = false;                  // guarded by mutex_
    bool stopping_ = false;                  // guarded by mutex_
    std::thread thread_;
};

}  // namespace foresay::server
