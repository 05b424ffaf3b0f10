// Experts: choosing them, sorting rows by expert, one pass over each expert's tiles for all of its rows.
#include "backend/cpu/tasks_experts.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked.h"

namespace foresay::cpu {
namespace {

// As much work per item as the element-wise tasks have.
constexpr int64_t kElements = 4096;
constexpr int64_t kGatherBlocks = 8;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

int64_t rows_per_item(int64_t width) {
    return std::max<int64_t>(1, kElements / width);
}

int64_t items(int64_t n_rows, int64_t width) {
    return (n_rows + rows_per_item(width) - 1) / rows_per_item(width);
}

/// The order of docs/numerics.md: 16 lanes, then halves onto halves.
float lane_sum(const float* x, int64_t n) {
    float lanes[16] = {};
    for (int64_t i = 0; i < n; ++i) {
        lanes[i % 16] += x[i];
    }
    for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; ++j) {
            lanes[j] += lanes[j + half];
        }
    }
    return lanes[0];
}

void softmax(const Kernels& kernels, float* x, int64_t n) {
    const float max = *std::max_element(x, x + n);
    for (int64_t i = 0; i < n; ++i) {
        x[i] -= max;
    }
    kernels.exponential(x, x, n);
    const float sum = lane_sum(x, n);
    for (int64_t i = 0; i < n; ++i) {
        x[i] /= sum;
    }
}

/// The first of the largest; -1 when nothing is above -infinity (NaN isn't).
int64_t best_of(const float* x, int64_t n) {
    int64_t best = -1;
    float top = kLowest;
    for (int64_t i = 0; i < n; ++i) {
        if (x[i] > top) {
            top = x[i];
            best = i;
        }
    }
    return best;
}

}  // namespace

int64_t ColumnsTask::n_items() const {
    return items(n_rows, n);
}

void ColumnsTask::run(int64_t item, std::byte*) const {
    const int64_t last = std::min(n_rows, (item + 1) * rows_per_item(n));
    for (int64_t row = item * rows_per_item(n); row < last; ++row) {
        std::memcpy(y + row * n, x + row * width + first, static_cast<size_t>(n) * sizeof(float));
    }
}

int64_t GateTask::n_items() const {
    return items(n_rows, n);
}

void GateTask::run(int64_t item, std::byte*) const {
    const int64_t first = item * rows_per_item(n);
    const int64_t last = std::min(n_rows, first + rows_per_item(n));
    if (gate_width == n) {
        const auto f = is_oai ? kernels->swiglu_oai : kernels->mul_sigmoid;
        return f(x + first * n, second + first * n, y + first * n, (last - first) * n);
    }
    for (int64_t row = first; row < last; ++row) {
        float gate = 0.0F;
        kernels->sigmoid(second + row, &gate, 1);
        for (int64_t i = 0; i < n; ++i) {
            y[row * n + i] = x[row * n + i] * gate;
        }
    }
}

// --- choice ------------------------------------------------------------------------------------------------------

size_t RouteTask::scratch_bytes() const {
    return static_cast<size_t>(n_expert + params.n_group) * sizeof(float);
}

void RouteTask::scores(const float* row, float* out) const {
    if (params.gating == graph::Gating::kSigmoid) {
        return kernels->sigmoid(row, out, n_expert);
    }
    std::copy_n(row, n_expert, out);
    if (params.gating == graph::Gating::kSoftmax) {
        softmax(*kernels, out, n_expert);
    }
}

void RouteTask::limit_groups(float* selection, float* values) const {
    const int64_t size = n_expert / params.n_group;
    for (int64_t g = 0; g < params.n_group; ++g) {
        const float* group = selection + g * size;
        const int64_t first = best_of(group, size);
        float second = kLowest;
        for (int64_t i = 0; i < size; ++i) {
            if (i != first && group[i] > second) {
                second = group[i];
            }
        }
        const float top = first < 0 ? 0.0F : group[first];
        values[g] = size > 1 ? top + second : top;
    }
    // A group that is kept gets NaN as its mark: no comparison finds it again.
    for (int32_t i = 0; i < params.n_group_used; ++i) {
        const int64_t g = best_of(values, params.n_group);
        if (g < 0) {
            break;
        }
        values[g] = std::numeric_limits<float>::quiet_NaN();
    }
    for (int64_t g = 0; g < params.n_group; ++g) {
        if (values[g] == values[g]) {
            std::fill_n(selection + g * size, size, kLowest);
        }
    }
}

