#include "cli/help.h"

#include <fmt/format.h>

#include <sstream>

#include "cli/flag_values.h"
#include "cli/parser.h"

#ifndef FORESAY_VERSION
#define FORESAY_VERSION "0.0.0"
#endif

namespace foresay::cli {
namespace {

constexpr size_t kIndent = 30;  // column of the help texts
constexpr size_t kWidth = 100;  // last column

/// Appends words to lines that begin at kIndent; `column` is where the first line stands already.
std::string wrapped(const std::string& text, size_t column) {
    std::string out;
    std::istringstream words(text);
    std::string word;
    bool is_first = true;
    while (words >> word) {
        if (!is_first && column + 1 + word.size() > kWidth) {
            out += '\n' + std::string(kIndent, ' ');
            column = kIndent;
            is_first = true;
        }
        if (!is_first) {
            out += ' ';
            ++column;
        }
        out += word;
        column += word.size();
        is_first = false;
    }
    return out;
}

std::string remark(const Flag& flag) {
    switch (flag.support) {
        case Support::kNoEffect:
            return fmt::format(" [no effect: {}]", flag.note);
        case Support::kUnsupported:
            return flag.note.empty() ? " [not supported yet]" : fmt::format(" [not supported yet: {}]", flag.note);
        case Support::kRenamed:
            return " [still works]";
        case Support::kRemoved:
            return " [refused]";
        case Support::kWorks:
            break;
    }
    return "";
}

}  // namespace

std::string flag_help(const Flag& flag) {
    std::string head = fmt::format("  {}", join(flag.names));
    if (!flag.negated.empty()) {
        head += fmt::format(", {}", join(flag.negated));
    }
    if (!flag.value.empty()) {
        head += ' ' + flag.value;
    }
    std::string body = flag.help;
    if (!flag.fallback.empty()) {
        body += fmt::format(" (default: {})", flag.fallback);
    }
    body += remark(flag);
    if (!flag.env.empty()) {
        body += fmt::format(" (env: {})", flag.env);
    }
    const bool fits = head.size() + 2 <= kIndent;
    head += fits ? std::string(kIndent - head.size(), ' ') : '\n' + std::string(kIndent, ' ');
    return head + wrapped(body, kIndent) + '\n';
}

std::string short_usage() {
    return "Usage: foresay COMMAND [FLAGS]\n"
           "       foresay FLAGS             the same as foresay serve FLAGS: llama-server's command lines work "
           "unchanged\n"
           "\n"
           "Commands:\n"
           "  serve      HTTP server, compatible with llama-server\n"
           "  run        one prompt, text on standard output, figures on standard error\n"
           "  inspect    what a GGUF file holds, and whether Foresay can use it\n"
           "  pair       whether a drafter fits a target, and the flags to start with\n"
           "  tokenize   a text's tokens\n"
           "  bench      the cost curve t(n) of a model, prompt speed, load time, peak memory\n"
           "  tune       measures settings of speculation beside plain decoding, prints the flags to use\n"
           "  doctor     why drafts are rejected or don't pay; --self-check proves strict = plain\n"
           "  help       help of a command: foresay help run\n"
           "  version    the version\n"
           "\n"
           "Run 'foresay --help' for all flags.\n";
}

std::string full_help(unsigned topic) {
    std::string out;
    if (topic == kAnyCommand) {
        out += short_usage();
    } else if (topic == kPair) {
        out += "Usage: foresay pair [FLAGS] TARGET [DRAFTER]\n";
    } else if (topic == kTune || topic == kDoctor) {
        out += fmt::format("Usage: foresay {} [FLAGS] TARGET [DRAFTER]\n", command_name(static_cast<Command>(topic)));
    } else if (topic == kInspect) {
        out += "Usage: foresay inspect [FLAGS] FILE...\n";
    } else {
        out += fmt::format("Usage: foresay {} [FLAGS]\n", command_name(static_cast<Command>(topic)));
    }
    out +=
        "\n--a_b is --a-b; --flag value and --flag=value are the same; the last use of a flag counts. A variable "
        "named\n"
        "LLAMA_ARG_X can also be named FORESAY_X; the command line goes before the environment. Flags marked [no "
        "effect]\n"
        "are accepted so that command lines of llama-server work; those marked [not supported yet] end with an "
        "error.\n";
    for (const FlagGroup& group : flag_groups()) {
        std::string body;
        for (const Flag& flag : group.flags) {
            if ((flag.commands & topic) != 0) {
                body += flag_help(flag);
            }
        }
        if (!body.empty()) {
            out += fmt::format("\n{}:\n{}", group.title, body);
        }
    }
    return out;
}

std::string version_text() {
#if defined(__clang__)
    const std::string compiler = fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
    const std::string compiler = fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
    return fmt::format("foresay {} ({}, x86-64)", FORESAY_VERSION, compiler);
}

}  // namespace foresay::cli
