// What OpenAI's routes share: ids, usage, finish reasons, and the text form (POST /v1/completions).
// Source: shared/spec/server-api.md, sections 6.3, 7.1 and 7.2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/api/reply_style.h"

namespace foresay::server {

inline constexpr const char* kSystemFingerprint = "b1-foresay-0.1.0";  ///< clients test for the b

/// prefix and 32 letters and digits.
std::string random_id(std::string_view prefix);

/// Token counts of a reply, summed over its choices; a prompt with several choices counts once.
struct Usage {
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t completion_tokens = 0;
    int64_t accepted_tokens = 0;  ///< drafted tokens that stood
    int64_t rejected_tokens = 0;

    void add(const Completed& completed, bool counts_prompt);
    Json json() const;
};

/// "stop" or "length".
const char* finish_reason(engine::StopType type);

/// What all chunks of a reply share.
struct ReplyIdentity {
    std::string id;
    int64_t created = 0;
    std::string model;

    static ReplyIdentity make(std::string_view prefix, const FormatContext& context);
};

/// POST /v1/completions. n: choices per prompt.
std::unique_ptr<ReplyStyle> make_text_style(std::shared_ptr<const FormatContext> context, const ReplyOptions& reply);

/// {"content":[entries of 4.6]}; null when there are none.
Json format_logprobs(const std::vector<ProbEntry>& entries, bool post_sampling, const FormatContext& context);

}  // namespace foresay::server
