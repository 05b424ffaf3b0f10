// Choice of experts, products by expert and their weighted sum; parts of rows and gates (docs/numerics.md, Experts).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/reference/lanes.h"
#include "backend/reference/scalar_math.h"
#include "backend/reference/step.h"
#include "backend/reference/weight_blocks.h"

namespace foresay::reference {

void run_columns(const Step& step, std::byte*) {
    const Operand& x = step.src[0];
    const int64_t n = step.dst.ne[0];
    for (int64_t i = 0; i < x.n_rows(); ++i) {
        std::memcpy(step.out() + i * n, x.f32() + i * x.ne[0] + step.params.i[0],
                    static_cast<size_t>(n) * sizeof(float));
    }
}

void run_mul_sigmoid(const Step& step, std::byte*) {
    const int64_t n = step.dst.ne[0];
    const int64_t gate_width = step.src[1].ne[0];
    for (int64_t i = 0; i < step.dst.n_elements(); ++i) {
        const float g = step.src[1].f32()[gate_width == n ? i : i / n];
        step.out()[i] = step.src[0].f32()[i] * sigmoid_f32(g);
    }
}

void run_swiglu_oai(const Step& step, std::byte*) {
    for (int64_t i = 0; i < step.dst.n_elements(); ++i) {
        step.out()[i] = swiglu_oai_f32(step.src[0].f32()[i], step.src[1].f32()[i]);
    }
}

namespace {

/// exp(x - max), and their sum by lanes.
float exp_and_sum(float* x, int64_t n) {
    const float max = *std::max_element(x, x + n, [](float a, float b) { return a < b; });
    Lanes lanes{};
    for (int64_t i = 0; i < n; ++i) {
        x[i] = exp_f32(x[i] - max);
        lanes[static_cast<size_t>(i) % kLanes] += x[i];
    }
    return tree_sum(lanes);
}

void softmax(float* x, int64_t n) {
    const float sum = exp_and_sum(x, n);
    std::for_each(x, x + n, [sum](float& v) { v /= sum; });
}

/// pi of one row (M2).
void scores(const float* logits, int64_t n, graph::Gating gating, float* out) {
    std::copy_n(logits, n, out);
    if (gating == graph::Gating::kSoftmax) {
        softmax(out, n);
    } else if (gating == graph::Gating::kSigmoid) {
        std::transform(out, out + n, out, sigmoid_f32);
    }
}

/// Where the largest value is; the first of equals. NaN never wins; -1 when nothing is above -infinity.
int64_t best_of(const float* values, int64_t n) {
    int64_t best = -1;
    float top = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < n; ++i) {
        if (values[i] > top) {
            top = values[i];
            best = i;
        }
    }
    return best;
}

/// Hides the groups that aren't among the best (M4).
void limit_groups(float* selection, int64_t n, const graph::RouteParams& p) {
    const int64_t size = n / p.n_group;
    std::vector<float> value(static_cast<size_t>(p.n_group));
    for (int64_t g = 0; g < p.n_group; ++g) {
        float* group = selection + g * size;
        const int64_t first = best_of(group, size);
        const float top = first < 0 ? 0.0F : group[first];
        float second = -std::numeric_limits<float>::infinity();
        for (int64_t i = 0; i < size; ++i) {
            if (i != first && group[i] > second) {
                second = group[i];
            }
        }
        value[static_cast<size_t>(g)] = size > 1 ? top + second : top;
    }
    std::vector<bool> kept(value.size(), false);
    for (int32_t i = 0; i < p.n_group_used; ++i) {
        const int64_t g = best_of(value.data(), p.n_group);
        if (g < 0) {
            break;
        }
        kept[static_cast<size_t>(g)] = true;
        value[static_cast<size_t>(g)] = -std::numeric_limits<float>::infinity();
    }
    for (int64_t i = 0; i < n; ++i) {
        if (!kept[static_cast<size_t>(i / size)]) {
            selection[i] = -std::numeric_limits<float>::infinity();
        }
    }
}

}  // namespace

size_t route_scratch(const Step& step) {
    return static_cast<size_t>(step.src[0].ne[0]) * sizeof(float);
}

void run_route_ids(const Step& step, std::byte* scratch) {
    const graph::RouteParams p = graph::unpack_route(step.params);
    const int64_t n = step.src[0].ne[0];
    auto* selection = reinterpret_cast<float*>(scratch);
    auto* out = reinterpret_cast<int32_t*>(step.dst.data);
    for (int64_t t = 0; t < step.src[0].ne[1]; ++t) {
        scores(step.src[0].f32() + t * n, n, p.gating, selection);
        for (int64_t e = 0; step.n_src == 2 && e < n; ++e) {
            selection[e] += step.src[1].f32()[e];
        }
        if (p.n_group > 1) {
            limit_groups(selection, n, p);
        }
        for (int32_t j = 0; j < p.n_used; ++j) {
            const int64_t e = best_of(selection, n);
            *out++ = static_cast<int32_t>(e);  // -1: no usable score is left; such an expert adds zeros
            if (e >= 0) {
                selection[e] = -std::numeric_limits<float>::infinity();
            }
        }
    }
}

