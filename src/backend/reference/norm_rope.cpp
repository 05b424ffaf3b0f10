// rms_norm and rope: per row and per (position, pair).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/reference/lanes.h"
#include "backend/reference/step.h"

namespace foresay::reference {

void run_rms_norm(const Step& step, std::byte*) {
    const int64_t n = step.dst.ne[0];
    const float epsilon = step.params.f[0];
    for (int64_t i = 0; i < step.dst.n_rows(); ++i) {
        const float* x = step.src[0].f32() + i * n;
        const float s = dot_lanes(x, x, n);
        const float r = 1.0F / std::sqrt(s / static_cast<float>(n) + epsilon);
        for (int64_t j = 0; j < n; ++j) {
            const float y = x[j] * r;
            step.out()[i * n + j] = step.n_src == 2 ? y * step.src[1].f32()[j] : y;
        }
    }
}

void prepare_rope(Step& step) {
    const graph::RopeParams p = graph::unpack_rope(step.params);
    const int32_t n_pairs = p.n_rot / 2;
    step.table.resize(static_cast<size_t>(n_pairs) * 2);
    for (int32_t j = 0; j < n_pairs; ++j) {
        step.table[static_cast<size_t>(j)] = std::pow(double{p.base}, -2.0 * j / p.n_rot);
        // rho: 1 where the angle is kept (high frequency), 0 where it is interpolated (target-models.md, R4).
        const double span = std::max(0.001, double{p.yarn_hi} - double{p.yarn_lo});
        const double ramp = std::clamp((j - double{p.yarn_lo}) / span, 0.0, 1.0);
        step.table[static_cast<size_t>(n_pairs + j)] = 1.0 - ramp;
    }
}

namespace {

struct Rotation {
    float c;
    float s;
};

/// Cosine and sine of one (position, pair), times m. In double: a float angle loses its fraction at long positions.
Rotation rotation(const Step& step, const graph::RopeParams& p, int32_t pos, int32_t j) {
    const double factor = step.n_src == 3 ? double{step.src[2].f32()[j]} : 1.0;
    const double w = step.table[static_cast<size_t>(j)] / factor;
    const double rho = step.table[static_cast<size_t>(p.n_rot / 2 + j)];
    const double scale = p.yarn != 0 ? (1.0 - rho) * double{p.freq_scale} + rho : double{p.freq_scale};
    const double phi = pos * w * scale;
    return {static_cast<float>(std::cos(phi)) * p.magnitude, static_cast<float>(std::sin(phi)) * p.magnitude};
}

}  // namespace

void run_rope(const Step& step, std::byte*) {
    const graph::RopeParams p = graph::unpack_rope(step.params);
    const Operand& x = step.src[0];
    const bool neox = p.pairing == graph::RopePairing::kNeox;
    for (int64_t t = 0; t < x.ne[2]; ++t) {
        const int64_t first = t * x.ne[1] * x.ne[0];
        if (step.out() != x.f32()) {
            std::memcpy(step.out() + first, x.f32() + first, static_cast<size_t>(x.ne[1] * x.ne[0]) * sizeof(float));
        }
        for (int32_t j = 0; j < p.n_rot / 2; ++j) {
            const Rotation r = rotation(step, p, step.src[1].i32()[t], j);
            for (int64_t h = 0; h < x.ne[1]; ++h) {
                float* head = step.out() + first + h * x.ne[0];
                float& out_a = head[neox ? j : 2 * j];
                float& out_b = head[neox ? j + p.n_rot / 2 : 2 * j + 1];
                const float a = out_a;
                const float b = out_b;
                out_a = std::fma(a, r.c, -(b * r.s));
                out_b = std::fma(a, r.s, b * r.c);
            }
        }
    }
}

}  // namespace foresay::reference
