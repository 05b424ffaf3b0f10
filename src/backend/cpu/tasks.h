// The tasks of the CPU backend. Each is plain data set by the compiler, plus run(). Private to backend/cpu.
#pragma once

#include <span>

#include "backend/cpu/task.h"
#include "backend/cpu/tile_layout.h"
#include "graph/graph.h"

namespace foresay::cpu {

inline constexpr int64_t kActBlock = 32;
/// Columns per pass over a row group's tiles: their sums (4 kB) and the tile stay in L1, a chunk's activations in L2.
inline constexpr int64_t kColumnBlock = 64;

/// Lays an image for k x n_columns out at `base` (64-byte aligned); image_bytes() of the same arguments are used.
ActImage make_image(std::byte* base, int64_t k, int64_t n_columns, uint32_t need);
size_t image_bytes(int64_t k, int64_t n_columns, uint32_t need);
inline constexpr uint32_t kAllNeeds = kNeedSum | kNeedSumHalf | ((1u << kActStarts) - 1);

/// The image as seen from one of its columns on.
ActImage column_view(const ActImage& image, int64_t column);

/// A weight as products see it: tiles, or (plain != null) a matrix in file layout that is packed as it is used.
struct Matrix {
    TileLayout layout;
    const uint8_t* tiles = nullptr;
    const std::byte* plain = nullptr;
};

struct QuantizeTask : Task {
    const Kernels* kernels = nullptr;
    const float* x = nullptr;  ///< [n_columns][k]
    int64_t k = 0, n_columns = 0;
    ActImage image{};

    int64_t n_items() const override;
    void run(int64_t item, std::byte* scratch) const override;
};

/// y = norm(x) * w per row, and y quantised when image.q is set.
struct NormTask : Task {
    const Kernels* kernels = nullptr;
    const float* x = nullptr;
    const float* w = nullptr;
    float* y = nullptr;
    int64_t n = 0, n_rows = 0, rows_per_item = 1;
    float epsilon = 0.0F;
    ActImage image{};

    int64_t n_items() const override { return (n_rows + rows_per_item - 1) / rows_per_item; }

    void run(int64_t item, std::byte* scratch) const override;
};

/// y = W x (+ bias) (+ residual).
struct MatmulTask : Task {
    const Kernels* kernels = nullptr;
    Matrix w;
    ActImage image{};
    const float* packed = nullptr;  ///< dense: x as [k][n_columns]
    int64_t n_columns = 0;
    const float* bias = nullptr;
    const float* residual = nullptr;
    float* y = nullptr;
    int64_t groups_per_item = 1;

    int64_t n_items() const override { return (w.layout.n_groups + groups_per_item - 1) / groups_per_item; }

    size_t scratch_bytes() const override;
    void run(int64_t item, std::byte* scratch) const override;

  private:
    void run_dense(int64_t first, int64_t last, std::byte* scratch) const;
    void store(const float* acc, int64_t group, int64_t column, int64_t n) const;
};

/// y = act(Wg x) * (Wu x), and y quantised when out_image.q is set: pairs of row groups give whole blocks of 32.
struct GluTask : Task {
    const Kernels* kernels = nullptr;
    Matrix gate, up;
    ActImage image{};
    ActImage out_image{};
    int64_t n_columns = 0;
    bool is_gelu = false;
    float* y = nullptr;
    int64_t pairs_per_item = 1;

    int64_t n_items() const override;
    size_t scratch_bytes() const override;
    void run(int64_t item, std::byte* scratch) const override;
};

/// Transposes x [n_columns][k] to [k][n_columns] for dense products.
struct PackTask : Task {
    const float* x = nullptr;
    float* packed = nullptr;
    int64_t k = 0, n_columns = 0;

    int64_t n_items() const override { return (k + 255) / 256; }

