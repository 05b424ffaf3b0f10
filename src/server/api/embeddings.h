// POST /embedding(s) and /v1/embeddings: parsing, norms, replies. Pure functions; embedding_job.h runs them.
// Source: shared/spec/server-api.md, section 8.2.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "server/api/json.h"
#include "server/api/parse_completion.h"

namespace foresay::server {

struct EmbeddingRequest {
    std::vector<std::vector<vocab::TokenId>> prompts;
    bool is_openai = false;
    bool is_base64 = false;
    int32_t normalize = 2;  ///< -1 none, 0 largest is 32760, 1 taxicab, 2 euclidean, p: p-norm
    std::string model;      ///< as the client named it
};

/// Errors: invalid_argument (missing or wrong input, an empty one, encoding_format), naming the field.
Result<EmbeddingRequest> parse_embedding(std::string_view body, bool is_openai, engine::Pooling pooling,
                                         const ParseContext& context);

/// One vector in place.
void normalize_embedding(std::span<float> values, int32_t how);

/// Little-endian 32-bit floats.
std::string base64_floats(std::span<const float> values);

/// embeddings[i]: the rows of prompt i, n_embd values each, as the engine gave them.
Json format_embeddings(const EmbeddingRequest& request, const std::vector<std::vector<float>>& embeddings,
                       int32_t n_embd, engine::Pooling pooling);

}  // namespace foresay::server
