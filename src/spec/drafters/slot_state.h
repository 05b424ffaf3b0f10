// What a drafter holds of a slot, as bytes for a slot file (docs/slot-files.md). Must not know drafters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "memory/kv_cache.h"
#include "vocab/vocab.h"

namespace foresay::spec {

struct SavedState {
    int32_t base = 0;      ///< position of cell 0
    int32_t n_stored = 0;  ///< of the tokens: those that the cache has taken in
    int32_t n_cells = 0;   ///< of the cache
    std::vector<vocab::TokenId> tokens;
    std::vector<float> rows;  ///< [n_tokens - n_stored][width]
};

/// The state with the slot's first n_cells cells of kv (null: no cache).
std::vector<std::byte> pack_state(const SavedState& state, const memory::KvCache* kv, int slot);

/// The reverse: the cells go into the slot. Errors: bad_file (other sizes or cache types, what can't be).
/// width: floats of a row; n_ctx: most tokens; n_vocab: ids are below it.
Result<SavedState> unpack_state(std::span<const std::byte> bytes, size_t width, int32_t n_ctx, int32_t n_vocab,
                                memory::KvCache* kv, int slot);

}  // namespace foresay::spec
