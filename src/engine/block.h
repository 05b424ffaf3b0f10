// The rows of one slot in one round. Internal to the engine.
#pragma once

#include <vector>

#include "engine/engine_impl.h"

namespace foresay::engine {

/// The rows of one slot in this round.
struct EngineImpl::Block {
    Slot* slot = nullptr;
    bool is_prompt = false;
    spec::Draft draft;  ///< of a generating slot
    std::vector<model::Row> rows;
};

}  // namespace foresay::engine
