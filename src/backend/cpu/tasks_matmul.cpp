// Products: quantising, packing, the loop over row groups and columns, and what is fused behind it.
#include <algorithm>
#include <cstring>

#include "backend/cpu/tasks.h"
#include "base/checked.h"

namespace foresay::cpu {
namespace {

constexpr size_t kLine = 64;
// About a microsecond per item: small enough to share one row among threads, large enough for the counter.
constexpr int64_t kQuantizeBlocks = 64;

size_t image_array(size_t* used, size_t bytes) {
    const size_t at = *used;
    *used = round_up(at + bytes, kLine);
    return at;
}

/// The tiles of one row group, packed into scratch when the matrix is plain.
const uint8_t* group_tiles(const Matrix& w, int64_t group, std::byte* scratch) {
    if (w.plain == nullptr) {
        return w.tiles + group * w.layout.group_bytes;
    }
    auto* tiles = reinterpret_cast<uint8_t*>(scratch);
    pack_group(w.layout, w.plain, group, tiles);
    return tiles;
}

size_t plain_scratch(const Matrix& w) {
    return w.plain == nullptr ? 0 : round_up(static_cast<size_t>(w.layout.group_bytes), kLine);
}

}  // namespace

ActImage column_view(const ActImage& image, int64_t column) {
    ActImage view = image;
    view.q += 32 * column;
    view.d += column;
    if (view.sum != nullptr) {
        view.sum += column;
    }
    if (view.sum_half != nullptr) {
        view.sum_half += 2 * column;
    }
    for (int i = 0; i < kActStarts; ++i) {
        if (view.start[i] != nullptr) {
            view.start[i] += (i == kStartHalf4 || i == kStartHalf32 ? 2 : 1) * column;
        }
    }
    return view;
}

ActImage make_image(std::byte* base, int64_t k, int64_t n_columns, uint32_t need) {
    ActImage image{};
    image.stride = n_columns;
    image.need = need;
    size_t used = 0;
    const auto n = static_cast<size_t>(k / kActBlock * n_columns);
    image.q = reinterpret_cast<int8_t*>(base + image_array(&used, n * 32));
    image.d = reinterpret_cast<float*>(base + image_array(&used, n * 4));
    if ((need & kNeedSum) != 0) {
        image.sum = reinterpret_cast<float*>(base + image_array(&used, n * 4));
    }
    if ((need & kNeedSumHalf) != 0) {
        image.sum_half = reinterpret_cast<float*>(base + image_array(&used, n * 8));
    }
    for (int i = 0; i < kActStarts; ++i) {
        if ((need & 1u << i) != 0) {
            image.start[i] = reinterpret_cast<int32_t*>(base + image_array(&used, n * 8));
        }
    }
    return image;
}

size_t image_bytes(int64_t k, int64_t n_columns, uint32_t need) {
    const auto n = static_cast<size_t>(k / kActBlock * n_columns);
    size_t used = round_up(n * 32, kLine) + round_up(n * 4, kLine);
    used += (need & kNeedSum) != 0 ? round_up(n * 4, kLine) : 0;
    used += (need & kNeedSumHalf) != 0 ? round_up(n * 8, kLine) : 0;
    for (int i = 0; i < kActStarts; ++i) {
        used += (need & 1u << i) != 0 ? round_up(n * 8, kLine) : 0;
    }
    return used;
}

int64_t QuantizeTask::n_items() const {
    const int64_t n_blocks = k / kActBlock;
    return n_columns * ((n_blocks + kQuantizeBlocks - 1) / kQuantizeBlocks);
}

void QuantizeTask::run(int64_t item, std::byte*) const {
    const int64_t n_blocks = k / kActBlock;
    const int64_t per_column = (n_blocks + kQuantizeBlocks - 1) / kQuantizeBlocks;
    const int64_t column = item / per_column;
    const int64_t first = item % per_column * kQuantizeBlocks;
    const int64_t n = std::min(kQuantizeBlocks, n_blocks - first);
    kernels->quantize(x + column * k + first * kActBlock, k, first, n, &image, column, 1);
}

void NormTask::run(int64_t item, std::byte*) const {
    const int64_t last = std::min(n_rows, (item + 1) * rows_per_item);
    for (int64_t row = item * rows_per_item; row < last; ++row) {
        kernels->rms_norm(x + row * n, w, y + row * n, n, epsilon);
        if (image.q != nullptr) {
            kernels->quantize(y + row * n, n, 0, n / kActBlock, &image, row, 1);
        }
    }
}

size_t MatmulTask::scratch_bytes() const {
    const int64_t groups = w.layout.is_dense ? std::min<int64_t>(groups_per_item, kDenseGroupsMax) : 1;
    const int64_t columns = w.layout.is_dense ? n_columns : std::min(n_columns, kColumnBlock);
    return static_cast<size_t>(groups * columns * kTileRows) * sizeof(float) +
           plain_scratch(w) * static_cast<size_t>(groups);
}

void MatmulTask::store(const float* acc, int64_t group, int64_t column, int64_t n) const {
    const int64_t first_row = group * kTileRows;
    const int64_t n_rows = std::min<int64_t>(kTileRows, w.layout.n - first_row);
    for (int64_t c = 0; c < n; ++c) {
        const int64_t at = (column + c) * w.layout.n + first_row;
        const float* sums = acc + c * kTileRows;
        for (int64_t r = 0; r < n_rows; ++r) {
            float out = sums[r];
            if (bias != nullptr) {
                out = out + bias[first_row + r];
            }
            if (residual != nullptr) {
                out = out + residual[at + r];
            }
            y[at + r] = out;
        }
    }
}

void MatmulTask::run(int64_t item, std::byte* scratch) const {
    const int64_t first = item * groups_per_item;
    const int64_t last = std::min(w.layout.n_groups, first + groups_per_item);
    if (w.layout.is_dense) {
        run_dense(first, last, scratch);
        return;
    }
    auto* acc = reinterpret_cast<float*>(scratch);
    std::byte* tile_scratch =
        scratch + static_cast<size_t>(std::min(n_columns, kColumnBlock) * kTileRows) * sizeof(float);
    // Columns outside, groups inside: a block's activations stay in L2 over the item's groups.
    for (int64_t column = 0; column < n_columns; column += kColumnBlock) {
        const ActImage view = column_view(image, column);
        const int64_t n = std::min(kColumnBlock, n_columns - column);
        for (int64_t group = first; group < last; ++group) {
            const MatmulArgs args{.tiles = group_tiles(w, group, tile_scratch),
                                  .n_blocks = w.layout.k / kActBlock,
                                  .act = &view,
                                  .n_cols = n,
                                  .acc = acc};
            kernels->matmul[w.layout.kind](&args);
            store(acc, group, column, n);
        }
    }
}

void MatmulTask::run_dense(int64_t first, int64_t last, std::byte* scratch) const {
    auto* acc = reinterpret_cast<float*>(scratch);
    for (int64_t group = first; group < last; group += kDenseGroupsMax) {
        const int64_t n_groups = std::min<int64_t>(kDenseGroupsMax, last - group);
        const uint8_t* tiles = w.tiles + group * w.layout.group_bytes;
        if (w.plain != nullptr) {
            auto* packed_tiles = reinterpret_cast<uint8_t*>(acc + n_groups * n_columns * kTileRows);
            for (int64_t g = 0; g < n_groups; ++g) {
                pack_group(w.layout, w.plain, group + g, packed_tiles + g * w.layout.group_bytes);
            }
            tiles = packed_tiles;
        }
        const DenseArgs args{.tiles = tiles,
                             .group_bytes = w.layout.group_bytes,
                             .n_groups = n_groups,
                             .k = w.layout.k,
                             .x = packed,
                             .stride = n_columns,
                             .n_cols = n_columns,
                             .acc = acc};
        kernels->dense[w.layout.kind](&args);
        for (int64_t g = 0; g < n_groups; ++g) {
            store(acc + g * n_columns * kTileRows, group + g, 0, n_columns);
        }
    }
}

int64_t GluTask::n_items() const {
    const int64_t n_pairs = (gate.layout.n_groups + 1) / 2;
    return (n_pairs + pairs_per_item - 1) / pairs_per_item;
}

size_t GluTask::scratch_bytes() const {
    const int64_t columns = std::min(n_columns, kColumnBlock);
    return static_cast<size_t>(2 * columns * kTileRows) * sizeof(float) +
           std::max(plain_scratch(gate), plain_scratch(up));
}

void GluTask::run(int64_t item, std::byte* scratch) const {
    const int64_t columns = std::min(n_columns, kColumnBlock);
    auto* gate_acc = reinterpret_cast<float*>(scratch);
    float* up_acc = gate_acc + columns * kTileRows;
    auto* tile_scratch = reinterpret_cast<std::byte*>(up_acc + columns * kTileRows);
    const int64_t n = gate.layout.n;
    const int64_t first = item * pairs_per_item * 2;
    const int64_t last = std::min(gate.layout.n_groups, first + pairs_per_item * 2);
    const auto act = is_gelu ? kernels->geglu : kernels->swiglu;
    for (int64_t column = 0; column < n_columns; column += kColumnBlock) {
        const ActImage view = column_view(image, column);
        const int64_t width = std::min(kColumnBlock, n_columns - column);
        for (int64_t group = first; group < last; ++group) {
            MatmulArgs args{.tiles = group_tiles(gate, group, tile_scratch),
                            .n_blocks = gate.layout.k / kActBlock,
                            .act = &view,
                            .n_cols = width,
                            .acc = gate_acc};
            kernels->matmul[gate.layout.kind](&args);
            args.tiles = group_tiles(up, group, tile_scratch);
            args.acc = up_acc;
            kernels->matmul[up.layout.kind](&args);
            act(gate_acc, up_acc, gate_acc, width * kTileRows);
            const int64_t n_rows = std::min<int64_t>(kTileRows, n - group * kTileRows);
            for (int64_t c = 0; c < width; ++c) {
                std::memcpy(y + (column + c) * n + group * kTileRows, gate_acc + c * kTileRows,
                            static_cast<size_t>(n_rows) * sizeof(float));
            }
        }
        if (out_image.q != nullptr) {
            const int64_t block = first / 2;
            kernels->quantize(y + column * n + block * kActBlock, n, block, (last + 1) / 2 - block, &out_image, column,
                              width);
        }
    }
}

void PackTask::run(int64_t item, std::byte*) const {
    const int64_t last = std::min(k, (item + 1) * 256);
    for (int64_t i = item * 256; i < last; ++i) {
        for (int64_t c = 0; c < n_columns; ++c) {
            packed[i * n_columns + c] = x[c * k + i];
        }
    }
}

}  // namespace foresay::cpu
