// Tasks of gates, experts and recurrent layers. Each is plain data set by the compiler, plus run(). Private to
// backend/cpu. Read next: tasks.h, kernels/gates.inc.
#pragma once

#include "backend/cpu/tasks.h"

namespace foresay::cpu {

/// Elements [first, first + n) of every row.
struct ColumnsTask : Task {
    const float* x = nullptr;
    float* y = nullptr;
    int64_t width = 0, first = 0, n = 0, n_rows = 0;

    int64_t n_items() const override;
    void run(int64_t item, std::byte* scratch) const override;
};

/// mul_sigmoid and swiglu_oai over rows of n; gate_width 1: one gate for the row.
struct GateTask : Task {
    const Kernels* kernels = nullptr;
    bool is_oai = false;
    const float* x = nullptr;
    const float* second = nullptr;
    float* y = nullptr;
    int64_t n = 0, n_rows = 0, gate_width = 0;

    int64_t n_items() const override;
    void run(int64_t item, std::byte* scratch) const override;
};

/// The experts of a row (ids_out set) or their weights (weights set).
struct RouteTask : Task {
    const Kernels* kernels = nullptr;
    graph::RouteParams params;
    const float* logits = nullptr;
    const float* bias = nullptr;   ///< of the choice
    const int32_t* ids = nullptr;  ///< chosen, for weights
    const float* scale = nullptr;  ///< by expert, for weights
    int32_t* ids_out = nullptr;
    float* weights = nullptr;
    int64_t n_expert = 0, n_rows = 0;

    int64_t n_items() const override { return n_rows; }

    size_t scratch_bytes() const override;
    void run(int64_t item, std::byte* scratch) const override;

  private:
    void scores(const float* row, float* out) const;
    void limit_groups(float* selection, float* values) const;
    void choose(int64_t row, float* selection, float* values) const;
    void weigh(int64_t row, float* score) const;
};

/// Pairs (row, choice) sorted by expert: what products by expert share.
struct ExpertGroups {
    int32_t* n_active = nullptr;  ///< [1]
    int32_t* active = nullptr;    ///< [n_expert] experts with pairs, ascending
    int32_t* start = nullptr;     ///< [n_expert + 1]
    int32_t* order = nullptr;     ///< [n_pairs] by expert, then by pair; pairs without a valid expert at the end
    int64_t n_expert = 0, n_pairs = 0;

    /// Lays it out at `base` (4-byte aligned).
    static ExpertGroups at(std::byte* base, int64_t n_expert, int64_t n_pairs);
    static size_t bytes(int64_t n_expert, int64_t n_pairs);
};

struct GroupTask : Task {
    const int32_t* ids = nullptr;
    ExpertGroups groups;

    int64_t n_items() const override { return 1; }

    void run(int64_t item, std::byte* scratch) const override;
};

/// Columns of an image, or rows of floats, brought into the order of the groups.
struct GatherTask : Task {
    ExpertGroups groups;
    int64_t per_column = 1;  ///< pairs that share a column: n_used for an x that all experts of a row read, else 1
    ActImage from{}, to{};
    const float* x = nullptr;  ///< dense: [n_columns][k] to packed [k][n_pairs]
    float* packed = nullptr;
    int64_t k = 0;

    int64_t n_items() const override;
    void run(int64_t item, std::byte* scratch) const override;
};

/// y[pair] = W[expert of the pair] x (+ bias): one pass over an expert's tiles for all of its pairs.
struct MatmulIdTask : Task {
    const Kernels* kernels = nullptr;
    Matrix w;  ///< of expert 0; the others follow
    ExpertGroups groups;
    ActImage image{};
    const float* packed = nullptr;
    const float* bias = nullptr;
    float* y = nullptr;
    int64_t groups_per_item = 1;

    int64_t n_items() const override { return std::min(groups.n_expert, groups.n_pairs) * chunks() + 1; }

    size_t scratch_bytes() const override;
    void run(int64_t item, std::byte* scratch) const override;

  private:
    int64_t chunks() const { return (w.layout.n_groups + groups_per_item - 1) / groups_per_item; }

    void run_expert(int64_t expert, int64_t first, int64_t last, std::byte* scratch) const;
    void store(const float* acc, int64_t expert, int64_t group, int64_t column, int64_t n) const;
};

struct WeightedSumTask : Task {
    const Kernels* kernels = nullptr;
    const float* x = nullptr;
    const float* w = nullptr;
    float* y = nullptr;
    int64_t n = 0, n_x = 0, n_rows = 0;

    int64_t n_items() const override { return n_rows; }

    void run(int64_t item, std::byte*) const override {
        kernels->weighted_sum(x + item * n_x * n, n, w + item * n_x, n_x, y + item * n, n);
    }
};

/// Rings of states by slot (graph::StateParams).
struct StateRing {
    float* base = nullptr;
    int64_t n_slots = 0, ring = 1, cell_size = 0;

    /// Null for rows that a caller numbered wrongly: they see zeros and leave nothing.
    float* cell(int64_t slot, int64_t count) const {
        return slot < 0 || slot >= n_slots || count < 0 ? nullptr : base + (slot * ring + count % ring) * cell_size;
    }
};

/// An item is a range of channels; rows go one by one through the ring.
struct ShortConvTask : Task {
    const Kernels* kernels = nullptr;
    const float* x = nullptr;
    const float* taps = nullptr;  ///< [n_channels][n_taps]
    float* y = nullptr;
    const int32_t* pos = nullptr;
    const int32_t* slot = nullptr;
    StateRing state;
    int64_t n_taps = 0, n_channels = 0, n_rows = 0;
    bool silu = false;

    int64_t n_items() const override;
    size_t scratch_bytes() const override;
    void run(int64_t item, std::byte* scratch) const override;
};

struct DecayTask : Task {
    const Kernels* kernels = nullptr;
    const float* alpha = nullptr;
    const float* dt = nullptr;
    const float* a = nullptr;
    float* y = nullptr;
    int64_t n = 0, n_rows = 0;

    int64_t n_items() const override { return n_rows; }

    void run(int64_t item, std::byte* scratch) const override;
};

/// An item is some columns of a value head; rows go one by one from cell to cell.
struct DeltaNetTask : Task {
    const Kernels* kernels = nullptr;
    const float *q = nullptr, *k = nullptr, *v = nullptr, *decay = nullptr, *beta = nullptr;
    float* y = nullptr;
    const int32_t* from = nullptr;
    const int32_t* to = nullptr;
    float* cells = nullptr;  ///< [n_cells][n_value][d][d]
    int64_t n_cells = 0;
    int64_t d = 0, n_key = 0, n_value = 0, n_rows = 0, columns_per_item = 64;
    bool modulo = false;

    int64_t n_items() const override { return n_value * ((d + columns_per_item - 1) / columns_per_item); }

    size_t scratch_bytes() const override { return static_cast<size_t>(d * d) * sizeof(float); }

    /// Null for cells that a caller numbered wrongly: such rows see zeros and leave nothing.
    float* cell(int32_t number) const {
        return number < 0 || number >= n_cells ? nullptr : cells + number * n_value * d * d;
    }

    void run(int64_t item, std::byte* scratch) const override;
};

}  // namespace foresay::cpu
