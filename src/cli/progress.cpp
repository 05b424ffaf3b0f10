#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "base/log.h"

namespace foresay::cli {
namespace {

constexpr int kBarWidth = 40;

struct State {
    std::mutex mutex;
    std::string stage;    // guarded by mutex
    int percent = -1;     // guarded by mutex; what is on the screen
    bool is_done = true;  // guarded by mutex; the bar's line has been ended
};

}  // namespace

std::string bar_text(const std::string& stage, float fraction) {
    const float clamped = std::clamp(fraction, 0.0F, 1.0F);
    const int filled = static_cast<int>(clamped * kBarWidth);
    return fmt::format("{:<18} [{}{}] {:>3}%", stage, std::string(static_cast<size_t>(filled), '#'),
                       std::string(static_cast<size_t>(kBarWidth - filled), ' '), static_cast<int>(clamped * 100.0F));
}

std::function<void(const std::string& stage, float fraction)> make_progress(bool on_terminal) {
    auto state = std::make_shared<State>();
    return [state, on_terminal](const std::string& stage, float fraction) {
        const std::lock_guard lock(state->mutex);
        const bool is_new = stage != state->stage;
        if (!on_terminal) {
            if (is_new) {
                log::info("{} ...", stage);
            }
            state->stage = stage;
            return;
        }
        if (log::level() > log::Level::kInfo) {
            return;
        }
        const int percent = static_cast<int>(std::clamp(fraction, 0.0F, 1.0F) * 100.0F);
        if (!is_new && percent == state->percent) {
            return;  // thousands of tensors: the terminal needs a hundred updates
        }
        if (is_new && !state->is_done) {
            std::fputc('\n', stderr);
        }
        state->stage = stage;
        state->percent = percent;
        state->is_done = percent >= 100;
        std::fprintf(stderr, "\r%s%s", bar_text(stage, fraction).c_str(), state->is_done ? "\n" : "");
        std::fflush(stderr);
    };
}

bool is_terminal() {
    return isatty(STDERR_FILENO) == 1;
}

}  // namespace foresay::cli
