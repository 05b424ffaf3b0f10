#include "model/graph_context.h"

#include <fmt/format.h>

#include <algorithm>

namespace foresay::model {

GraphContext::GraphContext(const Model& model, const memory::KvCache& kv, BatchShape shape, TapSpec taps)
    : model_(model), kv_(kv), shape_(shape), taps_(std::move(taps)) {
    const int64_t n = shape.n_rows;
    io_.taps.assign(taps_.layers.size(), kNoTensor);
    io_.tokens = builder_.input("tokens", DType::kI32, {n, 1, 1, 1});
    io_.pos = builder_.input("pos", DType::kI32, {n, 1, 1, 1});
    io_.kv_rows = builder_.input("kv_rows", DType::kI32, {n, 1, 1, 1});
    io_.kv_base = builder_.input("kv_base", DType::kI32, {n, 1, 1, 1});
    if (shape.n_outputs < shape.n_rows) {
        io_.out_rows = builder_.input("out_rows", DType::kI32, {shape.n_outputs, 1, 1, 1});
    }
}

TensorId GraphContext::weight(const std::string& name) {
    const auto found = leafs_.find(name);
    if (found != leafs_.end()) {
        return found->second;
    }
    const graph::Storage* storage = model_.weight(name);
    const TensorId id = storage == nullptr ? kNoTensor : builder_.weight(name, storage->dtype, storage->ne, storage);
    leafs_.emplace(name, id);
    return id;
}

TensorId GraphContext::weight(int layer, std::string_view name) {
    return weight(fmt::format("blk.{}.{}", layer, name));
}

TensorId GraphContext::embed() {
    const TensorId x = builder_.get_rows(weight("token_embd.weight"), io_.tokens);
    return hparams().embedding_scale == 1.0F ? x : builder_.scale(x, hparams().embedding_scale);
}

bool GraphContext::taps_the_end() const {
    const int32_t end = hparams().n_layer;
    return taps_.hidden || std::find(taps_.layers.begin(), taps_.layers.end(), end) != taps_.layers.end();
}

void GraphContext::tap_layer(int layer, TensorId x) {
    for (size_t i = 0; i < taps_.layers.size(); ++i) {
        if (taps_.layers[i] == layer && io_.taps[i] == kNoTensor) {
            builder_.output(x);
            io_.taps[i] = x;
        }
    }
}

TensorId GraphContext::norm(int layer, std::string_view name, TensorId x) {
    if (name == "attn_norm") {
        tap_layer(layer, x);
    }
    return builder_.rms_norm(x, weight(layer, fmt::format("{}.weight", name)), hparams().rms_eps);
}

TensorId GraphContext::linear(int layer, std::string_view name, TensorId x) {
    return builder_.mul_mat(weight(layer, fmt::format("{}.weight", name)), x,
                            weight(layer, fmt::format("{}.bias", name)));
}

GraphContext::Qkv GraphContext::project_qkv(int layer, TensorId x) {
    const auto l = static_cast<size_t>(layer);
    const Hparams& h = hparams();
    const int64_t n = shape_.n_rows;
    Qkv qkv;
    qkv.q = builder_.reshape(linear(layer, "attn_q", x), {h.head_dim_k[l], h.n_head[l], n, 1});
    qkv.k = builder_.reshape(linear(layer, "attn_k", x), {h.head_dim_k[l], h.n_head_kv[l], n, 1});
    qkv.v = builder_.reshape(linear(layer, "attn_v", x), {h.head_dim_v[l], h.n_head_kv[l], n, 1});
    return qkv;
}

TensorId GraphContext::rope(int layer, TensorId x, TensorId factors) {
    return builder_.rope(x, io_.pos, factors, hparams().rope_of(layer));
}

TensorId GraphContext::attend(int layer, const Qkv& qkv) {
    const auto l = static_cast<size_t>(layer);
    const Hparams& h = hparams();
    const int64_t n = shape_.n_rows;
    const int64_t k_width = int64_t{h.head_dim_k[l]} * h.n_head_kv[l];
    const int64_t v_width = int64_t{h.head_dim_v[l]} * h.n_head_kv[l];
    const graph::Storage* k_store = kv_.k(layer);
    const graph::Storage* v_store = kv_.v(layer);
    const TensorId k_cache =
        builder_.persistent(fmt::format("cache_k.{}", layer), k_store->dtype, k_store->ne, k_store);
    const TensorId v_cache =
        builder_.persistent(fmt::format("cache_v.{}", layer), v_store->dtype, v_store->ne, v_store);
    const TensorId k = builder_.set_rows(k_cache, builder_.reshape(qkv.k, {k_width, n, 1, 1}), io_.kv_rows);
    const TensorId v = builder_.set_rows(v_cache, builder_.reshape(qkv.v, {v_width, n, 1, 1}), io_.kv_rows);
    graph::AttentionParams params;
    params.n_head_kv = h.n_head_kv[l];
    params.window = h.is_sliding[l] ? h.sliding_window : 0;
    params.scale = h.scale_of(layer);
    return builder_.attention(qkv.q, k, v, io_.pos, io_.kv_base, params);
}

TensorId GraphContext::keep_outputs(TensorId x) {
    // A tap at the end wants every row: then the rows are picked in head(), which changes no row's bits.
    return io_.out_rows == kNoTensor || taps_the_end() ? x : builder_.get_rows(x, io_.out_rows);
}

TensorId GraphContext::ffn(int layer, TensorId x, Activation activation) {
    const TensorId gate = linear(layer, "ffn_gate", x);
    const TensorId up = linear(layer, "ffn_up", x);
    const TensorId inner = activation == Activation::kSilu ? builder_.swiglu(gate, up) : builder_.geglu(gate, up);
    return linear(layer, "ffn_down", inner);
}

void GraphContext::head(TensorId x) {
    tap_layer(hparams().n_layer, x);
    TensorId normed = builder_.rms_norm(x, weight("output_norm.weight"), hparams().rms_eps);
    if (taps_.hidden) {
        builder_.output(normed);
        io_.hidden = normed;
    }
    if (io_.out_rows != kNoTensor && taps_the_end()) {
        normed = builder_.get_rows(normed, io_.out_rows);
    }
    TensorId head_weight = weight("output.weight");
    if (head_weight == kNoTensor) {
        head_weight = weight("token_embd.weight");
    }
    TensorId logits = builder_.mul_mat(head_weight, normed, weight("output.bias"));
    if (hparams().final_softcap > 0.0F) {
        logits = builder_.softcap(logits, hparams().final_softcap);
    }
    builder_.name(logits, "logits");
    builder_.output(logits);
    io_.logits = logits;
}

Result<graph::Graph> GraphContext::finish() && {
    return std::move(builder_).finish();
}

}  // namespace foresay::model
