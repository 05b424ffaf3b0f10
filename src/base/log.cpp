#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

namespace foresay::log {
namespace {

std::atomic<Level> g_level{Level::kInfo};
std::atomic<bool> g_prefix{true};
std::atomic<bool> g_timestamps{true};

std::shared_ptr<spdlog::logger> make_logger(const Options& options) {
    std::vector<spdlog::sink_ptr> sinks;
    if (options.colors) {
        sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    } else {
        sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());
    }
    if (!options.file.empty()) {
        try {
            sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file, false));
        } catch (const spdlog::spdlog_ex& e) {
            std::fprintf(stderr, "foresay: cannot open the log file '%s': %s\n", options.file.c_str(), e.what());
        }
    }
    auto logger = std::make_shared<spdlog::logger>("foresay", sinks.begin(), sinks.end());
    logger->set_pattern("%v");
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
    return logger;
}

std::shared_ptr<spdlog::logger>& logger() {
    static std::shared_ptr<spdlog::logger> instance = make_logger({});
    return instance;
}

const auto g_start = std::chrono::steady_clock::now();

}  // namespace

void configure(const Options& options) {
    g_level = options.level;
    g_prefix = options.prefix;
    g_timestamps = options.timestamps;
    logger() = make_logger(options);
}

Level level() {
    return g_level.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view line) {
    static constexpr spdlog::level::level_enum kLevels[] = {
        spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err, spdlog::level::off};
    static constexpr char kLetters[] = {'D', 'I', 'W', 'E', ' '};
    std::string text;
    if (g_timestamps) {
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - g_start;
        text += fmt::format("{:.3f} ", elapsed.count());
    }
    if (g_prefix) {
        text += kLetters[static_cast<size_t>(level)];
        text += ' ';
    }
    text += line;
    logger()->log(kLevels[static_cast<size_t>(level)], "{}", text);
}

}  // namespace foresay::log
