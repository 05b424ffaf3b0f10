// What qwen3next, qwen35 and qwen35moe share: gated delta net in most layers, gated attention in every fourth.
// Source: shared/spec/target-models.md, 3.7.
#pragma once

#include "model/architecture.h"
#include "model/graph_context.h"

namespace foresay::model::arch {

/// modulo: how value heads map to key heads (G6).
Result<Hparams> read_qwen_hybrid_hparams(const gguf::File& file, bool modulo);
std::vector<WeightSpec> qwen_hybrid_weights(const Hparams& hparams);
void build_qwen_hybrid(GraphContext& ctx);
TensorId build_qwen_hybrid_layer(GraphContext& ctx, int layer, TensorId x);

}  // namespace foresay::model::arch
