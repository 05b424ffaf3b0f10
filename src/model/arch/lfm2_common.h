// What lfm2 and lfm2moe share: everything but the experts.
#pragma once

#include "model/architecture.h"
#include "model/graph_context.h"

namespace foresay::model::arch {

Result<Hparams> read_lfm2_hparams(const gguf::File& file);
std::vector<WeightSpec> lfm2_weights(const Hparams& hparams);
void build_lfm2(GraphContext& ctx);

}  // namespace foresay::model::arch
