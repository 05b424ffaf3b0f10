// What an architecture file provides, and the registry of them (architectures.inc). To add one: CONTRIBUTING.md.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "model/hparams.h"

namespace foresay::model {

class GraphContext;

/// How the graph uses a weight: decides the layout it is loaded in.
enum class Use {
    kMulMat,     ///< products only
    kVector,     ///< element-wise or in tables of floats: widened to F32
    kEmbedding,  ///< rows by token; products too where the head is tied
    kRows,       ///< rows by token only: stays in the mapping
};

struct WeightSpec {
    std::string name;                       ///< full tensor name
    std::array<int64_t, 4> ne{1, 1, 1, 1};  ///< expected shape
    Use use = Use::kMulMat;
    bool optional = false;
};

struct Architecture {
    std::string_view name;
    /// Hyper-parameters from the file's keys. Errors name the key.
    Result<Hparams> (*read_hparams)(const gguf::File& file);
    /// The tensors it uses; unknown tensors in the file are ignored.
    std::vector<WeightSpec> (*weights)(const Hparams& hparams);
    /// Adds the forward pass: from ctx.tokens() to ctx.set_logits(). Null: a drafter's file, which can't run alone
    /// (spec/drafters builds its graphs).
    void (*build)(GraphContext& ctx);
    /// One decoder layer of the full-attention kind, for NextN blocks; null: the architecture has none.
    graph::TensorId (*build_layer)(GraphContext& ctx, int layer, graph::TensorId x) = nullptr;
};

/// The architecture of this general.architecture, or null.
const Architecture* find_architecture(std::string_view name);
/// Names of all, in registration order.
std::vector<std::string_view> architecture_names();

}  // namespace foresay::model