void RouteTask::choose(int64_t row, float* selection, float* values) const {
    scores(logits + row * n_expert, selection);
    for (int64_t e = 0; bias != nullptr && e < n_expert; ++e) {
        selection[e] += bias[e];
    }
    if (params.n_group > 1) {
        limit_groups(selection, values);
    }
    for (int32_t j = 0; j < params.n_used; ++j) {
        const int64_t e = best_of(selection, n_expert);
        ids_out[row * params.n_used + j] = static_cast<int32_t>(e);
        if (e >= 0) {
            selection[e] = kLowest;
        }
    }
}

void RouteTask::weigh(int64_t row, float* score) const {
    scores(logits + row * n_expert, score);
    const int32_t n = params.n_used;
    const int32_t* chosen = ids + row * n;
    float* w = weights + row * n;
    const auto valid = [&](int32_t j) { return chosen[j] >= 0 && chosen[j] < n_expert; };
    for (int32_t j = 0; j < n; ++j) {
        w[j] = valid(j) ? score[chosen[j]] : 0.0F;
    }
    if (params.gating == graph::Gating::kSoftmaxOfChosen) {
        softmax(*kernels, w, n);
    }
    if (params.normalise) {
        const float sum = std::max(lane_sum(w, n), graph::kLeastRouteSum);
        for (int32_t j = 0; j < n; ++j) {
            w[j] /= sum;
        }
    }
    for (int32_t j = 0; j < n; ++j) {
        w[j] *= params.scale;
        if (scale != nullptr) {
            w[j] *= valid(j) ? scale[chosen[j]] : 0.0F;
        }
    }
}

void RouteTask::run(int64_t item, std::byte* scratch) const {
    auto* values = reinterpret_cast<float*>(scratch);
    if (ids_out != nullptr) {
        choose(item, values, values + n_expert);
    } else {
        weigh(item, values);
    }
}

// --- products ----------------------------------------------------------------------------------------------------

ExpertGroups ExpertGroups::at(std::byte* base, int64_t n_expert, int64_t n_pairs) {
    ExpertGroups groups;
    groups.n_expert = n_expert;
    groups.n_pairs = n_pairs;
    groups.n_active = reinterpret_cast<int32_t*>(base);
    groups.active = groups.n_active + 1;
    groups.start = groups.active + n_expert;
    groups.order = groups.start + n_expert + 1;
    return groups;
}

size_t ExpertGroups::bytes(int64_t n_expert, int64_t n_pairs) {
    return static_cast<size_t>(2 * n_expert + 2 + n_pairs) * sizeof(int32_t);
}

void GroupTask::run(int64_t, std::byte*) const {
    const int64_t n = groups.n_expert;
    int32_t* start = groups.start;
    const auto valid = [n](int32_t id) { return id >= 0 && id < n; };
    std::fill_n(start, n + 1, 0);
    for (int64_t pair = 0; pair < groups.n_pairs; ++pair) {
        if (valid(ids[pair])) {
            ++start[ids[pair] + 1];
        }
    }
    int32_t n_active = 0;
    for (int64_t e = 0; e < n; ++e) {
        if (start[e + 1] > 0) {
            groups.active[n_active++] = static_cast<int32_t>(e);
        }
        start[e + 1] += start[e];
    }
    *groups.n_active = n_active;
    // Filled with start as the cursors, which leaves each at its expert's end: then they are moved back by one.
    int32_t at = start[n];
    for (int64_t pair = 0; pair < groups.n_pairs; ++pair) {
        const int32_t id = ids[pair];
        groups.order[valid(id) ? start[id]++ : at++] = static_cast<int32_t>(pair);
    }
    std::copy_backward(start, start + n - 1, start + n);
    start[0] = 0;
}

int64_t GatherTask::n_items() const {
    const int64_t n_blocks = k / kActBlock;
    return packed != nullptr ? (k + 255) / 256 : (n_blocks + kGatherBlocks - 1) / kGatherBlocks;
}

void GatherTask::run(int64_t item, std::byte*) const {
    const int64_t n = groups.n_pairs;
    if (packed != nullptr) {
        const int64_t last = std::min(k, (item + 1) * 256);
        for (int64_t i = item * 256; i < last; ++i) {
            for (int64_t c = 0; c < n; ++c) {
                packed[i * n + c] = x[groups.order[c] / per_column * k + i];
            }
        }
        return;
    }
    const int64_t last = std::min(k / kActBlock, (item + 1) * kGatherBlocks);
    for (int64_t s = item * kGatherBlocks; s < last; ++s) {
        for (int64_t c = 0; c < n; ++c) {
            const int64_t a = s * from.stride + groups.order[c] / per_column;
            const int64_t b = s * to.stride + c;
            std::memcpy(to.q + kActBlock * b, from.q + kActBlock * a, kActBlock);
            to.d[b] = from.d[a];
            if (to.sum != nullptr) {
                to.sum[b] = from.sum[a];
            }
            if (to.sum_half != nullptr) {
                std::memcpy(to.sum_half + 2 * b, from.sum_half + 2 * a, 2 * sizeof(float));
            }
            for (int i = 0; i < kActStarts; ++i) {
                if (to.start[i] == nullptr) {
                    continue;
                }
                if (i == kStartHalf4 || i == kStartHalf32) {
                    std::memcpy(to.start[i] + 2 * b, from.start[i] + 2 * a, 2 * sizeof(int32_t));
                } else {
                    to.start[i][b] = from.start[i][a];
                }
            }
        }
    }
}

