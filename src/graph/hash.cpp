// The structural hash: what must be equal for two graphs to share a plan. Names don't count; storage does.
#include <xxhash.h>

#include <cstring>
#include <memory>
#include <vector>

#include "graph/graph.h"

namespace foresay::graph {
namespace {

/// One tensor as bytes: no padding, no pointers to text. Words are int64_t so that the layout has no holes.
struct Record {
    int64_t dtype_op_src_flags;
    int64_t view_of;
    int64_t view_offset;
    uint64_t storage;
    std::array<int64_t, 4> ne;
    std::array<int64_t, 4> nb;
    std::array<TensorId, kMaxSources> src;
    std::array<uint32_t, 8> f;
    std::array<int32_t, 8> i;
};

static_assert(sizeof(Record) == 4 * 8 + 8 * 8 + 3 * 32, "holes would hash as noise");

Record record(const Tensor& t) {
    Record r{};
    r.dtype_op_src_flags = static_cast<int64_t>(t.dtype) | static_cast<int64_t>(t.op) << 8 |
                           static_cast<int64_t>(t.n_src) << 16 | static_cast<int64_t>(t.flags) << 24;
    r.view_of = static_cast<int64_t>(t.view_of);
    r.view_offset = t.view_offset;
    r.storage = reinterpret_cast<uintptr_t>(t.storage);
    r.ne = t.ne;
    r.nb = t.nb;
    r.src = t.src;
    std::memcpy(r.f.data(), t.params.f.data(), sizeof(r.f));
    r.i = t.params.i;
    return r;
}

}  // namespace

std::array<uint64_t, 2> Graph::structural_hash() const {
    // Records go in blocks: one call per tensor would spend more on the call than on the bytes.
    constexpr size_t kBlock = 64;
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
    XXH3_128bits_reset(state.get());
    std::vector<Record> block;
    block.reserve(kBlock);
    for (size_t i = 0; i < tensors_.size(); ++i) {
        block.push_back(record(tensors_[i]));
        if (block.size() == kBlock || i + 1 == tensors_.size()) {
            XXH3_128bits_update(state.get(), block.data(), block.size() * sizeof(Record));
            block.clear();
        }
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
    return {hash.high64, hash.low64};
}

}  // namespace foresay::graph
