// add, mul, scale, swiglu, geglu, softcap: one element at a time. The right operand of add and mul may be one row for
// all.
#include "backend/reference/scalar_math.h"
#include "backend/reference/step.h"

namespace foresay::reference {
namespace {

template <typename F>
void binary(const Step& step, F f) {
    const int64_t n = step.dst.n_elements();
    const int64_t period = step.src[1].n_elements();  // ne0 when y is one row, n otherwise
    for (int64_t i = 0; i < n; ++i) {
        step.out()[i] = f(step.src[0].f32()[i], step.src[1].f32()[i % period]);
    }
}

template <typename F>
void unary(const Step& step, F f) {
    const int64_t n = step.dst.n_elements();
    for (int64_t i = 0; i < n; ++i) {
        step.out()[i] = f(step.src[0].f32()[i]);
    }
}

}  // namespace

void run_add(const Step& step, std::byte*) {
    binary(step, [](float x, float y) { return x + y; });
}

void run_mul(const Step& step, std::byte*) {
    binary(step, [](float x, float y) { return x * y; });
}

void run_scale(const Step& step, std::byte*) {
    const float factor = step.params.f[0];
    unary(step, [factor](float x) { return x * factor; });
}

void run_swiglu(const Step& step, std::byte*) {
    binary(step, [](float gate, float up) { return silu_f32(gate) * up; });
}

void run_geglu(const Step& step, std::byte*) {
    binary(step, [](float gate, float up) { return gelu_tanh_f32(gate) * up; });
}

void run_softcap(const Step& step, std::byte*) {
    const float cap = step.params.f[0];
    unary(step, [cap](float x) { return softcap_f32(x, cap); });
}

}  // namespace foresay::reference
