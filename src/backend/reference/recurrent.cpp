// Short convolution and gated delta net over states in cells (graph::StateParams; docs/numerics.md, Recurrent layers).
// Rows go one by one: each reads what the row before left, in this batch or an earlier one.
#include <cmath>
#include <vector>

#include "backend/reference/scalar_math.h"
#include "backend/reference/step.h"

namespace foresay::reference {
namespace {

/// The ring of a slot, and the cell of a count of tokens in it. Wrong numbers from a caller must not become wild
/// accesses: such rows see zeros and leave nothing.
struct Ring {
    float* base = nullptr;
    int64_t n = 1, cell_size = 0;

    Ring(const Operand& state, int64_t cells, int64_t ring, int64_t slot)
        : n(ring), cell_size(state.n_elements() / cells) {
        if (slot >= 0 && slot < cells / ring) {
            base = reinterpret_cast<float*>(state.data) + slot * ring * cell_size;
        }
    }

    float* cell(int64_t count) const { return base == nullptr || count < 0 ? nullptr : base + count % n * cell_size; }
};

}  // namespace

void run_short_conv(const Step& step, std::byte*) {
    const graph::StateParams p = graph::unpack_state(step.params);
    const Operand& x = step.src[0];
    const int64_t n_taps = step.src[1].ne[0];
    for (int64_t t = 0; t < x.ne[1]; ++t) {
        const Ring ring(step.src[2], step.src[2].ne[1], p.ring, step.src[4].i32()[t]);
        const int64_t pos = step.src[3].i32()[t];
        float* own = ring.cell(pos);
        for (int64_t c = 0; c < x.ne[0]; ++c) {
            const float current = x.f32()[t * x.ne[0] + c];
            float acc = 0.0F;
            for (int64_t i = 0; i < n_taps; ++i) {
                const float* earlier = ring.cell(pos - (n_taps - 1) + i);
                const float u = i == n_taps - 1 ? current : (earlier == nullptr ? 0.0F : earlier[c]);
                acc = std::fma(step.src[1].f32()[c * n_taps + i], u, acc);
            }
            step.out()[t * x.ne[0] + c] = p.silu ? silu_f32(acc) : acc;
        }
        for (int64_t c = 0; own != nullptr && c < x.ne[0]; ++c) {
            own[c] = x.f32()[t * x.ne[0] + c];
        }
    }
}

void run_decay(const Step& step, std::byte*) {
    const int64_t n = step.dst.ne[0];
    for (int64_t i = 0; i < step.dst.n_elements(); ++i) {
        step.out()[i] = exp_f32(step.src[2].f32()[i % n] * softplus(step.src[0].f32()[i] + step.src[1].f32()[i % n]));
    }
}

namespace {

struct Head {
    const float *q, *k, *v;
    float decay, beta;
    int64_t d;
};

/// S1 = decay * S0 + k (beta * (v - S0' k))', out = S1' q. before: null for zeros.
void delta_step(const Head& h, const float* before, float* after, float* out) {
    for (int64_t c = 0; c < h.d; ++c) {
        float seen = 0.0F;
        for (int64_t i = 0; i < h.d; ++i) {
            const float s = before == nullptr ? 0.0F : before[i * h.d + c] * h.decay;
            after[i * h.d + c] = s;
            seen = std::fma(s, h.k[i], seen);
        }
        const float delta = (h.v[c] - seen) * h.beta;
        float sum = 0.0F;
        for (int64_t i = 0; i < h.d; ++i) {
            float& s = after[i * h.d + c];
            s = std::fma(h.k[i], delta, s);
            sum = std::fma(s, h.q[i], sum);
        }
        out[c] = sum;
    }
}

}  // namespace

size_t delta_net_scratch(const Step& step) {
    return static_cast<size_t>(step.src[0].ne[0] * step.src[0].ne[0]) * sizeof(float);
}

void run_delta_net(const Step& step, std::byte* scratch) {
    const graph::StateParams p = graph::unpack_state(step.params);
    const int64_t d = step.src[0].ne[0];
    const int64_t n_key = step.src[0].ne[1];
    const int64_t n_value = step.src[2].ne[1];
    for (int64_t t = 0; t < step.src[0].ne[2]; ++t) {
        // Wrong numbers see zeros and leave nothing.
        const auto cell = [&](int32_t number) {
            const Operand& state = step.src[5];
            return number < 0 || number >= state.ne[2]
                       ? nullptr
                       : reinterpret_cast<float*>(state.data) + number * (state.n_elements() / state.ne[2]);
        };
        for (int64_t h = 0; h < n_value; ++h) {
            const int64_t key = p.modulo ? h % n_key : h / (n_value / n_key);
            const Head head{.q = step.src[0].f32() + (t * n_key + key) * d,
                            .k = step.src[1].f32() + (t * n_key + key) * d,
                            .v = step.src[2].f32() + (t * n_value + h) * d,
                            .decay = step.src[3].f32()[t * n_value + h],
                            .beta = sigmoid_f32(step.src[4].f32()[t * n_value + h]),
                            .d = d};
            const float* before = cell(step.src[6].i32()[t]);
            float* after = cell(step.src[7].i32()[t]);
            delta_step(head, before == nullptr ? nullptr : before + h * d * d,
                       after == nullptr ? reinterpret_cast<float*>(scratch) : after + h * d * d,
                       step.out() + (t * n_value + h) * d);
        }
    }
}

}  // namespace foresay::reference
