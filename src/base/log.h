// The logger: levels, sinks and llama-server's --log-* switches over spdlog. The only global state of the program.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace foresay::log {

enum class Level { kDebug = 0, kInfo = 1, kWarn = 2, kError = 3, kOff = 4 };

struct Options {
    Level level = Level::kInfo;
    bool prefix = true;      ///< level letter in front of each line
    bool timestamps = true;  ///< seconds since start in front of each line
    bool colors = false;
    std::string file;  ///< also write here, when not empty
};

/// Replaces the logger's set-up. Call before other threads log. A log file that can't be opened is reported on standard
/// error.
void configure(const Options& options);
Level level();
/// Writes one line. Threads: any.
void write(Level level, std::string_view line);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
    if (level() <= Level::kDebug) {
        write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
    }
}

template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
    if (level() <= Level::kInfo) {
        write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
    }
}

template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
    if (level() <= Level::kWarn) {
        write(Level::kWarn, fmt::format(format, std::forward<Args>(args)...));
    }
}

template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
    if (level() <= Level::kError) {
        write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
    }
}

}  // namespace foresay::log
