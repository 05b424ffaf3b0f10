#include "model/graph_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/dequant.h"

namespace foresay::model {

GraphContext::GraphContext(const Model& model, const memory::KvCache& kv, const memory::StateCache* state,
                           BatchShape shape, TapSpec taps)
    : model_(model), kv_(kv), state_(state), shape_(shape), taps_(std::move(taps)) {
    const int64_t n = shape.n_rows;
    io_.taps.assign(taps_.layers.size(), kNoTensor);
    io_.tokens = builder_.input("tokens", DType::kI32, {n, 1, 1, 1});
    io_.pos = builder_.input("pos", DType::kI32, {n, 1, 1, 1});
    io_.kv_rows = builder_.input("kv_rows", DType::kI32, {n, 1, 1, 1});
    io_.kv_base = builder_.input("kv_base", DType::kI32, {n, 1, 1, 1});
    if (state != nullptr) {
        io_.slot = builder_.input("slot", DType::kI32, {n, 1, 1, 1});
        if (state->cell_bytes() > 0) {
            io_.from = builder_.input("from", DType::kI32, {n, 1, 1, 1});
            io_.to = builder_.input("to", DType::kI32, {n, 1, 1, 1});
        }
    }
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

std::optional<float> GraphContext::scalar(int layer, std::string_view name) const {
    const gguf::TensorInfo* tensor = model_.file().tensor(fmt::format("blk.{}.{}", layer, name));
    const auto dtype = tensor == nullptr ? std::nullopt : dtype_from_gguf(tensor->type);
    if (!dtype || dtype_info(*dtype).block != 1) {
        return std::nullopt;
    }
    float value = 0.0F;
    dequantize_row(*dtype, tensor->data.data(), &value, 1);
    return value;
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

TensorId GraphContext::heads(int layer, std::string_view name, TensorId x, int64_t head_dim, int64_t n_head) {
    return builder_.reshape(linear(layer, name, x), {head_dim, n_head, shape_.n_rows, 1});
}

GraphContext::Qkv GraphContext::project_qkv(int layer, TensorId x) {
    const auto l = static_cast<size_t>(layer);
    const Hparams& h = hparams();
    const int64_t n = shape_.n_rows;
    Qkv qkv;
    if (!h.merged_qkv[l]) {
        qkv.q = heads(layer, "attn_q", x, h.head_dim_k[l], h.n_head[l]);
        qkv.k = heads(layer, "attn_k", x, h.head_dim_k[l], h.n_head_kv[l]);
        qkv.v = heads(layer, "attn_v", x, h.head_dim_v[l], h.n_head_kv[l]);
        return qkv;
    }
    const TensorId all = linear(layer, "attn_qkv", x);
    int64_t at = 0;
    const auto part = [&](int64_t head_dim, int64_t n_head) {
        const TensorId columns = builder_.columns(all, at, head_dim * n_head);
        at += head_dim * n_head;
        return builder_.reshape(columns, {head_dim, n_head, n, 1});
    };
    qkv.q = part(h.head_dim_k[l], h.n_head[l]);
    qkv.k = part(h.head_dim_k[l], h.n_head_kv[l]);
    qkv.v = part(h.head_dim_v[l], h.n_head_kv[l]);
    return qkv;
}

TensorId GraphContext::rope(int layer, TensorId x) {
    const std::string_view factors = hparams().rope_factors_of(layer, kv_.n_ctx_slot());
    return builder_.rope(x, io_.pos, factors.empty() ? kNoTensor : weight(std::string(factors)),
                         hparams().rope_of(layer));
}

TensorId GraphContext::attend(int layer, const Qkv& qkv) {
    const auto l = static_cast<size_t>(layer);
    const Hparams& h = hparams();
    const int64_t n = shape_.n_rows;
    const int owner = h.kv_owner[l];
    if (owner == layer) {
        const graph::Storage* k_store = kv_.k(layer);
        const graph::Storage* v_store = kv_.v(layer);
        const TensorId k_cache =
            builder_.persistent(fmt::format("cache_k.{}", layer), k_store->dtype, k_store->ne, k_store);
        const TensorId v_cache =
            builder_.persistent(fmt::format("cache_v.{}", layer), v_store->dtype, v_store->ne, v_store);
        const TensorId k = builder_.set_rows(k_cache, builder_.reshape(qkv.k, {k_store->ne[0], n, 1, 1}), io_.kv_rows);
        const TensorId v = builder_.set_rows(v_cache, builder_.reshape(qkv.v, {v_store->ne[0], n, 1, 1}), io_.kv_rows);
        stored_[owner] = {k, v};
    }
    graph::AttentionParams params;
    params.n_head_kv = h.n_head_kv[static_cast<size_t>(owner)];
    params.window = h.is_sliding[l] ? h.sliding_window : 0;
    params.scale = h.scale_of(layer);
    const auto [k, v] = stored_[owner];
    return builder_.attention(qkv.q, k, v, io_.pos, io_.kv_base, params, weight(layer, "attn_sinks.weight"));
}

TensorId GraphContext::keep_outputs(TensorId x) {
    // A tap at the end wants every row: then the rows are picked in head(), which changes no row's bits.
    return io_.out_rows == kNoTensor || taps_the_end() ? x : builder_.get_rows(x, io_.out_rows);
}

TensorId GraphContext::ffn(int layer, TensorId x, Activation activation) {
    const TensorId gate = linear(layer, "ffn_gate", x);
    const TensorId up = linear(layer, "ffn_up", x);
    return linear(layer, "ffn_down", activate(gate, up, activation));
}

TensorId GraphContext::activate(TensorId gate, TensorId up, Activation activation) {
    switch (activation) {
        case Activation::kGelu:
            return builder_.geglu(gate, up);
        case Activation::kSwigluOai:
            return builder_.swiglu_oai(gate, up);
        case Activation::kSilu:
            break;
    }
    return builder_.swiglu(gate, up);
}

TensorId GraphContext::moe(int layer, TensorId x, Activation activation, TensorId router_input) {
    const graph::RouteParams& route = hparams().route;
    const int64_t F = hparams().n_ff_expert;
    const TensorId logits = linear(layer, "ffn_gate_inp", router_input == kNoTensor ? x : router_input);
    const TensorId ids = builder_.route_ids(logits, weight(layer, "exp_probs_b.bias"), route);
    const auto product = [&](std::string_view name, TensorId input) {
        return builder_.mul_mat_id(weight(layer, fmt::format("{}.weight", name)), input, ids,
                                   weight(layer, fmt::format("{}.bias", name)));
    };
    TensorId gate = kNoTensor;
    TensorId up = kNoTensor;
    if (hparams().merged_experts[static_cast<size_t>(layer)]) {
        const TensorId both = product("ffn_gate_up_exps", x);
        gate = builder_.columns(both, 0, F);
        up = builder_.columns(both, F, F);
    } else {
        gate = product("ffn_gate_exps", x);
        up = product("ffn_up_exps", x);
    }
    const TensorId outs = product("ffn_down_exps", activate(gate, up, activation));
    // A scale of an expert's output is part of its weight in the sum.
    const TensorId weights = builder_.route_weights(logits, ids, route, weight(layer, "ffn_down_exps.scale"));
    return builder_.weighted_sum(outs, weights);
}

TensorId GraphContext::shared_expert(int layer, TensorId x) {
    const TensorId gate = linear(layer, "ffn_gate_shexp", x);
    const TensorId up = linear(layer, "ffn_up_shexp", x);
    return linear(layer, "ffn_down_shexp", builder_.swiglu(gate, up));
}

TensorId GraphContext::short_conv(int layer, std::string_view taps, TensorId x, bool silu) {
    const graph::Storage* store = state_->conv(layer);
    const TensorId state = builder_.persistent(fmt::format("state_conv.{}", layer), store->dtype, store->ne, store);
    return builder_.short_conv(x, weight(layer, taps), state, io_.pos, io_.slot,
                               {.ring = state_->conv_ring(), .silu = silu});
}

TensorId GraphContext::delta_net(int layer, TensorId q, TensorId k, TensorId v, TensorId decay, TensorId beta) {
    const graph::Storage* store = state_->delta(layer);
    const TensorId state = builder_.persistent(fmt::format("state_delta.{}", layer), store->dtype, store->ne, store);
    return builder_.delta_net(
        {.q = q, .k = k, .v = v, .decay = decay, .beta = beta, .state = state, .from = io_.from, .to = io_.to},
        {.modulo = hparams().recurrent.modulo});
}

TensorId GraphContext::first_rows(const std::string& name, const std::string& bias, TensorId x, int32_t n) {
    const graph::Storage* matrix = model_.weight(name);
    if (n == 0 || matrix == nullptr || n >= matrix->ne[1]) {
        return builder_.mul_mat(weight(name), x, weight(bias));
    }
    const graph::Storage* added = model_.weight(bias);
    const TensorId rows = builder_.weight(name, matrix->dtype, {matrix->ne[0], n, 1, 1}, matrix);
    return builder_.mul_mat(rows, x,
                            added == nullptr ? kNoTensor : builder_.weight(bias, added->dtype, {n, 1, 1, 1}, added));
}

void GraphContext::head(TensorId x, std::string_view norm_name) {
    tap_layer(hparams().n_layer, x);
    TensorId normed = builder_.rms_norm(x, weight(std::string(norm_name)), hparams().rms_eps);
    if (taps_.hidden) {
        builder_.output(normed);
        io_.hidden = normed;
    }
    if (io_.out_rows != kNoTensor && taps_the_end()) {
        normed = builder_.get_rows(normed, io_.out_rows);
    }
    const char* matrix = model_.weight("output.weight") != nullptr ? "output.weight" : "token_embd.weight";
    TensorId logits = first_rows(matrix, "output.bias", normed, shape_.n_head);
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
