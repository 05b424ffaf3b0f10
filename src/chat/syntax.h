// How a model writes thoughts and tool calls: tables of the forms in use, and which one a template stands for.
// Must not know clients. Read next: output.h, which takes replies apart by this.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foresay::chat {

/// The marks around thoughts.
struct ThinkTags {
    std::string_view open;
    std::string_view close;
};

enum class CallForm {
    kJson,       ///< {"name": ..., "arguments": ...}, or a list of these
    kNamedJson,  ///< name, a mark, then the arguments as JSON
    kXml,        ///< name, then each argument between marks of its own
    kHarmony     ///< gpt-oss: a channel per kind of text, the name in the message's head
};

/// One way of writing calls. A mark that isn't used is empty.
struct CallSyntax {
    std::string_view name = {};
    CallForm form = CallForm::kJson;
    /// A template that has all of these texts writes calls so.
    std::string_view markers[2] = {};
    std::string_view section_open = {};  ///< around all calls
    std::string_view section_close = {};
    std::string_view open = {};  ///< before one call, or a list of them in JSON
    std::string_view close = {};
    // kJson; an empty name_key: the object's one key is the name, its value the arguments.
    std::string_view name_key = "name";
    std::string_view arguments_key = "arguments";
    std::string_view id_key = "id";
    // kNamedJson, kXml
    std::string_view name_close = {};  ///< kXml: empty means that the name ends at the next '<' or newline
    std::string_view id_open = {};     ///< between name and name_close: the mark before an id
    // kXml
    std::string_view argument_open = {};
    std::string_view argument_name_close = {};
    std::string_view argument_tag_close = {};  ///< where the opening tag ends, behind further attributes
    std::string_view value_open = {};          ///< between name and value
    std::string_view argument_close = {};
    bool is_bare = false;       ///< a reply that begins with the JSON itself is a call (Llama 3)
    bool opens_prompt = false;  ///< the prompt has written the first `open` (functionary 3.2)
    bool opens_alone = false;   ///< `open` counts without section_open as well
    int id_length = 0;          ///< of ids that are made up; 0: the usual
};

/// What a template says about replies. Pointers are into tables of the program.
struct Syntax {
    const ThinkTags* think = nullptr;   ///< null: no thoughts
    const CallSyntax* calls = nullptr;  ///< null: no tools in this chat

    /// Marks that the detokenizer must show though they may be control tokens.
    std::vector<std::string> preserved_tokens() const;
    /// "hermes", "mistral", ..., "content-only": chat_format in generation_settings.
    std::string_view name() const;
};

/// By the texts in a template's source.
const ThinkTags* think_tags_of(std::string_view source);
/// The form of calls that a template asks for; the form of Hermes if it names none.
const CallSyntax* call_syntax_of(std::string_view source);
/// A form by name; null if there is none. For tests and for callers that tell a model themselves how to call.
const CallSyntax* call_syntax(std::string_view name);
std::span<const CallSyntax> call_syntaxes();

}  // namespace foresay::chat
