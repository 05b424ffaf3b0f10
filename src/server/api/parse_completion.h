// The body of POST /completion to engine requests: a pure function, tested and fuzzed without HTTP or an engine.
// Must not know sockets or replies. Source: shared/spec/server-api.md, sections 4.1 to 4.3.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "vocab/vocab.h"

namespace foresay::server {

/// What the request's fields default to and are checked against.
struct ParseContext {
    std::shared_ptr<const vocab::Vocab> vocab;
    sampling::Params sampling;
    int32_t n_predict = -1;
    int32_t n_keep = 0;
    std::vector<std::string> stop;
    bool cache_prompt = true;
    int32_t sse_ping_interval_s = 30;
    int32_t n_slots = 1;
    size_t max_prompts = 256;  ///< in one request
};

/// How the answer is to look; nothing here reaches the engine.
struct ReplyOptions {
    bool stream = false;
    bool return_tokens = false;
    bool return_progress = false;
    bool timings_per_token = false;
    int32_t sse_ping_interval_s = 30;  ///< 0: never
    std::vector<std::string> response_fields;
};

struct CompletionRequest {
    std::vector<engine::Request>
        tasks;  ///< one per prompt, alike but for `prompt`, which may be empty (text "" without BOS)
    ReplyOptions reply;
};

/// Errors: invalid_argument (message names the field as the client spelt it), unsupported (a feature not there yet,
/// named). Threads: any.
Result<CompletionRequest> parse_completion(std::string_view body, const ParseContext& context);

}  // namespace foresay::server
