// One compiled node of the reference backend, and the kernels by group of ops. Private to backend/reference.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace foresay::reference {

struct Operand {
    std::byte* data = nullptr;
    DType dtype = DType::kF32;
    std::array<int64_t, 4> ne{1, 1, 1, 1};

    int64_t n_rows() const { return ne[1] * ne[2] * ne[3]; }

    int64_t n_elements() const { return ne[0] * n_rows(); }

    const float* f32() const { return reinterpret_cast<const float*>(data); }

    const int32_t* i32() const { return reinterpret_cast<const int32_t*>(data); }

    const std::byte* row(int64_t i) const { return data + static_cast<size_t>(i) * row_bytes(dtype, ne[0]); }
};

struct Step {
    void (*run)(const Step& step, std::byte* scratch) = nullptr;
    Operand dst;
    std::array<Operand, graph::kMaxSources> src;
    size_t n_src = 0;
    graph::OpParams params;
    std::vector<double> table;  ///< rope: pow(base, -2j / n_rot) and the ramp, by pair

    float* out() const { return reinterpret_cast<float*>(dst.data); }
};

// Each: reads step.src, writes step.dst. scratch: 64-byte aligned, at least scratch_bytes(step).
void run_get_rows(const Step& step, std::byte* scratch);
void run_set_rows(const Step& step, std::byte* scratch);
void run_copy(const Step& step, std::byte* scratch);
void run_mul_mat(const Step& step, std::byte* scratch);
void run_rms_norm(const Step& step, std::byte* scratch);
void run_add(const Step& step, std::byte* scratch);
void run_mul(const Step& step, std::byte* scratch);
void run_scale(const Step& step, std::byte* scratch);
void run_swiglu(const Step& step, std::byte* scratch);
void run_geglu(const Step& step, std::byte* scratch);
void run_softcap(const Step& step, std::byte* scratch);
void run_rope(const Step& step, std::byte* scratch);
void run_attention(const Step& step, std::byte* scratch);
void run_columns(const Step& step, std::byte* scratch);
void run_mul_sigmoid(const Step& step, std::byte* scratch);
void run_swiglu_oai(const Step& step, std::byte* scratch);
void run_route_ids(const Step& step, std::byte* scratch);
void run_route_weights(const Step& step, std::byte* scratch);
void run_mul_mat_id(const Step& step, std::byte* scratch);
void run_weighted_sum(const Step& step, std::byte* scratch);
void run_short_conv(const Step& step, std::byte* scratch);
void run_decay(const Step& step, std::byte* scratch);
void run_delta_net(const Step& step, std::byte* scratch);

/// What a mul_mat or attention step needs beside its operands.
size_t mul_mat_scratch(const Step& step);
size_t attention_scratch(const Step& step);
size_t route_scratch(const Step& step);
size_t mul_mat_id_scratch(const Step& step);
size_t delta_net_scratch(const Step& step);
/// Fills step.table from the parameters: the work that depends on no position.
void prepare_rope(Step& step);

}  // namespace foresay::reference
