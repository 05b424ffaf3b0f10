#include "cli/tune/texts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace foresay::cli::tune {
namespace {

constexpr size_t kMostPrompts = 100000;

Error bad_line(size_t line, std::string_view why) {
    return error(Code::kInvalidArgument, fmt::format("line {}: {}", line, why), "--prompts");
}

bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

/// The next line of the text, without its end; the text moves on.
std::string_view next_line(std::string_view* text) {
    const size_t end = text->find('\n');
    std::string_view line = text->substr(0, end);
    text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
    if (!line.empty() && line.back() == '\r') {
        line.remove_suffix(1);
    }
    return line;
}

Result<PromptPool> parse_json_lines(std::string_view text) {
    PromptPool pool;
    for (size_t n = 1; !text.empty(); ++n) {
        const std::string_view line = next_line(&text);
        if (is_blank(line)) {
            continue;
        }
        const auto json = nlohmann::json::parse(line, nullptr, false);
        if (!json.is_object() || !json.contains("prompt") || !json["prompt"].is_string()) {
            return bad_line(n, R"(not an object like {"prompt": "...", "class": "..."})");
        }
        if (json.contains("class") && !json["class"].is_string()) {
            return bad_line(n, "\"class\" is no text");
        }
        const std::string prompt = json["prompt"];
        if (is_blank(prompt)) {
            return bad_line(n, "the prompt is empty");
        }
        if (n > kMostPrompts) {
            return bad_line(n, "there are too many prompts");
        }
        pool.add(json.value("class", std::string("own")), prompt);
    }
    return pool;
}

Result<PromptPool> parse_blocks(std::string_view text) {
    PromptPool pool;
    std::string block;
    size_t n_blocks = 0;
    const auto end_block = [&] {
        while (!block.empty() && (block.back() == '\n' || block.back() == ' ')) {
            block.pop_back();
        }
        if (!is_blank(block)) {
            pool.add("own", block);
            ++n_blocks;
        }
        block.clear();
    };
    for (size_t n = 1; !text.empty(); ++n) {
        const std::string_view line = next_line(&text);
        if (line == "---") {
            end_block();
            if (n_blocks >= kMostPrompts) {
                return bad_line(n, "there are too many prompts");
            }
        } else if (!block.empty() || !is_blank(line)) {
            block += line;
            block += '\n';
        }
    }
    end_block();
    return pool;
}

}  // namespace

std::vector<std::string> PromptPool::take(const std::string& text_class, size_t n) {
    const auto found = prompts_.find(text_class);
    if (found == prompts_.end() || left(text_class) < n) {
        return {};
    }
    size_t& at = taken_[text_class];
    const auto begin = found->second.begin() + static_cast<std::ptrdiff_t>(at);
    at += n;
    return {begin, begin + static_cast<std::ptrdiff_t>(n)};
}

size_t PromptPool::left(const std::string& text_class) const {
    const auto found = prompts_.find(text_class);
    const auto taken = taken_.find(text_class);
    return found == prompts_.end() ? 0 : found->second.size() - (taken == taken_.end() ? 0 : taken->second);
}

std::vector<std::string> PromptPool::classes() const {
    std::vector<std::string> names;
    for (const auto& [name, prompts] : prompts_) {
        names.push_back(name);
    }
    return names;
}

Result<PromptPool> parse_prompts(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) {
        return error(Code::kInvalidArgument, "the file holds no prompt", "--prompts");
    }
    FORESAY_TRY(PromptPool pool, text[first] == '{' ? parse_json_lines(text) : parse_blocks(text));
    if (pool.classes().empty()) {
        return error(Code::kInvalidArgument, "the file holds no prompt", "--prompts");
    }
    return pool;
}

}  // namespace foresay::cli::tune