    void run(int64_t item, std::byte* scratch) const override;
};

struct ElementTask : Task {
    const Kernels* kernels = nullptr;
    graph::Op op = graph::Op::kAdd;
    const float* x = nullptr;
    const float* second = nullptr;
    float* y = nullptr;
    int64_t n = 0;
    int64_t period = 0;  ///< elements of `second`: n, or one row
    float factor = 0.0F;

    int64_t n_items() const override;
    void run(int64_t item, std::byte* scratch) const override;
};

struct CopyTask : Task {
    const Kernels* kernels = nullptr;
    DType from = DType::kF32, to = DType::kF32;
    const std::byte* x = nullptr;
    std::byte* y = nullptr;
    int64_t n = 0;

    int64_t n_items() const override;
    void run(int64_t item, std::byte* scratch) const override;
};

struct GetRowsTask : Task {
    Matrix table;
    const int32_t* ids = nullptr;
    float* y = nullptr;
    int64_t n_ids = 0;

    int64_t n_items() const override { return n_ids; }

    void run(int64_t item, std::byte* scratch) const override;
};

/// Rows of x into a cache row; used alone and behind rope.
struct CacheWriter {
    const Kernels* kernels = nullptr;
    DType dtype = DType::kF32;
    std::byte* cache = nullptr;
    int64_t width = 0, n_cells = 0;
    const int32_t* rows = nullptr;

    void write(int64_t t, const float* x, std::byte* scratch) const;
    size_t scratch_bytes() const;
};

struct SetRowsTask : Task {
    CacheWriter writer;
    const float* x = nullptr;
    int64_t n_rows = 0;

    int64_t n_items() const override { return n_rows; }

    size_t scratch_bytes() const override { return writer.scratch_bytes(); }

    void run(int64_t item, std::byte* scratch) const override { writer.write(item, x + item * writer.width, scratch); }
};

/// cos and sin per (token, pair) for all rope nodes with the same positions and parameters.
struct RopeTableTask : Task {
    graph::RopeParams params;
    std::vector<double> base;  ///< by pair: pow(base, -2j / n_rot), then rho
    const int32_t* pos = nullptr;
    const float* factors = nullptr;
    float* table = nullptr;  ///< [n_tokens][cos n_pairs, sin n_pairs]
    int64_t n_tokens = 0;

    void prepare();

    int64_t n_items() const override { return n_tokens; }

    void run(int64_t item, std::byte* scratch) const override;
};

/// Rotates all heads of a token, then writes them to a cache when writer.cache is set.
struct RopeTask : Task {
    const Kernels* kernels = nullptr;
    const float* x = nullptr;
    float* y = nullptr;
    const float* table = nullptr;
    int64_t d = 0, n_head = 0, n_tokens = 0, n_pairs = 0;
    bool neox = false;
    CacheWriter writer;

    int64_t n_items() const override { return n_tokens; }

    size_t scratch_bytes() const override { return writer.scratch_bytes(); }

    void run(int64_t item, std::byte* scratch) const override;
};

/// Rows are cut into chunks, key heads into parts of their query heads; an item is (chunk, key head, part).
struct AttentionTask : Task {
    const Kernels* kernels = nullptr;
    graph::AttentionParams params;
    const float* q = nullptr;
    float* y = nullptr;
    const std::byte* k = nullptr;
    const std::byte* v = nullptr;
    DType k_dtype = DType::kF16, v_dtype = DType::kF16;
    const int32_t* pos = nullptr;
    const int32_t* kv_base = nullptr;
    const float* sinks = nullptr;
    int64_t d = 0, dv = 0, n_head = 0, n_tokens = 0, n_cells = 0;
    int64_t rows_per_item = 1, heads_per_item = 1;
    ActImage image{};  ///< y quantised when image.q is set

    /// Chooses rows_per_item and heads_per_item.
    void split(int n_threads);
    int64_t n_items() const override;
    size_t scratch_bytes() const override;
    void run(int64_t item, std::byte* scratch) const override;
};

}  // namespace foresay::cpu
