#include "memory/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "tensor/dequant.h"
#include "tensor/fp.h"
#include "tensor/quantize.h"

namespace foresay::memory {

Result<std::unique_ptr<KvCache>> KvCache::create(backend::Backend& backend, std::vector<KvLayer> layers,
                                                 int32_t n_slots, int32_t n_ctx_slot, DType type_k, DType type_v) {
    for (const DType type : {type_k, type_v}) {
        if (type != DType::kF32 && type != DType::kF16 && type != DType::kQ8_0) {
            return error(Code::kUnsupported, fmt::format("cache type {} is not supported", dtype_name(type)),
                         "--cache-type-k/-v", "use f16, f32 or q8_0");
        }
    }
    std::unique_ptr<KvCache> cache(new KvCache);
    cache->backend_ = &backend;
    cache->n_slots_ = n_slots;
    cache->n_ctx_slot_ = n_ctx_slot;
    const auto allocate = [&](DType type, int64_t width) {
        auto storage = backend.allocate_state(type, {width, cache->n_cells(), 1, 1});
        if (storage.has_value()) {
            return storage;
        }
        size_t total = 0;
        for (const KvLayer& layer : layers) {
            total += layer.k_width == 0 ? 0 : row_bytes(type_k, layer.k_width) + row_bytes(type_v, layer.v_width);
        }
        return Result<std::unique_ptr<graph::Storage>>(tl::unexpected(
            std::move(storage).error().context(fmt::format("KV cache of {} cells, {} MiB in all", cache->n_cells(),
                                                           (total * static_cast<size_t>(cache->n_cells())) >> 20))));
    };
    for (size_t layer = 0; layer < layers.size(); ++layer) {
        if (layers[layer].k_width == 0) {
            cache->k_.emplace_back();
            cache->v_.emplace_back();
            continue;
        }
        const int64_t block_k = dtype_info(type_k).block;
        const int64_t block_v = dtype_info(type_v).block;
        if (layers[layer].k_width % block_k != 0 || layers[layer].v_width % block_v != 0 ||
            layers[layer].head_dim % block_k != 0) {
            return error(Code::kUnsupported,
                         fmt::format("layer {}: head size {} is not a multiple of the cache type's block", layer,
                                     layers[layer].head_dim),
                         "--cache-type-k/-v", "use f16");
        }
        FORESAY_TRY(auto k, allocate(type_k, layers[layer].k_width));
        FORESAY_TRY(auto v, allocate(type_v, layers[layer].v_width));
        cache->k_.push_back(std::move(k));
        cache->v_.push_back(std::move(v));
    }
    cache->layers_ = std::move(layers);
    return cache;
}

size_t KvCache::bytes() const {
    size_t total = 0;
    for (size_t layer = 0; layer < k_.size(); ++layer) {
        total += k_[layer] == nullptr ? 0 : k_[layer]->bytes + v_[layer]->bytes;
    }
    return total;
}

namespace {

/// Rotates every head of one row by -discard positions: the angles are linear in the position, so this undoes `discard`
/// steps.
void rotate_row(std::vector<float>& row, int64_t head_dim, const std::vector<float>& cosines,
                const std::vector<float>& sines, const KvRope& rope) {
    const int64_t half = rope.params.n_rot / 2;
    for (size_t head = 0; head < row.size(); head += static_cast<size_t>(head_dim)) {
        for (int64_t j = 0; j < half; ++j) {
            const bool neox = rope.params.pairing == graph::RopePairing::kNeox;
            float& a = row[head + static_cast<size_t>(neox ? j : 2 * j)];
            float& b = row[head + static_cast<size_t>(neox ? j + half : 2 * j + 1)];
            const float c = cosines[static_cast<size_t>(j)];
            const float s = sines[static_cast<size_t>(j)];
            const float rotated_a = a * c - b * s;
            b = a * s + b * c;
            a = rotated_a;
        }
    }
}

void rotation_tables(const KvRope& rope, int32_t discard, std::vector<float>& cosines, std::vector<float>& sines) {
    const graph::RopeParams& p = rope.params;
    for (int32_t j = 0; j < p.n_rot / 2; ++j) {
        double omega = std::pow(static_cast<double>(p.base), -2.0 * j / p.n_rot);
        if (rope.factors != nullptr) {
            omega /= rope.factors[j];
        }
        double blend = p.freq_scale;
        if (p.yarn != 0) {
            const double span = std::max(0.001, static_cast<double>(p.yarn_hi) - p.yarn_lo);
            const double rho = 1.0 - std::min(1.0, std::max(0.0, (j - static_cast<double>(p.yarn_lo)) / span));
            blend = (1.0 - rho) * p.freq_scale + rho;
        }
        const double phi = -static_cast<double>(discard) * omega * blend;
        cosines.push_back(static_cast<float>(std::cos(phi)));
        sines.push_back(static_cast<float>(std::sin(phi)));
    }
}

}  // namespace

void KvCache::shift(int slot, int32_t n, int32_t keep, int32_t discard, const std::function<KvRope(int layer)>& rope) {
    FORESAY_ASSERT(keep >= 0 && discard > 0 && keep + discard <= n && n <= n_ctx_slot_);
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
        if (k_[layer] == nullptr) {
            continue;
        }
        const KvRope layer_rope = rope(static_cast<int>(layer));
        shift_rows(*k_[layer], layers_[layer].k_width, slot, n, keep, discard, layers_[layer].head_dim, &layer_rope);
        shift_rows(*v_[layer], layers_[layer].v_width, slot, n, keep, discard, layers_[layer].head_dim, nullptr);
    }
}

