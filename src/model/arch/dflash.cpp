// dflash: keys and tensors of the drafter's file, also with a Markov head (draft-dspark) or convolutions and selector
// (DFlash2); its graphs are in spec/drafters/draft_dflash.cpp. Source:
// shared/spec/draft-models.md, 9.1, 9.2, 9.6, 10.1.
#include <fmt/format.h>

#include <algorithm>

#include "model/arch/common.h"

namespace foresay::model::arch {
namespace {

constexpr uint32_t kMaxBlock = 4096;

/// DFlash2's keys, present when the file has its selector.
Status read_selector(const gguf::File& file, Hparams& h) {
    if (file.tensor("selector_hidden.weight") == nullptr) {
        return ok();
    }
    const auto take = [&](const char* key, int64_t high, int32_t* to) -> Status {
        FORESAY_TRY(const uint32_t value, file.u32(key));
        if (value == 0 || value > high) {
            return error(Code::kBadFile, fmt::format("{} is outside 1..{}", value, high), key);
        }
        *to = static_cast<int32_t>(value);
        return ok();
    };
    FORESAY_CHECK_OK(take("dflash.conv_kernel_size", 64, &h.drafter.conv_kernel));
    FORESAY_CHECK_OK(take("dflash.conv_group_size", h.n_embd, &h.drafter.conv_group));
    FORESAY_CHECK_OK(take("dflash.selector_rank", 1 << 16, &h.drafter.selector_rank));
    FORESAY_CHECK_OK(take("dflash.selector_top_k", std::min<int64_t>(h.n_vocab, 1024), &h.drafter.selector_top_k));
    if (h.n_embd % h.drafter.conv_group != 0) {
        return error(Code::kBadFile, fmt::format("groups of {} don't divide {}", h.drafter.conv_group, h.n_embd),
                     "dflash.conv_group_size");
    }
    return ok();
}

/// Text rows have one position: only the fourth section of M-RoPE would see another one.
Status check_sections(const gguf::File& file) {
    const char* const key = "dflash.rope.dimension_sections";
    if (file.find(key) == nullptr) {
        return ok();
    }
    FORESAY_TRY(const auto sections, file.i64_array(key));
    if (sections.size() > 3 && sections[3] != 0) {
        return error(Code::kUnsupported, "a fourth section of rotated dimensions is not supported", key);
    }
    return ok();
}

Status read_heads(const gguf::File& file, Hparams& h) {
    DrafterHparams& d = h.drafter;
    FORESAY_TRY(const uint32_t block, file.u32_or("dflash.block_size", 16));
    const gguf::TensorInfo* markov = file.tensor("markov_w1.weight");
    if (block < 2 || block > kMaxBlock) {
        return error(Code::kBadFile, fmt::format("{} is outside 2..{}", block, kMaxBlock), "dflash.block_size");
    }
    d.block_size = static_cast<int32_t>(block);
    if (markov != nullptr) {
        FORESAY_TRY([[maybe_unused]] const uint32_t required, file.u32("dflash.block_size"));
        if (markov->ne[0] < 1 || markov->ne[0] > (1 << 16)) {
            return error(Code::kBadFile, fmt::format("rank {} is impossible", markov->ne[0]), "markov_w1.weight");
        }
        d.markov_rank = static_cast<int32_t>(markov->ne[0]);
    }
    FORESAY_TRY(d.sample_from_anchor, file.bool_or("dflash.sample_from_anchor", true));
    FORESAY_TRY(const uint32_t mask, file.u32("tokenizer.ggml.mask_token_id"));
    if (mask >= static_cast<uint32_t>(h.n_vocab)) {
        return error(Code::kBadFile, fmt::format("token {} is outside the vocabulary of {}", mask, h.n_vocab),
                     "tokenizer.ggml.mask_token_id");
    }
    d.mask_token = static_cast<int32_t>(mask);
    return ok();
}

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNeox));
    FORESAY_CHECK_OK(read_drafter_hparams(file, h));
    DrafterHparams& d = h.drafter;
    d.n_embd_target = h.n_embd;
    if (h.head_dim_k[0] != h.head_dim_v[0]) {
        return error(Code::kBadFile, "key and value lengths differ", "dflash.attention.value_length");
    }
    FORESAY_TRY(const uint32_t streams, file.u32_or("dflash.hyper_connection.count", 0));
    if (streams > 0) {
        return error(Code::kUnsupported, "a backbone with hyper-connections is not supported",
                     "dflash.hyper_connection.count");
    }
    FORESAY_CHECK_OK(check_sections(file));
    FORESAY_CHECK_OK(read_heads(file, h));
    FORESAY_CHECK_OK(read_selector(file, h));
    FORESAY_TRY(d.causal, file.bool_or("dflash.attention.causal", false));
    FORESAY_TRY(h.attention_scale, file.f32_or("dflash.attention.scale", 0.0F));
    FORESAY_TRY(d.value_scale, file.f32_or("dflash.attention.value_scale", 1.0F));
    FORESAY_TRY(h.embedding_scale, file.f32_or("dflash.embedding_scale", 1.0F));
    FORESAY_TRY(d.logit_scale, file.f32_or("dflash.logit_scale", 0.0F));
    FORESAY_TRY(h.final_softcap, file.f32_or("dflash.final_logit_softcapping", 0.0F));
    FORESAY_TRY(const auto activation, file.string_or("dflash.hidden_activation", "silu"));
    if (activation != "silu" && activation != "gelu" && activation != "gelu_pytorch_tanh") {
        return error(Code::kUnsupported, fmt::format("activation '{}' is not supported", activation),
                     "dflash.hidden_activation");
    }
    d.gelu = activation != "silu";
    FORESAY_TRY(const uint32_t window, file.u32_or("dflash.attention.sliding_window", 0));
    if (window > (1U << 30)) {
        return error(Code::kBadFile, fmt::format("window {} is impossible", window), "dflash.attention.sliding_window");
    }
    h.sliding_window = static_cast<int32_t>(window);
    if (window > 0 && file.find("dflash.attention.sliding_window_pattern") != nullptr) {
        FORESAY_CHECK_OK(read_sliding_pattern(file, 1, h));
    }
    h.rope_sliding = h.rope;
    return h;
}

