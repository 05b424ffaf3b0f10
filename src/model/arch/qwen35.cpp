// qwen35: the gated delta-net hybrid, dense feed-forward. Source:
// shared/spec/target-models.md, 3.7.
#include "model/arch/qwen_hybrid.h"

namespace foresay::model::arch {
namespace {

Result<Hparams> read_hparams(const gguf::File& file) {
    return read_qwen_hybrid_hparams(file, true);
}

}  // namespace

extern const Architecture k_qwen35;
const Architecture k_qwen35{"qwen35", read_hparams, qwen_hybrid_weights, build_qwen_hybrid, build_qwen_hybrid_layer};

}  // namespace foresay::model::arch