void run_route_weights(const Step& step, std::byte* scratch) {
    const graph::RouteParams p = graph::unpack_route(step.params);
    const int64_t n = step.src[0].ne[0];
    auto* score = reinterpret_cast<float*>(scratch);
    for (int64_t t = 0; t < step.src[0].ne[1]; ++t) {
        scores(step.src[0].f32() + t * n, n, p.gating, score);
        const int32_t* ids = step.src[1].i32() + t * p.n_used;
        float* w = step.out() + t * p.n_used;
        for (int32_t j = 0; j < p.n_used; ++j) {
            w[j] = ids[j] >= 0 && ids[j] < n ? score[ids[j]] : 0.0F;
        }
        if (p.gating == graph::Gating::kSoftmaxOfChosen) {
            softmax(w, p.n_used);
        }
        if (p.normalise) {
            Lanes lanes{};
            for (int32_t j = 0; j < p.n_used; ++j) {
                lanes[static_cast<size_t>(j) % kLanes] += w[j];
            }
            const float sum = std::max(tree_sum(lanes), graph::kLeastRouteSum);
            std::for_each(w, w + p.n_used, [sum](float& v) { v /= sum; });
        }
        for (int32_t j = 0; j < p.n_used; ++j) {
            w[j] *= p.scale;
            if (step.n_src == 3) {
                w[j] *= ids[j] >= 0 && ids[j] < n ? step.src[2].f32()[ids[j]] : 0.0F;
            }
        }
    }
}

namespace {

/// The mul_mat of one expert and one column; the ids come with the data, so it's made anew for each.
Step expert_step(const Step& step, int64_t expert, int64_t column, int64_t pair) {
    Step one;
    one.n_src = step.n_src == 4 ? 3 : 2;
    one.src[0] = step.src[0];
    one.src[0].data += static_cast<size_t>(expert * one.src[0].ne[1]) * row_bytes(one.src[0].dtype, one.src[0].ne[0]);
    one.src[0].ne[2] = 1;
    one.src[1] = step.src[1];
    one.src[1].data += static_cast<size_t>(column * one.src[1].ne[0]) * sizeof(float);
    one.src[1].ne = {one.src[1].ne[0], 1, 1, 1};
    if (step.n_src == 4) {
        one.src[2] = step.src[3];
        one.src[2].data += static_cast<size_t>(expert * one.src[2].ne[0]) * sizeof(float);
        one.src[2].ne[1] = 1;
    }
    one.dst = step.dst;
    one.dst.data += static_cast<size_t>(pair * one.dst.ne[0]) * sizeof(float);
    one.dst.ne = {one.dst.ne[0], 1, 1, 1};
    return one;
}

}  // namespace

size_t mul_mat_id_scratch(const Step& step) {
    return mul_mat_scratch(expert_step(step, 0, 0, 0));
}

void run_mul_mat_id(const Step& step, std::byte* scratch) {
    const Operand& ids = step.src[2];
    const bool shared = step.src[1].ne[2] == 1 && step.src[1].ne[1] == ids.ne[1];  // one x for all experts of a row
    for (int64_t pair = 0; pair < ids.n_elements(); ++pair) {
        const int32_t expert = ids.i32()[pair];
        if (expert < 0 || expert >= step.src[0].ne[2]) {
            std::memset(step.out() + pair * step.dst.ne[0], 0, static_cast<size_t>(step.dst.ne[0]) * sizeof(float));
        } else {
            run_mul_mat(expert_step(step, expert, shared ? pair / ids.ne[0] : pair, pair), scratch);
        }
    }
}

void run_weighted_sum(const Step& step, std::byte*) {
    const Operand& x = step.src[0];
    for (int64_t t = 0; t < x.ne[2]; ++t) {
        for (int64_t i = 0; i < x.ne[0]; ++i) {
            float acc = 0.0F;
            for (int64_t j = 0; j < x.ne[1]; ++j) {
                acc = std::fma(step.src[1].f32()[t * x.ne[1] + j], x.f32()[(t * x.ne[1] + j) * x.ne[0] + i], acc);
            }
            step.out()[t * x.ne[0] + i] = acc;
        }
    }
}

}  // namespace foresay::reference
