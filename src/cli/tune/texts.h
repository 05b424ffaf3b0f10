// The prompts of a tuning run: built-in ones by text class, or the user's. A prompt is handed out once.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foresay::cli::tune {

class PromptPool {
  public:
    void add(const std::string& text_class, std::string prompt) { prompts_[text_class].push_back(std::move(prompt)); }

    /// The next n prompts of a class that nobody has had; empty when fewer are left.
    std::vector<std::string> take(const std::string& text_class, size_t n);
    size_t left(const std::string& text_class) const;
    std::vector<std::string> classes() const;

  private:
    std::map<std::string, std::vector<std::string>> prompts_;
    std::map<std::string, size_t> taken_;
};

/// code, prose, chat, summary, extraction: in this order.
const std::vector<std::string>& builtin_classes();

/// The built-in prompts, all different, in an order that mixes kinds.
PromptPool builtin_prompts();

/// The user's prompts: JSON lines {"prompt": "...", "class": "..."} when the first byte is '{', else texts separated by
/// lines "---"; all of the class "own" where none is named. Errors: invalid_argument naming the line; no prompt at all.
Result<PromptPool> parse_prompts(std::string_view text);

}  // namespace foresay::cli::tune
