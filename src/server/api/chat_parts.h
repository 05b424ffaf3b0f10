// A chat answer's text as its parts: thoughts, content, tool calls; and how the parts grow while the text streams.
// Must not know protocols. Source: shared/spec/server-api.md, sections 6.3 and 7.2.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foresay::server {

struct ToolCall {
    std::string id;
    std::string name;
    std::string arguments;  ///< JSON text
};

struct ChatParts {
    std::string reasoning;
    std::string content;
    std::vector<ToolCall> tool_calls;
};

/// Splits the whole text so far. is_partial: more may come, so what may be the beginning of a tag is left out.
using ChatParse = std::function<ChatParts(std::string_view text, bool is_partial)>;

/// Thoughts between <think> and </think> at the beginning of the text; thinks_first: the prompt has opened them
/// already.
ChatParse parse_thoughts(bool thinks_first);
/// All is content.
ChatParse parse_nothing();
/// Over another parse: <tool_call>{"name": ..., "arguments": {...}}</tool_call> in the content are calls (the form of
/// Qwen 2.5 and 3, Hermes and kin). A call comes whole, when its tag has closed; what isn't such an object stays
/// content.
ChatParse parse_tagged_calls(ChatParse inner);

/// What came since the last delta.
struct ChatDelta {
    std::string reasoning;
    std::string content;

    struct Call {
        size_t index = 0;
        std::optional<ToolCall> begin;  ///< id and name; its arguments are empty
        std::string arguments;
    };

    std::vector<Call> calls;

    bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

/// One choice's text while it grows.
class ChatText {
  public:
    explicit ChatText(ChatParse parse) : parse_(std::move(parse)) {}

    ChatDelta push(std::string_view text);
    /// The rest; parts() is then final.
    ChatDelta finish();

    const ChatParts& parts() const { return parts_; }

  private:
    ChatDelta grow(ChatParts now);

    ChatParse parse_;
    std::string text_;
    ChatParts parts_;  ///< as shown so far
};

}  // namespace foresay::server
