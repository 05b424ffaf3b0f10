// gemma4-assistant: keys and tensors of the drafter that reads its target's keys and values; its graph is in
// spec/drafters/draft_assistant.cpp. Source: shared/spec/draft-models.md, 5.1 and 5.2.
#include <fmt/format.h>

#include <cmath>

#include "model/arch/common.h"

namespace foresay::model::arch {
namespace {

constexpr const char* kPrefix = "gemma4-assistant.";

Result<int32_t> required(const gguf::File& file, const char* name, uint32_t low, uint32_t high) {
    const std::string key = std::string(kPrefix) + name;
    FORESAY_TRY(const uint32_t value, file.u32(key));
    if (value < low || value > high) {
        return error(Code::kBadFile, fmt::format("{} is outside {}..{}", value, low, high), key);
    }
    return static_cast<int32_t>(value);
}

/// Head sizes and rotation of sliding layers.
Status read_sliding_heads(const gguf::File& file, Hparams& h) {
    FORESAY_TRY(h.sliding_window, required(file, "attention.sliding_window", 1, 1U << 30));
    FORESAY_CHECK_OK(read_sliding_pattern(file, 1, h));
    FORESAY_TRY(const int32_t key, required(file, "attention.key_length_swa", 2, 8192));
    FORESAY_TRY(const int32_t value, required(file, "attention.value_length_swa", 2, 8192));
    for (size_t layer = 0; layer < h.is_sliding.size(); ++layer) {
        if (h.is_sliding[layer]) {
            h.head_dim_k[layer] = key;
            h.head_dim_v[layer] = value;
        }
        if (h.head_dim_k[layer] != h.head_dim_v[layer]) {
            return error(Code::kBadFile, "keys and values differ in size", "gemma4-assistant.attention.value_length");
        }
    }
    const std::string rot_key = std::string(kPrefix) + "rope.dimension_count_swa";
    FORESAY_TRY(const uint32_t n_rot, file.u32_or(rot_key, static_cast<uint32_t>(key)));
    FORESAY_TRY(h.rope_sliding.base, file.f32_or(std::string(kPrefix) + "rope.freq_base_swa", 10000.0F));
    if (n_rot < 2 || n_rot % 2 != 0 || n_rot > static_cast<uint32_t>(key) || !(h.rope_sliding.base > 1.0F) ||
        !std::isfinite(h.rope_sliding.base)) {
        return error(Code::kBadFile, "the rotation of sliding layers is impossible", rot_key);
    }
    h.rope_sliding.n_rot = static_cast<int32_t>(n_rot);
    return ok();
}

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNeox, true));
    FORESAY_CHECK_OK(read_sliding_heads(file, h));
    FORESAY_TRY(h.drafter.n_embd_target, required(file, "embedding_length_out", 1, 1U << 20));
    if (h.drafter.n_embd_target == h.n_embd) {
        return error(Code::kBadFile, "the drafter's width and the target's are the same",
                     "gemma4-assistant.embedding_length_out");
    }
    FORESAY_TRY(const uint32_t nextn,
                file.u32_or(std::string(kPrefix) + "nextn_predict_layers", static_cast<uint32_t>(h.n_layer)));
    if (nextn != static_cast<uint32_t>(h.n_layer)) {
        return error(Code::kBadFile, fmt::format("{} of {} layers draft: all must", nextn, h.n_layer),
                     "gemma4-assistant.nextn_predict_layers");
    }
    h.attention_scale = 1.0F;
    return h;
}

std::vector<WeightSpec> weights(const Hparams& h) {
    std::vector<WeightSpec> specs;
    const int64_t E = h.n_embd;
    const int64_t B = h.drafter.n_embd_target;
    const auto matrix = [&](std::string name, int64_t in, int64_t out) {
        specs.push_back({std::move(name), {in, out, 1, 1}, Use::kMulMat, false});
    };
    const auto vector = [&](std::string name, int64_t n, bool optional = false) {
        specs.push_back({std::move(name), {n, 1, 1, 1}, Use::kVector, optional});
    };
    matrix("token_embd.weight", E, h.n_vocab);  // only the head: the target embeds
    matrix("nextn.pre_projection.weight", 2 * B, E);
    matrix("nextn.post_projection.weight", E, B);
    vector("output_norm.weight", E);
    vector("rope_freqs.weight", h.rope.n_rot / 2, true);
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        const auto l = static_cast<size_t>(layer);
        const auto name = [&](const char* part) { return fmt::format("blk.{}.{}.weight", layer, part); };
        const int64_t q_width = int64_t{h.head_dim_k[l]} * h.n_head[l];
        vector(name("attn_norm"), E);
        matrix(name("attn_q"), E, q_width);
        vector(name("attn_q_norm"), h.head_dim_k[l]);
        matrix(name("attn_output"), q_width, E);
        vector(name("post_attention_norm"), E);
        vector(name("ffn_norm"), E);
        matrix(name("ffn_gate"), E, h.n_ff[l]);
        matrix(name("ffn_up"), E, h.n_ff[l]);
        matrix(name("ffn_down"), h.n_ff[l], E);
        vector(name("post_ffw_norm"), E);
        vector(name("layer_output_scale"), 1);
    }
    return specs;
}

}  // namespace

extern const Architecture k_gemma4_assistant;
const Architecture k_gemma4_assistant{"gemma4-assistant", read_hparams, weights, nullptr};

}  // namespace foresay::model::arch
