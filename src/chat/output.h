// A reply taken apart while it streams: thoughts, content, tool calls. What comes out in pieces is, put together, what
// comes out of the whole at once, wherever the pieces end. Must not know HTTP or engines. Read next: calls.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat.h"
#include "chat/syntax.h"

namespace foresay::chat {

/// --reasoning-format. kAuto is kDeepseek; kDeepseekLegacy leaves thoughts in the content as well.
enum class ReasoningFormat { kNone, kAuto, kDeepseek, kDeepseekLegacy };

/// A piece of a message. Calls come as one kCall (index, id, name), then kArguments (index, text).
struct Delta {
    enum class Kind { kReasoning, kContent, kCall, kArguments };

    Kind kind = Kind::kContent;
    std::string text;
    size_t index = 0;  ///< which call, from 0
    std::string id;
    std::string name;
};

struct Call {
    std::string id;
    std::string name;
    std::string arguments;  ///< JSON text
};

struct Message {
    std::string content;
    std::string reasoning;
    std::vector<Call> calls;

    /// Adds what a delta says.
    void add(const Delta& delta);
    /// {"role": "assistant", "content": ..., "reasoning_content"?: ..., "tool_calls"?: [...]}; content is null where
    /// there are calls and no text.
    Json to_json() const;
};

struct OutputOptions {
    Syntax syntax;
    bool starts_in_reasoning = false;  ///< Prompt::starts_in_reasoning
    ReasoningFormat reasoning_format = ReasoningFormat::kAuto;
    bool parse_calls = true;
    /// The chat's tools: the types of arguments that a model writes without quotes (CallForm::kXml).
    Json tools;
    std::string id_prefix;  ///< of made-up ids; for tests. Empty: random ids
};

class OutputParser {
  public:
    explicit OutputParser(OutputOptions options);
    OutputParser(OutputParser&&) noexcept;
    OutputParser& operator=(OutputParser&&) noexcept;
    ~OutputParser();

    /// Adds text of the reply (whole characters) and gives what is certain by now. Text that may be the beginning of a
    /// mark is held back.
    std::vector<Delta> push(std::string_view text);
    /// The end of the reply: gives what was held back. Text that began like a call and isn't one is content.
    std::vector<Delta> finish();
    /// All so far.
    const Message& message() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// The whole of a reply at once.
Message parse_output(std::string_view text, OutputOptions options);

}  // namespace foresay::chat
