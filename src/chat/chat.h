// From the messages of a chat to the prompt of a model, by the model's own template or a built-in format.
// Owns templates, their abilities and the shape of messages. Must not know HTTP, engines or tokenizers.
// Read next: messages.h (what clients send), builtin.h (formats without a template), output.h (replies taken apart).
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/jinja/template.h"
#include "chat/syntax.h"

namespace foresay::chat {

/// Key order matters to templates: they print tools and arguments. (sorted nlohmann::json would change prompts.)
using Json = nlohmann::ordered_json;

/// What a template can do, found by trying it when it is loaded. As in /props, chat_template_caps.
struct Abilities {
    bool tools = false;
    bool tool_calls = false;
    bool parallel_tool_calls = false;
    bool system_role = false;
    bool string_content = false;
    bool typed_content = false;
    bool object_arguments = false;
    bool preserve_reasoning = false;
    bool reasoning_effort = false;

    /// {"supports_tools": true, ...}
    Json to_json() const;
};

/// Where a chat's template comes from, and what the model's vocabulary adds.
struct Source {
    std::string model_template;  ///< tokenizer.chat_template; may be empty
    /// tokenizer.chat_template.NAME of the file. "tool_use" is taken for requests with tools.
    std::vector<std::pair<std::string, std::string>> named;
    /// --chat-template NAME|TEXT, or the text of --chat-template-file; empty: the model's. A name is one of
    /// builtin_names() or of `named`.
    std::string chosen;
    bool jinja = true;  ///< --no-jinja: built-in formats only
    std::string bos_token;
    std::string eos_token;
    bool adds_bos = false;         ///< tokenising adds BOS: a template's own is taken off the prompt
    Json kwargs = Json::object();  ///< --chat-template-kwargs
};

enum class Continue { kNo, kContent, kReasoning };
enum class ToolChoice { kAuto, kNone, kRequired };

/// One chat, as OpenAI's clients send it.
struct Request {
    Json messages = Json::array();
    Json tools;  ///< a list, or null
    ToolChoice tool_choice = ToolChoice::kAuto;
    /// Absent: true. With an explicit true, continue_final must be kNo.
    std::optional<bool> add_generation_prompt;
    Continue continue_final = Continue::kNo;
    bool prefill_assistant = true;  ///< --prefill-assistant: a trailing assistant message is continued
    Json kwargs = Json::object();   ///< chat_template_kwargs: variables for the template, over the server's
    std::string reasoning_effort;   ///< a variable for the template; "none" turns thinking off
    std::optional<bool> enable_thinking;
    std::optional<bool> parallel_tool_calls;
};

struct Prompt {
    /// For a tokenizer that parses special tokens, and adds BOS if Source::adds_bos.
    std::string text;
    /// How to take the reply apart.
    Syntax syntax;
    /// The prompt ends inside the model's thoughts: the reply begins with them.
    bool starts_in_reasoning = false;
    /// Strings that end the reply beside the model's end tokens.
    std::vector<std::string> stops;
};

/// Whether the text is an object of variables for templates. Errors: invalid_argument.
Status check_kwargs(std::string_view text);

class Templates {
  public:
    /// Parses the template and tries what it can do. Errors: the template's syntax, with line and column; --no-jinja
    /// with a template that no built-in format fits ("the supplied chat template is not supported: X").
    static Result<Templates> create(Source source);

    Templates(Templates&&) noexcept;
    Templates& operator=(Templates&&) noexcept;
    ~Templates();

    /// Errors: invalid_argument (a client's mistake, or the template's own exception), capacity (a template's limit).
    /// Threads: const, any number of callers.
    Result<Prompt> render(const Request& request) const;

    const Abilities& abilities() const;
    /// The text of the template, or the name of the built-in format.
    const std::string& description() const;
    /// The text of the template for chats with tools; empty: the same as without.
    std::string_view tool_use() const;
    bool uses_jinja() const;

  private:
    struct Impl;
    explicit Templates(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace foresay::chat
