#include "model/hparams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foresay::model {
namespace {

// No published model comes near these; a file that claims more is broken, and the products below stay far from
// overflow.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxHeads = 1 << 14;
constexpr int64_t kMaxExperts = 4096;

Result<int32_t> bounded(int64_t value, int64_t low, int64_t high, const std::string& key) {
    if (value < low || value > high) {
        return error(Code::kBadFile, fmt::format("{} is outside {}..{}", value, low, high), key);
    }
    return static_cast<int32_t>(value);
}

Result<std::vector<int32_t>> per_layer(const gguf::File& file, const std::string& key, int32_t n_layer,
                                       int64_t fallback, int64_t low, int64_t high) {
    FORESAY_TRY(const auto values, file.i64_scalar_or_array(key, static_cast<size_t>(n_layer), fallback));
    std::vector<int32_t> result;
    for (int32_t layer = 0; layer < n_layer; ++layer) {
        FORESAY_TRY(const int32_t value, bounded(values[static_cast<size_t>(layer)], low, high, key));
        result.push_back(value);
    }
    return result;
}

/// Linear and YaRN scaling (section 2.4: R4 to R6) into params. n_ctx_train: the default of the original context.
Status read_rope_scaling(const gguf::File& file, const std::string& prefix, int32_t n_ctx_train,
                         graph::RopeParams& params) {
    FORESAY_TRY(const auto type, file.string_or(prefix + "rope.scaling.type", "linear"));
    FORESAY_TRY(float factor, file.f32_or(prefix + "rope.scaling.factor", 0.0F));
    if (factor == 0.0F) {
        FORESAY_TRY(factor, file.f32_or(prefix + "rope.scale_linear", 0.0F));
    }
    FORESAY_TRY(const float attn_factor, file.f32_or(prefix + "rope.scaling.attn_factor", 1.0F));
    if (!std::isfinite(factor) || factor < 0.0F) {
        return error(Code::kBadFile, fmt::format("{} is not a usable factor", factor), prefix + "rope.scaling.factor");
    }
    if (factor == 0.0F) {
        factor = 1.0F;
    }
    if (type == "none") {
        return ok();
    }
    if (type == "linear") {
        params.freq_scale = 1.0F / factor;
        return ok();
    }
    if (type == "longrope") {
        params.magnitude = attn_factor;
        return ok();
    }
    if (type == "yarn") {
        FORESAY_TRY(const uint32_t original,
                    file.u32_or(prefix + "rope.scaling.original_context_length", static_cast<uint32_t>(n_ctx_train)));
        const double log_base = 2.0 * std::log(static_cast<double>(params.base));
        const auto corr = [&](double beta) {
            return params.n_rot * std::log(original / (2.0 * M_PI * beta)) / log_base;
        };
        params.yarn = 1;
        params.freq_scale = 1.0F / factor;
        params.yarn_lo = static_cast<float>(std::max(0.0, std::floor(corr(32.0))));
        params.yarn_hi = static_cast<float>(std::min(params.n_rot - 1.0, std::ceil(corr(1.0))));
        params.magnitude = static_cast<float>((1.0 + 0.1 * std::log(static_cast<double>(factor))) * attn_factor);
        return ok();
    }
    return error(Code::kUnsupported, fmt::format("rope scaling type '{}' is not supported yet", type),
                 prefix + "rope.scaling.type");
}

}  // namespace

float Hparams::scale_of(int layer) const {
    if (attention_scale != 0.0F) {
        return attention_scale;
    }
    return 1.0F / std::sqrt(static_cast<float>(head_dim_k[static_cast<size_t>(layer)]));
}

std::string_view Hparams::rope_factors_of(int layer, int32_t n_ctx) const {
    if (is_sliding[static_cast<size_t>(layer)]) {
        return "";
    }
    if (long_rope) {
        return n_ctx > n_ctx_original ? "rope_factors_long.weight" : "rope_factors_short.weight";
    }
    return "rope_freqs.weight";
}

bool Hparams::has_state() const {
    return std::find(is_recurrent.begin(), is_recurrent.end(), true) != is_recurrent.end();
}

