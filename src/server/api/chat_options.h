// What the server's flags say about chats. Source: shared/spec/server-api.md, section 7.2.
#pragma once

namespace foresay::server {

struct ChatOptions {
    bool jinja = true;              ///< --no-jinja: no tools
    bool prefill_assistant = true;  ///< a last message of the assistant is continued
};

}  // namespace foresay::server
