#include "spec/drafters/slot_state.h"

#include <algorithm>
#include <cstring>

namespace foresay::spec {
namespace {

struct Header {
    int32_t base = 0;
    int32_t n_tokens = 0;
    int32_t n_stored = 0;
    int32_t n_cells = 0;
    uint64_t n_floats = 0;
    uint32_t type_k = 0;
    uint32_t type_v = 0;
};

static_assert(sizeof(Header) == 32, "the header is written as it lies in memory");

/// Calls with each layer's keys and values that the cache has.
template <typename Visit>
void for_each_part(const memory::KvCache* kv, const Visit& visit) {
    for (int layer = 0; kv != nullptr && layer < kv->n_layer(); ++layer) {
        if (kv->k(layer) != nullptr) {
            visit(layer, true);
            visit(layer, false);
        }
    }
}

void set_types(const memory::KvCache* kv, Header& header) {
    for_each_part(kv, [&](int layer, bool keys) {
        (keys ? header.type_k : header.type_v) = static_cast<uint32_t>((keys ? kv->k(layer) : kv->v(layer))->dtype);
    });
}

template <typename T>
void put(std::vector<std::byte>& bytes, const T* data, size_t n) {
    // Not insert(): g++ 12 warns of an overflow there that can't be.
    const size_t at = bytes.size();
    bytes.resize(at + n * sizeof(T));
    if (n > 0) {
        std::memcpy(bytes.data() + at, data, n * sizeof(T));
    }
}

}  // namespace

std::vector<std::byte> pack_state(const SavedState& state, const memory::KvCache* kv, int slot) {
    Header header;
    header.base = state.base;
    header.n_tokens = static_cast<int32_t>(state.tokens.size());
    header.n_stored = state.n_stored;
    header.n_cells = state.n_cells;
    header.n_floats = state.rows.size();
    set_types(kv, header);
    std::vector<std::byte> bytes;
    put(bytes, &header, 1);
    put(bytes, state.tokens.data(), state.tokens.size());
    put(bytes, state.rows.data(), state.rows.size());
    for_each_part(kv, [&](int layer, bool keys) {
        const size_t at = bytes.size();
        bytes.resize(at + kv->prefix_bytes(layer, keys, state.n_cells));
        kv->read_prefix(slot, layer, keys, std::span(bytes).subspan(at));
    });
    return bytes;
}

Result<SavedState> unpack_state(std::span<const std::byte> bytes, size_t width, int32_t n_ctx, int32_t n_vocab,
                                memory::KvCache* kv, int slot) {
    const auto bad = [](const char* why) { return error(Code::kBadFile, why, "the drafter's state"); };
    Header header;
    if (bytes.size() < sizeof(header)) {
        return bad("is too short");
    }
    std::memcpy(&header, bytes.data(), sizeof(header));
    Header wanted;
    set_types(kv, wanted);
    if (header.type_k != wanted.type_k || header.type_v != wanted.type_v) {
        return bad("was saved with other cache types");
    }
    const int32_t most_cells = kv == nullptr ? 0 : kv->n_ctx_slot();
    if (header.base < 0 || header.n_tokens < 0 || header.n_tokens > n_ctx || header.base > n_ctx - header.n_tokens ||
        header.n_stored < 0 || header.n_stored > header.n_tokens || header.n_cells < 0 || header.n_cells > most_cells ||
        header.n_floats != static_cast<uint64_t>(header.n_tokens - header.n_stored) * width) {
        return bad("has impossible sizes");
    }
    const size_t token_bytes = static_cast<size_t>(header.n_tokens) * sizeof(vocab::TokenId);
    const size_t row_bytes = static_cast<size_t>(header.n_floats) * sizeof(float);
    size_t expected = sizeof(header) + token_bytes + row_bytes;
    for_each_part(kv, [&](int layer, bool keys) { expected += kv->prefix_bytes(layer, keys, header.n_cells); });
    if (bytes.size() != expected) {
        return bad("has another size than its parts");
    }
    SavedState state;
    state.base = header.base;
    state.n_stored = header.n_stored;
    state.n_cells = header.n_cells;
    state.tokens.resize(static_cast<size_t>(header.n_tokens));
    state.rows.resize(static_cast<size_t>(header.n_floats));
    size_t at = sizeof(header);
    if (token_bytes > 0) {
        std::memcpy(state.tokens.data(), bytes.data() + at, token_bytes);
    }
    at += token_bytes;
    if (row_bytes > 0) {
        std::memcpy(state.rows.data(), bytes.data() + at, row_bytes);
    }
    at += row_bytes;
    if (std::any_of(state.tokens.begin(), state.tokens.end(), [&](auto id) { return id < 0 || id >= n_vocab; })) {
        return bad("holds tokens that the vocabulary lacks");
    }
    for_each_part(kv, [&](int layer, bool keys) {
        const size_t n = kv->prefix_bytes(layer, keys, header.n_cells);
        kv->write_prefix(slot, layer, keys, bytes.subspan(at, n));
        at += n;
    });
    return state;
}

}  // namespace foresay::spec
