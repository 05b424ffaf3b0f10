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
#include "server/api/json.h"
#include "server/api/parse_grammar.h"
#include "vocab/vocab.h"

namespace foresay::server {

class ReplyStyle;

/// What the request's fields default to and are checked against.
struct ParseContext {
    std::shared_ptr<const vocab::Vocab> vocab;
    sampling::Params sampling;
    int32_t n_predict = -1;
    int32_t n_keep = 0;
    std::vector<std::string> stop;
    bool cache_prompt = true;
    int32_t n_cache_reuse = 0;
    int32_t embd_normalize = 2;
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
    bool include_usage = false;        ///< stream_options.include_usage
    bool verbose = false;              ///< OpenAI replies carry the native object too
    int32_t n_choices = 1;             ///< per prompt
    int32_t sse_ping_interval_s = 30;  ///< 0: never
    std::vector<std::string> response_fields;
    std::string chat_format = "Content-only";  ///< of a chat's calls
    std::string reasoning_format = "none";
};

struct CompletionRequest {
    /// n_choices per prompt, one prompt after the other; `prompt` may be empty (text "" without BOS).
    std::vector<engine::Request> tasks;
    ReplyOptions reply;
    std::shared_ptr<ReplyStyle> style;  ///< set by the route
};

/// The fields that every completion route takes, without the prompt: one task. body: the text that object was read
/// from. Errors: invalid_argument (message names the field as the client spelt it), unsupported (a feature not there
/// yet, named). Threads: any.
Result<CompletionRequest> parse_fields(const JsonIn& object, std::string_view body, const ParseContext& context,
                                       GrammarRule rule = GrammarRule::kGrammarWins);
/// Gives the request its prompts: multiplies its one task by them and by the choices, with a seed for each choice.
void set_prompts(CompletionRequest* request, std::vector<std::vector<vocab::TokenId>> prompts);
/// POST /completion: fields and `prompt`; parse_completion from the body's text.
Result<CompletionRequest> parse_native(const JsonIn& object, std::string_view body, const ParseContext& context);
Result<CompletionRequest> parse_completion(std::string_view body, const ParseContext& context);
/// POST /v1/completions: the same with OpenAI's names; what can't be served is refused.
Result<CompletionRequest> parse_text_completion(const JsonIn& object, std::string_view body,
                                                const ParseContext& context);

}  // namespace foresay::server
