// Attention with online softmax over blocks of 64 positions counted from the sequence's start (docs/numerics.md).
// Source: Milakov and Gimelshein 2018; the block grid is fixed so that a row's bits don't depend on the batch.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/lanes.h"
#include "backend/reference/scalar_math.h"
#include "backend/reference/step.h"
#include "tensor/dequant.h"

namespace foresay::reference {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// One query head of one row: what doesn't change along the walk over positions.
struct Head {
    const Step& step;
    graph::AttentionParams params;
    const float* q;        ///< [D]
    float* out;            ///< [Dv], the accumulator O and the result
    float* row;            ///< scratch for one widened K or V row
    int64_t d, dv, group;  ///< group: the key head
    int64_t base;          ///< cell of position 0
    int64_t first, last;   ///< visible positions, inclusive; first > last: none
};

struct State {
    float max = kMinusInfinity;
    float sum = 0.0F;
};

/// Row `cell` of K or V, this head's part of n elements, widened exactly.
const float* widened(const Head& head, const Operand& kv, int64_t cell, int64_t n) {
    dequantize_row(kv.dtype, kv.row(cell) + row_bytes(kv.dtype, head.group * n), head.row, n);
    return head.row;
}

float score(const Head& head, int64_t j) {
    const float s =
        dot_lanes(head.q, widened(head, head.step.src[1], head.base + j, head.d), head.d) * head.params.scale;
    return head.params.softcap > 0.0F ? softcap_f32(s, head.params.softcap) : s;
}

void scale_output(const Head& head, float c) {
    for (int64_t i = 0; i < head.dv; ++i) {
        head.out[i] *= c;
    }
}

/// exp(old - now), 0 when nothing has been seen (the difference would be a NaN).
float decay(float old_max, float new_max) {
    return old_max == kMinusInfinity ? 0.0F : exp_f32(old_max - new_max);
}

void walk_block(const Head& head, int64_t block_first, State& state) {
    std::array<float, graph::kAttentionBlock> p{};
    const int64_t lo = std::max(head.first, block_first) - block_first;
    const int64_t hi = std::min<int64_t>(head.last - block_first, graph::kAttentionBlock - 1);
    float block_max = kMinusInfinity;
    for (int64_t j = lo; j <= hi; ++j) {
        p[static_cast<size_t>(j)] = score(head, block_first + j);
        block_max = std::max(block_max, p[static_cast<size_t>(j)]);
    }
    const float new_max = std::max(state.max, block_max);
    const float c = decay(state.max, new_max);
    Lanes lanes{};
    for (int64_t j = lo; j <= hi; ++j) {
        float& pj = p[static_cast<size_t>(j)];
        pj = exp_f32(pj - new_max);
        lanes[static_cast<size_t>(j) % kLanes] += pj;
    }
    state.sum = state.sum * c + tree_sum(lanes);
    state.max = new_max;
    scale_output(head, c);
    for (int64_t j = lo; j <= hi; ++j) {
        const float* v = widened(head, head.step.src[2], head.base + block_first + j, head.dv);
        for (int64_t i = 0; i < head.dv; ++i) {
            head.out[i] = std::fma(p[static_cast<size_t>(j)], v[i], head.out[i]);
        }
    }
}

void add_sink(const Head& head, float z, State& state) {
    const float new_max = std::max(state.max, z);
    const float c = decay(state.max, new_max);
    state.sum = state.sum * c + exp_f32(z - new_max);
    scale_output(head, c);
    state.max = new_max;
}

void attend(const Head& head, const float* sink) {
    std::fill_n(head.out, head.dv, 0.0F);
    if (head.first > head.last) {
        return;
    }
    State state;
    const int64_t start = head.first / graph::kAttentionBlock * graph::kAttentionBlock;
    for (int64_t block = start; block <= head.last; block += graph::kAttentionBlock) {
        walk_block(head, block, state);
    }
    if (sink != nullptr) {
        add_sink(head, *sink, state);
    }
    for (int64_t i = 0; i < head.dv; ++i) {
        head.out[i] /= state.sum;
    }
}

}  // namespace

size_t attention_scratch(const Step& step) {
    return static_cast<size_t>(std::max(step.src[1].ne[0], step.src[2].ne[0])) * sizeof(float);
}

void run_attention(const Step& step, std::byte* scratch) {
    const Operand& q = step.src[0];
    const graph::AttentionParams params = graph::unpack_attention(step.params);
    const int64_t n_head = q.ne[1];
    const int64_t n_cells = step.src[1].ne[1];
    const int64_t dv = step.src[2].ne[0] / params.n_head_kv;
    for (int64_t t = 0; t < q.ne[2]; ++t) {
        const int64_t pos = step.src[3].i32()[t];
        const int64_t base = step.src[4].i32()[t];
        const int64_t window_first = params.window > 0 ? pos - params.window + 1 : 0;
        for (int64_t h = 0; h < n_head; ++h) {
            // Positions outside of the cache aren't visible: wrong numbers from a caller must not become wild reads.
            const Head head{.step = step,
                            .params = params,
                            .q = q.f32() + (t * n_head + h) * q.ne[0],
                            .out = step.out() + (t * n_head + h) * dv,
                            .row = reinterpret_cast<float*>(scratch),
                            .d = q.ne[0],
                            .dv = dv,
                            .group = h / (n_head / params.n_head_kv),
                            .base = base,
                            .first = std::max<int64_t>({0, window_first, -base}),
                            .last = std::min(pos, n_cells - 1 - base)};
            attend(head, step.n_src == 6 ? step.src[5].f32() + h : nullptr);
        }
    }
}

}  // namespace foresay::reference
