// Replies of the completion route: final object, stream events, timings, probabilities. Pure functions; no engine, no
// sockets. Internal to server/api. Source: shared/spec/server-api.md, sections 4.4 to 4.6 and 6.2.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/api/json.h"
#include "server/api/parse_completion.h"

namespace foresay::server {

/// What every reply needs of the server.
struct FormatContext {
    std::shared_ptr<const vocab::Vocab> vocab;
    std::string model_name;
    std::string spec_types;
    engine::SpecOptions spec;
};

/// One emitted token's probabilities (n_probs > 0).
struct ProbEntry {
    engine::TokenProb chosen;
    std::vector<engine::TokenProb> top;
};

/// What the page shows of a token.
struct MarkEntry {
    vocab::TokenId id = 0;
    engine::TokenKind kind = engine::TokenKind::kPlain;
    engine::TokenMark mark;
};

/// One stream event before it becomes JSON.
struct Partial {
    size_t index = 0;
    std::string content;
    std::vector<vocab::TokenId> tokens;
    int slot = -1;
    int32_t n_predicted = 0;
    int32_t n_evaluated = 0;
    size_t text_offset = 0;  ///< bytes of the text before this piece
    std::vector<ProbEntry> probs;
    std::vector<MarkEntry> marks;            ///< with `marks`, one for each token
    std::optional<engine::Timings> timings;  ///< with timings_per_token
};

struct Progress {
    int32_t total = 0;
    int32_t cache = 0;
    int32_t processed = 0;
    double time_ms = 0.0;
};

/// All that is known of one prompt's completion at its end.
struct Completed {
    size_t index = 0;
    const engine::Request* request = nullptr;
    const ReplyOptions* reply = nullptr;
    const engine::Final* result = nullptr;
    std::string content;                 ///< empty in a stream
    std::vector<vocab::TokenId> tokens;  ///< empty unless return_tokens
    std::vector<ProbEntry> probs;
};

Json format_timings(const engine::Timings& timings);
Json format_probs(const std::vector<ProbEntry>& entries, bool post_sampling, const vocab::Vocab& vocab);
Json format_partial(const Partial& partial, bool post_sampling_probs, const FormatContext& context);
Json format_progress(const Partial& partial, const Progress& progress);
/// response_fields applied.
Json format_final(const Completed& completed, const FormatContext& context);

/// What a non-streamed reply keeps of its entries: the tokens of the stop word that ended it are cut.
void cut_stop_word(std::vector<ProbEntry>* entries, const engine::Final& result, const vocab::Vocab& vocab);

/// Only these keys; "a/b" lifts a nested value to a key spelt "a/b"; missing ones are skipped.
Json select_fields(const Json& object, const std::vector<std::string>& fields);

/// The longest prefix that is whole UTF-8 characters.
std::string_view valid_utf8_prefix(std::string_view text);

}  // namespace foresay::server