std::vector<WeightSpec> weights(const Hparams& h) {
    std::vector<WeightSpec> specs;
    const DrafterHparams& d = h.drafter;
    const int64_t E = h.n_embd;
    const auto matrix = [&](std::string name, int64_t in, int64_t out, bool optional = false) {
        specs.push_back({std::move(name), {in, out, 1, 1}, Use::kMulMat, optional});
    };
    const auto vector = [&](std::string name, int64_t n, bool optional = false) {
        specs.push_back({std::move(name), {n, 1, 1, 1}, Use::kVector, optional});
    };
    const auto table = [&](std::string name, int64_t width, int64_t n, bool optional = false) {
        specs.push_back({std::move(name), {width, n, 1, 1}, Use::kEmbedding, optional});
    };
    matrix("fc.weight", E * static_cast<int64_t>(d.target_layers.size()), E);
    vector("enc.output_norm.weight", E);
    vector("output_norm.weight", E);
    table("token_embd.weight", E, h.n_vocab, true);
    matrix("output.weight", E, d.n_vocab_draft, true);
    vector("rope_freqs.weight", h.rope.n_rot / 2, true);
    if (d.markov_rank > 0) {
        table("markov_w1.weight", d.markov_rank, h.n_vocab);
        matrix("markov_w2.weight", d.markov_rank, d.n_vocab_draft);
    }
    if (d.selector_rank > 0) {
        table("selector_predecessor.weight", d.selector_rank, h.n_vocab);
        table("selector_successor.weight", d.selector_rank, h.n_vocab);
        matrix("selector_hidden.weight", E, d.selector_rank);
    }
    for (int32_t layer = 0; layer < h.n_layer; ++layer) {
        const auto l = static_cast<size_t>(layer);
        const auto name = [&](const char* part) { return fmt::format("blk.{}.{}.weight", layer, part); };
        const int64_t D = h.head_dim_k[l];
        vector(name("attn_norm"), E);
        matrix(name("attn_q"), E, D * h.n_head[l]);
        matrix(name("attn_k"), E, D * h.n_head_kv[l]);
        matrix(name("attn_v"), E, D * h.n_head_kv[l], true);
        matrix(name("attn_output"), D * h.n_head[l], E);
        vector(name("attn_q_norm"), D);
        vector(name("attn_k_norm"), D);
        vector(name("post_attention_norm"), E, true);
        vector(name("post_ffw_norm"), E, true);
        vector(name("attn_sinks"), h.n_head[l], true);
        vector(name("ffn_norm"), E);
        matrix(name("ffn_gate"), E, h.n_ff[l]);
        matrix(name("ffn_up"), E, h.n_ff[l]);
        matrix(name("ffn_down"), h.n_ff[l], E);
        if (d.conv_kernel > 0) {
            const int64_t n_factors = int64_t{2} * d.conv_kernel * (E / d.conv_group);
            matrix(name("attn_conv_proj"), E, n_factors);
            matrix(name("ffn_conv_proj"), E, n_factors);
        }
    }
    return specs;
}

}  // namespace

extern const Architecture k_dflash;
const Architecture k_dflash{"dflash", read_hparams, weights, nullptr};

}  // namespace foresay::model::arch
