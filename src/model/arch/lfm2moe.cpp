// lfm2moe: lfm2 with experts behind the leading dense layers. Source: shared/spec/target-models.md, 3.10.
#include "model/arch/lfm2_common.h"

namespace foresay::model::arch {
namespace {

Result<Hparams> read_hparams(const gguf::File& file) {
    FORESAY_TRY(Hparams h, read_lfm2_hparams(file));
    FORESAY_CHECK_OK(read_expert_hparams(file, h.n_ff[0], true, h));
    FORESAY_CHECK_OK(read_routing_hparams(file, graph::Gating::kSigmoid, h));
    return h;
}

}  // namespace

extern const Architecture k_lfm2moe;
const Architecture k_lfm2moe{"lfm2moe", read_hparams, lfm2_weights, build_lfm2};

}  // namespace foresay::model::arch
