// qwen3next: the gated delta-net hybrid, experts with a gated shared one; beta and alpha come merged. Source:
// shared/spec/target-models.md, 3.7.
#include "model/arch/qwen_hybrid.h"

namespace foresay::model::arch {
namespace {

Result<Hparams> read_hparams(const gguf::File& file) {
    return read_qwen_hybrid_hparams(file, false);
}

}  // namespace

extern const Architecture k_qwen3next;
const Architecture k_qwen3next{"qwen3next", read_hparams, qwen_hybrid_weights, build_qwen_hybrid,
                               build_qwen_hybrid_layer};

}  // namespace foresay::model::arch