size_t KvCache::prefix_bytes(int layer, bool keys, int32_t n) const {
    const auto l = static_cast<size_t>(layer);
    if (k_[l] == nullptr) {
        return 0;  // no cache of its own
    }
    return keys ? static_cast<size_t>(n) * row_bytes(k_[l]->dtype, layers_[l].k_width)
                : static_cast<size_t>(n) * row_bytes(v_[l]->dtype, layers_[l].v_width);
}

void KvCache::read_prefix(int slot, int layer, bool keys, std::span<std::byte> out) const {
    if (k_[static_cast<size_t>(layer)] == nullptr) {
        return;
    }
    const graph::Storage& storage = *(keys ? k_ : v_)[static_cast<size_t>(layer)];
    backend_->read(out, storage.data + prefix_bytes(layer, keys, first_cell(slot)));
}

void KvCache::write_prefix(int slot, int layer, bool keys, std::span<const std::byte> in) {
    if (k_[static_cast<size_t>(layer)] == nullptr) {
        return;
    }
    const graph::Storage& storage = *(keys ? k_ : v_)[static_cast<size_t>(layer)];
    backend_->write(storage.data + prefix_bytes(layer, keys, first_cell(slot)), in);
}

void KvCache::copy_prefix(int from, int to, int32_t n) {
    FORESAY_ASSERT(from != to && n >= 0 && n <= n_ctx_slot_);
    std::vector<std::byte> bytes;
    for (int layer = 0; layer < n_layer(); ++layer) {
        for (const bool keys : {true, false}) {
            bytes.resize(prefix_bytes(layer, keys, n));
            read_prefix(from, layer, keys, bytes);
            write_prefix(to, layer, keys, bytes);
        }
    }
}

void KvCache::shift_rows(const graph::Storage& storage, int64_t width, int slot, int32_t n, int32_t keep,
                         int32_t discard, int64_t head_dim, const KvRope* rope) {
    const size_t bytes_per_row = row_bytes(storage.dtype, width);
    std::byte* base = storage.data + static_cast<size_t>(first_cell(slot)) * bytes_per_row;
    std::vector<std::byte> raw(bytes_per_row);
    std::vector<float> values(static_cast<size_t>(width));
    std::vector<float> cosines;
    std::vector<float> sines;
    if (rope != nullptr) {
        rotation_tables(*rope, discard, cosines, sines);
    }
    for (int32_t from = keep + discard; from < n; ++from) {
        backend_->read(raw, base + static_cast<size_t>(from) * bytes_per_row);
        if (rope != nullptr) {
            dequantize_row(storage.dtype, raw.data(), values.data(), width);
            rotate_row(values, head_dim, cosines, sines, *rope);
            const Status stored = quantize_row(storage.dtype, values.data(), raw.data(), width);
            FORESAY_ASSERT(stored.has_value());  // the cache types are checked when the cache is made
        }
        backend_->write(base + static_cast<size_t>(from - discard) * bytes_per_row, raw);
    }
}

}  // namespace foresay::memory
