// eagle3: keys and tensors of the drafter's file; its graphs are in spec/drafters/draft_eagle3.cpp. Source:
// shared/spec/draft-models.md, 8.1 and 8.2.
#include <fmt/format.h>

#include "model/arch/common.h"

namespace foresay::model::arch {
namespace {

constexpr size_t kTaps = 3;  // low, mid, high

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_shared_hparams(file, graph::RopePairing::kNorm));
    FORESAY_CHECK_OK(read_drafter_hparams(file, h));
    if (h.drafter.target_layers.size() != kTaps) {
        return error(Code::kBadFile, fmt::format("{} tapped layers, expected 3", h.drafter.target_layers.size()),
                     "eagle3.target_layers");
    }
    if (h.n_layer != 1) {
        return error(Code::kUnsupported, fmt::format("{} layers: only one is supported", h.n_layer),
                     "eagle3.block_count");
    }
    if (h.head_dim_k[0] != h.head_dim_v[0]) {
        return error(Code::kBadFile, "key and value lengths differ", "eagle3.attention.value_length");
    }
    FORESAY_TRY(const uint32_t width, file.u32("eagle3.target_hidden_size"));
    if (width == 0 || width > (1U << 20)) {
        return error(Code::kBadFile, fmt::format("{} is impossible", width), "eagle3.target_hidden_size");
    }
    h.drafter.n_embd_target = static_cast<int32_t>(width);
    FORESAY_TRY(h.drafter.norm_before_residual, file.bool_or("eagle3.norm_before_residual", false));
    FORESAY_TRY(h.drafter.norm_before_fc, file.bool_or("eagle3.norm_before_fc", false));
    if (file.tensor("token_embd.weight") == nullptr && h.n_embd != h.drafter.n_embd_target) {
        return error(
            Code::kBadFile,
            fmt::format("width {} without an embedding of its own, but the target's is {} wide", h.n_embd, width),
            "token_embd.weight");
    }
    return h;
}

std::vector<WeightSpec> weights(const Hparams& h) {
    std::vector<WeightSpec> specs;
    const int64_t E = h.n_embd;
    const int64_t taps = int64_t{h.drafter.n_embd_target} * static_cast<int64_t>(kTaps);
    const auto matrix = [&](const char* name, int64_t in, int64_t out, bool optional = false) {
        specs.push_back({name, {in, out, 1, 1}, Use::kMulMat, optional});
    };
    const auto vector = [&](const char* name, int64_t n, bool optional = false) {
        specs.push_back({name, {n, 1, 1, 1}, Use::kVector, optional});
    };
    matrix("fc.weight", taps, E);
    vector("enc.output_norm.weight", taps, !h.drafter.norm_before_fc);
    specs.push_back({"token_embd.weight", {E, h.n_vocab, 1, 1}, Use::kEmbedding, true});
    matrix("output.weight", E, h.drafter.n_vocab_draft, true);
    vector("output_norm.weight", E);
    vector("rope_freqs.weight", h.rope.n_rot / 2, true);
    vector("blk.0.attn_norm.weight", E);
    vector("blk.0.attn_norm_2.weight", E);
    matrix("blk.0.attn_q.weight", 2 * E, int64_t{h.head_dim_k[0]} * h.n_head[0]);
    matrix("blk.0.attn_k.weight", 2 * E, int64_t{h.head_dim_k[0]} * h.n_head_kv[0]);
    matrix("blk.0.attn_v.weight", 2 * E, int64_t{h.head_dim_v[0]} * h.n_head_kv[0]);
    matrix("blk.0.attn_output.weight", int64_t{h.head_dim_v[0]} * h.n_head[0], E);
    vector("blk.0.ffn_norm.weight", E);
    matrix("blk.0.ffn_gate.weight", E, h.n_ff[0]);
    matrix("blk.0.ffn_up.weight", E, h.n_ff[0]);
    matrix("blk.0.ffn_down.weight", h.n_ff[0], E);
    return specs;
}

}  // namespace

extern const Architecture k_eagle3;
const Architecture k_eagle3{"eagle3", read_hparams, weights, nullptr};

}  // namespace foresay::model::arch
