#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "cli/commands/commands.h"
#include "cli/flag_values.h"
#include "cli/parser.h"

namespace foresay::cli {

Result<std::string> prompt_text(const LocalOptions& options) {
    std::string text = options.prompt;
    if (options.prompt_file == "-") {
        // A file's text is taken as it is: escapes are for what a shell makes awkward to type.
        return std::string(std::istreambuf_iterator<char>(std::cin), {});
    }
    if (!options.prompt_file.empty()) {
        return read_text_file(options.prompt_file);
    }
    return options.escape ? unescape(text) : text;
}

std::string human_bytes(uint64_t bytes) {
    const double value = static_cast<double>(bytes);
    if (bytes < 1024) {
        return fmt::format("{} B", bytes);
    }
    if (bytes < (uint64_t{1} << 20)) {
        return fmt::format("{:.1f} KiB", value / 1024.0);
    }
    if (bytes < (uint64_t{1} << 30)) {
        return fmt::format("{:.1f} MiB", value / (1024.0 * 1024.0));
    }
    return fmt::format("{:.2f} GiB", value / (1024.0 * 1024.0 * 1024.0));
}

std::string human_count(uint64_t count) {
    const double value = static_cast<double>(count);
    if (count >= 1000000000) {
        return fmt::format("{:.2f} B", value / 1e9);
    }
    return count >= 1000000 ? fmt::format("{:.0f} M", value / 1e6) : fmt::format("{}", count);
}

}  // namespace foresay::cli
