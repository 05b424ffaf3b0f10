#include "spec/drafters/choice.h"

#include <cmath>

namespace foresay::spec {

double TenBest::top_share() const {
    double total = 0.0;
    for (size_t k = 0; k < n; ++k) {
        total += std::exp(static_cast<double>(values[k]) - values[0]);
    }
    return n == 0 ? 0.0 : 1.0 / total;
}

TenBest ten_best(std::span<const float> logits) {
    TenBest best;
    for (size_t id = 0; id < logits.size(); ++id) {
        const float value = logits[id];
        if ((best.n == TenBest::kSize && !(value > best.values[best.n - 1])) || std::isnan(value)) {
            continue;
        }
        size_t at = best.n < TenBest::kSize ? best.n++ : best.n - 1;
        while (at > 0 && best.values[at - 1] < value) {
            best.values[at] = best.values[at - 1];
            best.ids[at] = best.ids[at - 1];
            --at;
        }
        best.values[at] = value;
        best.ids[at] = static_cast<vocab::TokenId>(id);
    }
    return best;
}

}  // namespace foresay::spec