Result<int32_t> read_bounded(const gguf::File& file, const Hparams& h, std::string_view key, int64_t low, int64_t high,
                             int64_t fallback) {
    const std::string full = fmt::format("{}.{}", h.arch, key);
    if (fallback >= 0 && file.find(full) == nullptr) {
        return static_cast<int32_t>(fallback);
    }
    FORESAY_TRY(const uint32_t value, file.u32(full));
    return bounded(value, low, high, full);
}

Status read_expert_hparams(const gguf::File& file, int32_t n_ff_default, bool required, Hparams& h) {
    FORESAY_TRY(h.n_expert, read_bounded(file, h, "expert_count", 0, kMaxExperts, 0));
    if (h.n_expert == 0) {
        return required ? Status(error(Code::kBadFile, "the architecture needs experts", h.arch + ".expert_count"))
                        : ok();
    }
    const std::string used_key = h.arch + ".expert_used_count";
    FORESAY_TRY(const auto used, per_layer(file, used_key, h.n_layer, 0, 1, h.n_expert));
    if (std::any_of(used.begin(), used.end(), [&](int32_t n) { return n != used[0]; })) {
        return error(Code::kUnsupported, "layers use different numbers of experts", used_key);
    }
    h.route.n_used = used[0];
    h.route.normalise = true;
    FORESAY_TRY(h.n_ff_expert,
                read_bounded(file, h, "expert_feed_forward_length", 1, kMaxWidth, std::max(1, n_ff_default)));
    return ok();
}

Status read_routing_hparams(const gguf::File& file, graph::Gating gating_default, Hparams& h) {
    FORESAY_TRY(h.n_layer_dense, read_bounded(file, h, "leading_dense_block_count", 0, kMaxLayers, 0));
    FORESAY_TRY(const int32_t gating, read_bounded(file, h, "expert_gating_func", 0, 3, 0));
    h.route.gating = gating == 0 ? gating_default : static_cast<graph::Gating>(gating);
    FORESAY_TRY(h.route.n_group, read_bounded(file, h, "expert_group_count", 0, h.n_expert, 1));
    h.route.n_group = std::max(1, h.route.n_group);
    FORESAY_TRY(h.route.n_group_used, read_bounded(file, h, "expert_group_used_count", 0, h.n_expert, 1));
    h.route.n_group_used = std::max(1, h.route.n_group_used);
    const std::string key = h.arch + ".expert_group_count";
    if (h.n_expert % h.route.n_group != 0 || h.route.n_group_used > h.route.n_group ||
        h.route.n_used > h.n_expert / h.route.n_group * h.route.n_group_used) {
        return error(Code::kBadFile,
                     fmt::format("{} of {} groups of {} experts can't give {}", h.route.n_group_used, h.route.n_group,
                                 h.n_expert, h.route.n_used),
                     key);
    }
    FORESAY_TRY(const float scale, file.f32_or(h.arch + ".expert_weights_scale", 0.0F));
    h.route.scale = scale == 0.0F || !std::isfinite(scale) ? 1.0F : scale;
    return ok();
}

