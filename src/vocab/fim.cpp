#include "vocab/fim.h"

#include "vocab/common.h"

namespace foresay::vocab {

FimTokens fim_tokens(const Vocab& vocab) {
    const auto* common = dynamic_cast<const CommonVocab*>(&vocab);
    if (common == nullptr) {
        return {};
    }
    const SpecialIds& ids = common->special();
    return {ids.fim_pre, ids.fim_suf, ids.fim_mid, ids.fim_rep, ids.fim_sep};
}

}  // namespace foresay::vocab
