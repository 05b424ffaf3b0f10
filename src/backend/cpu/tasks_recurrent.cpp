// Short convolution, decay and delta net: rows go one by one, heads and channels side by side.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/tasks_experts.h"

namespace foresay::cpu {
namespace {

constexpr int64_t kChannels = 256;

}  // namespace

int64_t ShortConvTask::n_items() const {
    return (n_channels + kChannels - 1) / kChannels;
}

size_t ShortConvTask::scratch_bytes() const {
    return static_cast<size_t>(n_taps * kChannels) * sizeof(float);
}

void ShortConvTask::run(int64_t item, std::byte* scratch) const {
    const int64_t first = item * kChannels;
    const int64_t n = std::min(kChannels, n_channels - first);
    // Channels must lie side by side for vectors; the file has the taps of a channel side by side.
    auto* turned = reinterpret_cast<float*>(scratch);
    for (int64_t c = 0; c < n; ++c) {
        for (int64_t i = 0; i < n_taps; ++i) {
            turned[i * n + c] = taps[(first + c) * n_taps + i];
        }
    }
    for (int64_t t = 0; t < n_rows; ++t) {
        const float* current = x + t * n_channels + first;
        ConvArgs args{};
        for (int64_t i = 0; i < n_taps - 1; ++i) {
            const float* earlier = state.cell(slot[t], pos[t] - (n_taps - 1) + i);
            args.rows[i] = earlier == nullptr ? nullptr : earlier + first;
        }
        args.rows[n_taps - 1] = current;
        args.taps = turned;
        args.n_taps = n_taps;
        args.n = n;
        args.y = y + t * n_channels + first;
        args.silu = silu ? 1 : 0;
        kernels->short_conv(&args);
        if (float* own = state.cell(slot[t], pos[t]); own != nullptr) {
            std::memcpy(own + first, current, static_cast<size_t>(n) * sizeof(float));
        }
    }
}

void DecayTask::run(int64_t item, std::byte*) const {
    float* out = y + item * n;
    for (int64_t i = 0; i < n; ++i) {
        const float z = alpha[item * n + i] + dt[i];
        // In double and outside of the kernels: the same library function for every ISA.
        const float softplus = z > 20.0F ? z : static_cast<float>(std::log1p(std::exp(static_cast<double>(z))));
        out[i] = a[i] * softplus;
    }
    kernels->exponential(out, out, n);
}

void DeltaNetTask::run(int64_t item, std::byte* scratch) const {
    const int64_t parts = (d + columns_per_item - 1) / columns_per_item;
    const int64_t h = item / parts;
    const int64_t first = item % parts * columns_per_item;
    const int64_t key = modulo ? h % n_key : h / (n_value / n_key);
    for (int64_t t = 0; t < n_rows; ++t) {
        const float* before = cell(from[t]);
        float* after = cell(to[t]);
        const int64_t at = h * d * d + first;
        float beta_t = 0.0F;
        kernels->sigmoid(beta + t * n_value + h, &beta_t, 1);
        const DeltaArgs args{.before = before == nullptr ? nullptr : before + at,
                             .after = after == nullptr ? reinterpret_cast<float*>(scratch) : after + at,
                             .d = d,
                             .n = std::min(columns_per_item, d - first),
                             .stride = d,
                             .k = k + (t * n_key + key) * d,
                             .q = q + (t * n_key + key) * d,
                             .v = v + (t * n_value + h) * d + first,
                             .decay = decay[t * n_value + h],
                             .beta = beta_t,
                             .out = y + (t * n_value + h) * d + first};
        kernels->delta_step(&args);
    }
}

}  // namespace foresay::cpu
