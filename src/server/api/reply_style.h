// How an answer looks on the wire: one class per protocol (native here; OpenAI's text form in openai_text.h). A style
// turns what a completion job gathers into events and objects; it knows no engine calls and no sockets. I/O thread
// only. Source: shared/spec/server-api.md, sections 6 and 7.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/errors.h"
#include "server/api/format_completion.h"

namespace foresay::server {

class ReplyStyle {
  public:
    virtual ~ReplyStyle() = default;

    /// The bytes of one piece of a stream; empty: no event.
    virtual std::string partial(const Partial& partial, const engine::Request& request) = 0;
    virtual std::string progress(const Partial& partial, const Progress& progress);
    /// The end of one choice; completed.content is the whole text (a style that has streamed it doesn't repeat it).
    virtual std::string final_event(const Completed& completed) = 0;

    /// After the last choice: sums, sentinels.
    virtual std::string stream_end() { return {}; }

    /// An error after the stream has begun.
    virtual std::string error_event(const ApiError& error);
    /// The body of a reply that isn't streamed, one element per choice.
    virtual Json whole(const std::vector<Completed>& choices) = 0;
};

/// POST /completion and /infill: sections 4.4 and 6.2.
std::unique_ptr<ReplyStyle> make_native_style(std::shared_ptr<const FormatContext> context);

/// "data: {...}" and the blank line.
std::string sse(const Json& event);

}  // namespace foresay::server