Result<Hparams> read_shared_hparams(const gguf::File& file, graph::RopePairing pairing, bool all_blocks) {
    Hparams h;
    FORESAY_TRY(const auto arch, file.string("general.architecture"));
    h.arch = std::string(arch);
    const std::string prefix = h.arch + ".";
    FORESAY_TRY(const uint32_t block_count, file.u32(prefix + "block_count"));
    FORESAY_TRY(const uint32_t nextn, file.u32_or(prefix + "nextn_predict_layers", 0));
    FORESAY_TRY(h.n_layer,
                bounded(int64_t{block_count} - (all_blocks ? 0 : nextn), 1, kMaxLayers, prefix + "block_count"));
    FORESAY_TRY(const uint32_t n_embd, file.u32(prefix + "embedding_length"));
    FORESAY_TRY(h.n_embd, bounded(n_embd, 1, kMaxWidth, prefix + "embedding_length"));
    FORESAY_TRY(const uint32_t n_ctx, file.u32(prefix + "context_length"));
    FORESAY_TRY(h.n_ctx_train, bounded(n_ctx, 1, int64_t{1} << 30, prefix + "context_length"));
    FORESAY_TRY(h.rms_eps, file.f32(prefix + "attention.layer_norm_rms_epsilon"));
    FORESAY_TRY(h.n_head, per_layer(file, prefix + "attention.head_count", h.n_layer, 0, 1, kMaxHeads));
    FORESAY_TRY(h.n_ff, per_layer(file, prefix + "feed_forward_length", h.n_layer, 0, 0, kMaxWidth));
    if (file.find(prefix + "attention.head_count_kv") != nullptr) {
        FORESAY_TRY(h.n_head_kv, per_layer(file, prefix + "attention.head_count_kv", h.n_layer, 0, 0, kMaxHeads));
    } else {
        h.n_head_kv = h.n_head;
    }
    const int32_t default_dim = std::max(1, h.n_embd / h.n_head[0]);
    FORESAY_TRY(const uint32_t key_length,
                file.u32_or(prefix + "attention.key_length", static_cast<uint32_t>(default_dim)));
    FORESAY_TRY(const uint32_t value_length,
                file.u32_or(prefix + "attention.value_length", static_cast<uint32_t>(default_dim)));
    FORESAY_TRY(const int32_t head_dim_k, bounded(key_length, 2, 8192, prefix + "attention.key_length"));
    FORESAY_TRY(const int32_t head_dim_v, bounded(value_length, 1, 8192, prefix + "attention.value_length"));
    const auto n = static_cast<size_t>(h.n_layer);
    h.head_dim_k.assign(n, head_dim_k);
    h.head_dim_v.assign(n, head_dim_v);
    h.is_sliding.assign(n, false);
    h.is_recurrent.assign(n, false);
    for (size_t layer = 0; layer < n; ++layer) {
        h.kv_owner.push_back(static_cast<int32_t>(layer));
        h.merged_qkv.push_back(file.tensor(fmt::format("blk.{}.attn_qkv.weight", layer)) != nullptr);
        h.merged_experts.push_back(file.tensor(fmt::format("blk.{}.ffn_gate_up_exps.weight", layer)) != nullptr);
    }
    for (size_t layer = 0; layer < n; ++layer) {
        // No key heads: a layer without attention, which only some architectures know.
        if (h.n_head_kv[layer] != 0 && h.n_head[layer] % h.n_head_kv[layer] != 0) {
            return error(Code::kBadFile,
                         fmt::format("{} query heads are not a multiple of {} key/value heads", h.n_head[layer],
                                     h.n_head_kv[layer]),
                         prefix + "attention.head_count_kv");
        }
    }

    FORESAY_TRY(const uint32_t n_rot, file.u32_or(prefix + "rope.dimension_count", static_cast<uint32_t>(head_dim_k)));
    FORESAY_TRY(h.rope.n_rot, bounded(n_rot, 2, head_dim_k, prefix + "rope.dimension_count"));
    FORESAY_TRY(h.rope.base, file.f32_or(prefix + "rope.freq_base", 10000.0F));
    if (h.rope.n_rot % 2 != 0 || !(h.rope.base > 1.0F) || !std::isfinite(h.rope.base)) {
        return error(Code::kBadFile,
                     fmt::format("rotated dimensions {} or base {} are impossible", h.rope.n_rot, h.rope.base),
                     prefix + "rope.*");
    }
    if (!(h.rms_eps >= 0.0F) || !std::isfinite(h.rms_eps)) {
        return error(Code::kBadFile, "epsilon is not a usable number", prefix + "attention.layer_norm_rms_epsilon");
    }
    h.rope.pairing = pairing;
    h.rope_sliding = h.rope;
    FORESAY_TRY(const auto scaling, file.string_or(prefix + "rope.scaling.type", "linear"));
    h.long_rope = scaling == "longrope" || file.tensor("rope_factors_long.weight") != nullptr;
    FORESAY_TRY(const uint32_t original, file.u32_or(prefix + "rope.scaling.original_context_length", n_ctx));
    FORESAY_TRY(h.n_ctx_original,
                bounded(original, 1, int64_t{1} << 30, prefix + "rope.scaling.original_context_length"));
    FORESAY_CHECK_OK(read_rope_scaling(file, prefix, h.n_ctx_train, h.rope));

    // The token list wins over the key; both are checked against the embedding's shape when weights are bound.
    if (const gguf::Value* tokens = file.find("tokenizer.ggml.tokens"); tokens != nullptr) {
        FORESAY_TRY(h.n_vocab, bounded(static_cast<int64_t>(std::min<uint64_t>(tokens->n, UINT32_MAX)), 1, INT32_MAX,
                                       "tokenizer.ggml.tokens"));
    } else {
        FORESAY_TRY(const uint32_t n_vocab, file.u32(prefix + "vocab_size"));
        FORESAY_TRY(h.n_vocab, bounded(n_vocab, 1, INT32_MAX, prefix + "vocab_size"));
    }
    return h;
}