size_t MatmulIdTask::scratch_bytes() const {
    const int64_t n_groups = w.layout.is_dense ? std::min<int64_t>(groups_per_item, kDenseGroupsMax) : 1;
    const auto acc = static_cast<size_t>(n_groups * std::min(groups.n_pairs, kColumnBlock) * kTileRows) * sizeof(float);
    return acc + (w.plain == nullptr ? 0 : round_up<size_t>(static_cast<size_t>(n_groups * w.layout.group_bytes), 64));
}

void MatmulIdTask::store(const float* acc, int64_t expert, int64_t group, int64_t column, int64_t n) const {
    const int64_t first_row = group * kTileRows;
    const int64_t n_rows = std::min<int64_t>(kTileRows, w.layout.n - first_row);
    for (int64_t c = 0; c < n; ++c) {
        float* out = y + groups.order[column + c] * w.layout.n + first_row;
        const float* sums = acc + c * kTileRows;
        for (int64_t r = 0; r < n_rows; ++r) {
            out[r] = bias == nullptr ? sums[r] : sums[r] + bias[expert * w.layout.n + first_row + r];
        }
    }
}

void MatmulIdTask::run_expert(int64_t expert, int64_t first, int64_t last, std::byte* scratch) const {
    auto* acc = reinterpret_cast<float*>(scratch);
    const TileLayout& layout = w.layout;
    const int64_t at_once = layout.is_dense ? kDenseGroupsMax : 1;
    auto* packed_tiles =
        reinterpret_cast<uint8_t*>(scratch) + scratch_bytes() -
        (w.plain == nullptr
             ? 0
             : round_up<size_t>(static_cast<size_t>(std::min(groups_per_item, at_once) * layout.group_bytes), 64));
    const std::byte* plain = w.plain == nullptr
                                 ? nullptr
                                 : w.plain + static_cast<size_t>(expert * layout.n) * row_bytes(layout.dtype, layout.k);
    for (int64_t group = first; group < last; group += at_once) {
        const int64_t n_groups = std::min(at_once, last - group);
        const uint8_t* tiles = w.tiles + (expert * layout.n_groups + group) * layout.group_bytes;
        if (plain != nullptr) {
            for (int64_t g = 0; g < n_groups; ++g) {
                pack_group(layout, plain, group + g, packed_tiles + g * layout.group_bytes);
            }
            tiles = packed_tiles;
        }
        for (int64_t column = groups.start[expert]; column < groups.start[expert + 1]; column += kColumnBlock) {
            const int64_t n = std::min<int64_t>(kColumnBlock, groups.start[expert + 1] - column);
            if (layout.is_dense) {
                const DenseArgs args{.tiles = tiles,
                                     .group_bytes = layout.group_bytes,
                                     .n_groups = n_groups,
                                     .k = layout.k,
                                     .x = packed + column,
                                     .stride = groups.n_pairs,
                                     .n_cols = n,
                                     .acc = acc};
                kernels->dense[layout.kind](&args);
            } else {
                const ActImage view = column_view(image, column);
                const MatmulArgs args{
                    .tiles = tiles, .n_blocks = layout.k / kActBlock, .act = &view, .n_cols = n, .acc = acc};
                kernels->matmul[layout.kind](&args);
            }
            for (int64_t g = 0; g < n_groups; ++g) {
                store(acc + g * n * kTileRows, expert, group + g, column, n);
            }
        }
    }
}

void MatmulIdTask::run(int64_t item, std::byte* scratch) const {
    if (item == n_items() - 1) {  // pairs without an expert
        for (int64_t c = groups.start[groups.n_expert]; c < groups.n_pairs; ++c) {
            std::memset(y + groups.order[c] * w.layout.n, 0, static_cast<size_t>(w.layout.n) * sizeof(float));
        }
        return;
    }
    const int64_t i = item / chunks();
    if (i < *groups.n_active) {
        const int64_t first = item % chunks() * groups_per_item;
        run_expert(groups.active[i], first, std::min(w.layout.n_groups, first + groups_per_item), scratch);
    }
}

}  // namespace foresay::cpu
