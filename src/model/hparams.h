// Hyper-parameters of a model, read from the GGUF keys that every architecture shares. Source:
// shared/spec/target-models.md, 1.4.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "graph/graph.h"

namespace foresay::model {

struct Hparams {
    std::string arch;
    int32_t n_layer = 0;  ///< trunk layers (block_count minus NextN blocks)
    int32_t n_embd = 0;
    int32_t n_vocab = 0;
    int32_t n_ctx_train = 0;
    float rms_eps = 0.0F;

    // Per layer, n_layer entries each.
    std::vector<int32_t> n_head;
    std::vector<int32_t> n_head_kv;
    std::vector<int32_t> n_ff;
    std::vector<int32_t> head_dim_k;
    std::vector<int32_t> head_dim_v;
    std::vector<bool> is_sliding;

    int32_t sliding_window = 0;
    float embedding_scale = 1.0F;
    float attention_scale = 0.0F;  ///< kappa; 0: 1/sqrt(head_dim_k)
    float final_softcap = 0.0F;
    graph::RopeParams rope;          ///< full layers
    graph::RopeParams rope_sliding;  ///< sliding layers

    const graph::RopeParams& rope_of(int layer) const {
        return is_sliding[static_cast<size_t>(layer)] ? rope_sliding : rope;
    }

    float scale_of(int layer) const;
};

/// Reads the shared keys (head counts, sizes, rope with scaling) under the file's architecture prefix and checks that
/// they fit together. The architecture's own reader goes on from there. Errors: bad_file naming the key.
Result<Hparams> read_shared_hparams(const gguf::File& file, graph::RopePairing pairing);

/// Applies attention.sliding_window_pattern (array, or number with a default); source: section 2.6.
Status read_sliding_pattern(const gguf::File& file, uint32_t default_period, Hparams& hparams);

}  // namespace foresay::model