Status append_nextn_layer(const gguf::File& file, Hparams& h) {
    const std::string key = h.arch + ".nextn_predict_layers";
    FORESAY_TRY(const uint32_t n_blocks, file.u32_or(key, 0));
    if (n_blocks != 1) {
        return error(Code::kUnsupported, fmt::format("{} NextN blocks: only one is supported", n_blocks), key);
    }
    // Where layers differ, the block is one of full attention: it takes after the last of these.
    size_t like = h.is_recurrent.size();
    while (like > 0 && h.is_recurrent[like - 1]) {
        --like;
    }
    if (like == 0) {
        return error(Code::kBadFile, "no layer with attention for a NextN block to take after", key);
    }
    --like;
    const std::string layer = fmt::format("blk.{}.", h.n_layer);
    h.n_head.push_back(h.n_head[like]);
    h.n_head_kv.push_back(h.n_head_kv[like]);
    h.n_ff.push_back(h.n_ff[like]);
    h.head_dim_k.push_back(h.head_dim_k[like]);
    h.head_dim_v.push_back(h.head_dim_v[like]);
    h.is_sliding.push_back(false);
    h.is_recurrent.push_back(false);
    h.kv_owner.push_back(h.n_layer);
    h.merged_qkv.push_back(file.tensor(layer + "attn_qkv.weight") != nullptr);
    h.merged_experts.push_back(file.tensor(layer + "ffn_gate_up_exps.weight") != nullptr);
    ++h.n_layer;
    return ok();
}

Status read_drafter_hparams(const gguf::File& file, Hparams& h) {
    const std::string key = h.arch + ".target_layers";
    FORESAY_TRY(const auto layers, file.i64_array(key));
    if (layers.empty() || layers.size() > static_cast<size_t>(kMaxLayers)) {
        return error(Code::kBadFile, fmt::format("{} tapped layers", layers.size()), key);
    }
    for (const int64_t layer : layers) {
        FORESAY_TRY(const int32_t id, bounded(layer, 0, kMaxLayers, key));
        h.drafter.target_layers.push_back(id);
    }
    h.drafter.n_vocab_draft = h.n_vocab;
    const gguf::TensorInfo* map = file.tensor("d2t");
    const gguf::TensorInfo* head = file.tensor("output.weight");
    if (map == nullptr && head != nullptr && head->ne[1] != h.n_vocab) {
        return error(Code::kBadFile,
                     fmt::format("the head has {} rows for {} tokens and d2t is missing", head->ne[1], h.n_vocab),
                     "output.weight");
    }
    if (map != nullptr) {
        FORESAY_TRY(h.drafter.n_vocab_draft, bounded(map->ne[0], 1, h.n_vocab, "d2t"));
        if (head == nullptr && h.drafter.n_vocab_draft != h.n_vocab) {
            return error(Code::kBadFile, "a reduced vocabulary needs a head of its own", "output.weight");
        }
    }
    return ok();
}

Status read_sliding_pattern(const gguf::File& file, uint32_t default_period, Hparams& h) {
    const std::string key = h.arch + ".attention.sliding_window_pattern";
    const auto n = static_cast<size_t>(h.n_layer);
    const gguf::Value* value = file.find(key);
    if (value != nullptr && value->type == gguf::ValueType::kArray) {
        FORESAY_TRY(const auto flags, file.i64_array(key));
        if (flags.size() < n) {
            return error(Code::kBadFile, fmt::format("{} entries for {} layers", flags.size(), n), key);
        }
        for (size_t layer = 0; layer < n; ++layer) {
            h.is_sliding[layer] = flags[layer] != 0;
        }
        return ok();
    }
    FORESAY_TRY(const uint32_t period, file.u32_or(key, default_period));
    for (size_t layer = 0; layer < n; ++layer) {
        h.is_sliding[layer] = period == 0 || layer % period < period - 1;
    }
    return ok();
}

}  // namespace foresay::model
