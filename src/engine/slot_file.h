// Slot files: a slot's tokens and cells on disk. The layout is docs/slot-files.md. Must not know slots, tasks or HTTP.
// A file is read as hostile input: sizes are checked against the cache before anything is allocated or written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "memory/kv_cache.h"
#include "vocab/vocab.h"

namespace foresay::engine {

/// What makes cells of one model useless to another: metadata, tensor list and samples of the weights.
uint64_t model_fingerprint(const gguf::File& file);

struct SlotState {
    std::vector<vocab::TokenId> tokens;  ///< one for each cell, in order
    int32_t n_pure = 0;                  ///< see Slot::n_pure
    std::vector<std::byte> recurrent;    ///< StateCache::save, empty for a model without
    std::vector<std::byte> draft;        ///< the drafter's state, may be empty
};

/// Whose files fit.
struct SlotFileOwner {
    uint64_t model = 0;   ///< fingerprint
    uint64_t draft = 0;   ///< of the drafter's file; 0: no state of a drafter is wanted
    int32_t n_vocab = 0;  ///< the model's
    size_t max_recurrent_bytes = 0;
};

/// Writes `path` anew (beside it first, then renamed: never half a file), mode 0600. Returns its size.
/// Errors: io, naming the path.
Result<uint64_t> write_slot_file(const std::string& path, const SlotFileOwner& owner, const memory::KvCache& kv,
                                 int slot, const SlotState& state);

/// Reads the cells into the slot; another drafter's state is left out. On an error the slot's cells are undefined: the
/// caller empties it. Errors: not_found, io, bad_file (not a slot file, another model, other cache types, damaged),
/// capacity (more tokens than the slot holds). *n_read: bytes.
Result<SlotState> read_slot_file(const std::string& path, const SlotFileOwner& owner, memory::KvCache& kv, int slot,
                                 uint64_t* n_read);

}  // namespace foresay::engine
