// What a drafter's time depends on: for the controller, which must not know more about drafters.
#pragma once

#include <cstdint>

namespace foresay::spec {

enum class DraftCost : uint8_t {
    kFree,      ///< next to nothing: tables over the text
    kPerToken,  ///< one pass per drafted token
    kPerBlock,  ///< one pass for all tokens of a draft
};

}  // namespace foresay::spec
