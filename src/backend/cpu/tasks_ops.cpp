// Everything that isn't a product: element-wise ops, rows in and out of tables and caches, rope, attention.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/tasks.h"
#include "base/checked.h"
#include "tensor/dequant.h"
#include "tensor/fp.h"

namespace foresay::cpu {
namespace {

// 16 kB per operand: several microseconds of work, and no more items than needed.
constexpr int64_t kElements = 4096;

int32_t cache_kind(DType dtype) {
    return dtype == DType::kF16 ? kCacheF16 : dtype == DType::kQ8_0 ? kCacheQ8_0 : kCacheF32;
}

}  // namespace

int64_t ElementTask::n_items() const {
    return (n + kElements - 1) / kElements;
}

void ElementTask::run(int64_t item, std::byte*) const {
    const int64_t begin = item * kElements;
    const int64_t end = std::min(n, begin + kElements);
    switch (op) {
        case graph::Op::kAdd:
        case graph::Op::kMul: {
            int64_t j = begin % period;
            for (int64_t i = begin; i < end;) {
                const int64_t run = std::min(end - i, period - j);
                if (op == graph::Op::kAdd) {
                    for (int64_t e = 0; e < run; ++e) {
                        y[i + e] = x[i + e] + second[j + e];
                    }
                } else {
                    for (int64_t e = 0; e < run; ++e) {
                        y[i + e] = x[i + e] * second[j + e];
                    }
                }
                i += run;
                j = 0;
            }
            return;
        }
        case graph::Op::kScale:
            for (int64_t i = begin; i < end; ++i) {
                y[i] = x[i] * factor;
            }
            return;
        case graph::Op::kSwiglu:
            return kernels->swiglu(x + begin, second + begin, y + begin, end - begin);
        case graph::Op::kGeglu:
            return kernels->geglu(x + begin, second + begin, y + begin, end - begin);
        default:
            return kernels->softcap(x + begin, y + begin, end - begin, factor);
    }
}

int64_t CopyTask::n_items() const {
    return (n + kElements - 1) / kElements;
}

void CopyTask::run(int64_t item, std::byte*) const {
    const int64_t begin = item * kElements;
    const int64_t count = std::min(n - begin, kElements);
    const size_t from_size = from == DType::kF32 ? 4 : 2;
    const size_t to_size = to == DType::kF32 ? 4 : 2;
    const std::byte* src = x + static_cast<size_t>(begin) * from_size;
    std::byte* dst = y + static_cast<size_t>(begin) * to_size;
    if (from == to) {
        std::memmove(dst, src, static_cast<size_t>(count) * from_size);
    } else if (to == DType::kF16) {
        kernels->to_f16(reinterpret_cast<const float*>(src), reinterpret_cast<uint16_t*>(dst), count);
    } else {
        dequantize_row(DType::kF16, src, reinterpret_cast<float*>(dst), count);
    }
}

void GetRowsTask::run(int64_t item, std::byte*) const {
    const int32_t id = ids[item];
    float* out = y + item * table.layout.k;
    if (id < 0 || id >= table.layout.n) {
        std::memset(out, 0, static_cast<size_t>(table.layout.k) * sizeof(float));
    } else if (table.plain != nullptr) {
        const size_t bytes = row_bytes(table.layout.dtype, table.layout.k);
        dequantize_row(table.layout.dtype, table.plain + static_cast<size_t>(id) * bytes, out, table.layout.k);
    } else {
        read_tile_row(table.layout, table.tiles, id, out);
    }
}

size_t CacheWriter::scratch_bytes() const {
    return cache != nullptr && dtype == DType::kQ8_0 ? image_bytes(width, 1, 0) : 0;
}

void CacheWriter::write(int64_t t, const float* x, std::byte* scratch) const {
    const int32_t row = rows[t];
    if (row < 0 || row >= n_cells) {
        return;
    }
    std::byte* dst = cache + static_cast<size_t>(row) * row_bytes(dtype, width);
    if (dtype == DType::kF32) {
        std::memcpy(dst, x, static_cast<size_t>(width) * sizeof(float));
    } else if (dtype == DType::kF16) {
        kernels->to_f16(x, reinterpret_cast<uint16_t*>(dst), width);
    } else {
        const ActImage image = make_image(scratch, width, 1, 0);
        kernels->quantize(x, 0, 0, width / kActBlock, &image, 0, 1);
        for (int64_t i = 0; i < width / kActBlock; ++i) {
            const uint16_t d = f32_to_f16(image.d[i]);
            std::memcpy(dst, &d, sizeof(d));
            std::memcpy(dst + sizeof(d), image.q + i * kActBlock, kActBlock);
            dst += sizeof(d) + kActBlock;
        }
    }
}

void RopeTableTask::prepare() {
    const int32_t n_pairs = params.n_rot / 2;
    base.resize(static_cast<size_t>(n_pairs) * 2);
    for (int32_t j = 0; j < n_pairs; ++j) {
        base[static_cast<size_t>(j)] = std::pow(double{params.base}, -2.0 * j / params.n_rot);
        // rho: 1 keeps the angle (high frequencies), 0 interpolates it.
        const double span = std::max(0.001, double{params.yarn_hi} - double{params.yarn_lo});
        base[static_cast<size_t>(n_pairs + j)] = 1.0 - std::clamp((j - double{params.yarn_lo}) / span, 0.0, 1.0);
    }
}

void RopeTableTask::run(int64_t item, std::byte*) const {
    const int32_t n_pairs = params.n_rot / 2;
    float* cosines = table + item * 2 * n_pairs;
    float* sines = cosines + n_pairs;
    const int32_t position = pos[item];
    for (int32_t j = 0; j < n_pairs; ++j) {
        const double w = base[static_cast<size_t>(j)] / (factors != nullptr ? double{factors[j]} : 1.0);
        const double rho = base[static_cast<size_t>(n_pairs + j)];
        const double scale =
            params.yarn != 0 ? (1.0 - rho) * double{params.freq_scale} + rho : double{params.freq_scale};
        const double phi = position * w * scale;
        cosines[j] = static_cast<float>(std::cos(phi)) * params.magnitude;
        sines[j] = static_cast<float>(std::sin(phi)) * params.magnitude;
    }
}

void RopeTask::run(int64_t item, std::byte* scratch) const {
    const float* cs = table + item * 2 * n_pairs;
    const float* from = x + item * n_head * d;
    float* to = y + item * n_head * d;
    for (int64_t h = 0; h < n_head; ++h) {
        kernels->rope(from + h * d, to + h * d, cs, n_pairs, neox ? 1 : 0);
        if (to != from && 2 * n_pairs < d) {
            std::memcpy(to + h * d + 2 * n_pairs, from + h * d + 2 * n_pairs,
                        static_cast<size_t>(d - 2 * n_pairs) * sizeof(float));
        }
    }
    if (writer.cache != nullptr) {
        writer.write(item, to, scratch);
    }
}

// --- attention ---------------------------------------------------------------------------------------------------

void AttentionTask::split(int n_threads) {
    const int64_t group = n_head / params.n_head_kv;
    heads_per_item = std::min<int64_t>(group, kMaxQueries);
    rows_per_item = std::max<int64_t>(1, std::min<int64_t>(n_tokens, kMaxQueries / heads_per_item));
    // Enough items for all threads; but each part of a key head widens the cache again, which only many rows pay for.
    const int64_t wanted = n_tokens < 4 ? n_threads : 2 * n_threads;
    // Rows before heads: equal parts, where halves of three heads are two and one.
    while (n_items() < wanted && rows_per_item > 2) {
        rows_per_item = (rows_per_item + 1) / 2;
    }
    while (n_items() < wanted && heads_per_item > 1) {
        heads_per_item = (heads_per_item + 1) / 2;
    }
}

int64_t AttentionTask::n_items() const {
    const int64_t group = n_head / params.n_head_kv;
    const int64_t parts = (group + heads_per_item - 1) / heads_per_item;
    return (n_tokens + rows_per_item - 1) / rows_per_item * params.n_head_kv * parts;
}

size_t AttentionTask::scratch_bytes() const {
    const auto dr = static_cast<size_t>(round_up<int64_t>(d, 16));
    const auto dvr = static_cast<size_t>(round_up<int64_t>(dv, 16));
    const size_t floats = kKvBlock * std::max(dr, dvr) + kMaxQueries * (dr + dvr + kKvBlock + 2);
    return floats * sizeof(float) + kMaxQueries * sizeof(AttentionQuery);
}

void AttentionTask::run(int64_t item, std::byte* scratch) const {
    auto* queries = reinterpret_cast<AttentionQuery*>(scratch);
    const int64_t group = n_head / params.n_head_kv;
    const int64_t parts = (group + heads_per_item - 1) / heads_per_item;
    const int64_t key_head = item / parts % params.n_head_kv;
    const int64_t first_head = key_head * group + item % parts * heads_per_item;
    const int64_t last_head = std::min(first_head + heads_per_item, (key_head + 1) * group);
    const int64_t first_row = item / parts / params.n_head_kv * rows_per_item;
    const int64_t last_row = std::min(n_tokens, first_row + rows_per_item);
    AttentionArgs args{};
    args.k = reinterpret_cast<const uint8_t*>(k) + row_bytes(k_dtype, key_head * d);
    args.v = reinterpret_cast<const uint8_t*>(v) + row_bytes(v_dtype, key_head * dv);
    args.k_stride = static_cast<int64_t>(row_bytes(k_dtype, params.n_head_kv * d));
    args.v_stride = static_cast<int64_t>(row_bytes(v_dtype, params.n_head_kv * dv));
    args.k_kind = cache_kind(k_dtype);
    args.v_kind = cache_kind(v_dtype);
    args.d = d;
    args.dv = dv;
    args.scale = params.scale;
    args.softcap = params.softcap;
    args.has_sinks = sinks != nullptr ? 1 : 0;
    args.queries = queries;
    args.scratch = reinterpret_cast<float*>(scratch + kMaxQueries * sizeof(AttentionQuery));
    for (int64_t row = first_row; row < last_row;) {
        const int64_t base = kv_base[row];
        int64_t n = 0;
        for (; row < last_row && kv_base[row] == base; ++row) {
            const int64_t p = pos[row];
            const int64_t window_first = params.window > 0 ? p - params.window + 1 : 0;
            for (int64_t h = first_head; h < last_head; ++h) {
                // Positions outside of the cache aren't visible: a caller's wrong number must not become a wild read.
                queries[n++] = {.q = q + (row * n_head + h) * d,
                                .out = y + (row * n_head + h) * dv,
                                .first = std::max<int64_t>({0, window_first, -base}),
                                .last = std::min<int64_t>(p, n_cells - 1 - base),
                                .sink = sinks != nullptr ? sinks[h] : 0.0F};
            }
        }
        args.base = base;
        args.n_queries = n;
        kernels->attention(&args);
    }
    if (image.q != nullptr) {
        for (int64_t row = first_row; row < last_row; ++row) {
            const int64_t at = first_head * dv;
            kernels->quantize(y + row * n_head * dv + at, 0, at / kActBlock, (last_head - first_head) * dv / kActBlock,
                              &image, row, 1);
        }
    }
}

}  // namespace foresay::cpu
