#include "backend/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "backend/cpu/compiler.h"
#include "backend/cpu/kernels/kernel_abi.h"

namespace foresay::cpu {
namespace {

class CpuBuffer : public backend::Buffer {
  public:
    explicit CpuBuffer(Memory memory) : memory_(std::move(memory)) {}

    std::byte* data() override { return memory_.data(); }

    size_t size() const override { return memory_.size(); }

  private:
    Memory memory_;
};

constexpr int64_t kSlabBytes = 16 << 20;  // of a weight packed at once: what a load needs beside the tiles

Error no_memory(std::string_view what, size_t bytes) {
    return error(Code::kOutOfMemory, fmt::format("can't allocate {} bytes for {}", bytes, what), "cpu");
}

size_t plain_bytes(DType dtype, const std::array<int64_t, 4>& ne) {
    return row_bytes(dtype, ne[0]) * static_cast<size_t>(ne[1] * ne[2] * ne[3]);
}

}  // namespace

Result<std::unique_ptr<CpuBackend>> CpuBackend::create(const CpuOptions& options) {
    FORESAY_TRY(const Isa isa, parse_isa(options.isa));
    FORESAY_TRY(auto pool, ThreadPool::create(options.n_threads > 0 ? options.n_threads : ThreadPool::n_cpus()));
    return std::unique_ptr<CpuBackend>(new CpuBackend(isa, options, std::move(pool)));
}

bool CpuBackend::supports(const graph::Graph& graph, graph::TensorId node) const {
    const graph::Tensor& t = graph.tensor(node);
    return std::all_of(t.sources().begin(), t.sources().end(), [&](graph::TensorId id) {
        const graph::Storage* storage = graph.tensor(id).storage;
        return storage == nullptr || storage->owner == this || storage->data != nullptr;
    });
}

Result<std::unique_ptr<backend::Buffer>> CpuBackend::allocate(size_t bytes) {
    Memory memory = Memory::allocate(bytes);
    if (memory.data() == nullptr) {
        return no_memory("activations", bytes);
    }
    return std::make_unique<CpuBuffer>(std::move(memory));
}

void CpuBackend::write(std::byte* dst, std::span<const std::byte> src) {
    std::memcpy(dst, src.data(), src.size());
}

void CpuBackend::read(std::span<std::byte> dst, const std::byte* src) {
    std::memcpy(dst.data(), src, dst.size());
}

Result<std::unique_ptr<graph::Storage>> CpuBackend::load_weight(const backend::WeightRequest& request) {
    const size_t expected = plain_bytes(request.dtype, request.ne);
    if (request.bytes.size() != expected) {
        return error(Code::kInvalidArgument,
                     fmt::format("{} bytes given, the shape needs {}", request.bytes.size(), expected),
                     std::string(request.name));
    }
    auto storage = std::make_unique<CpuStorage>();
    storage->owner = this;
    storage->dtype = request.dtype;
    storage->ne = request.ne;
    const bool in_product = request.used_by_mul_mat && dtype_info(request.dtype).is_weight && request.ne[3] == 1;
    const bool in_tiles = repack_ && in_product;
    ++n_weights_[{dtype_name(request.dtype),
                  in_product ? product_path(request.dtype, isa_name(isa_), repack_) : std::string("plain")}];
    if (in_tiles) {
        // Experts follow each other, each in tiles of its own.
        storage->layout = make_tile_layout(request.dtype, request.ne[0], request.ne[1]);
        const int64_t n_matrices = request.ne[2];
        const size_t matrix_bytes = expected / static_cast<size_t>(n_matrices);
        const size_t tile_bytes = storage->layout.bytes() * static_cast<size_t>(n_matrices);
        storage->piece = arena_.allocate(tile_bytes);
        if (storage->piece.data == nullptr) {
            return no_memory(request.name, tile_bytes);
        }
        auto* tiles = reinterpret_cast<uint8_t*>(storage->piece.data);
        const TileLayout& layout = storage->layout;
        const size_t group_bytes = row_bytes(request.dtype, request.ne[0]) * kTileRows;
        const auto offset_of = [&](int64_t group) {
            return static_cast<size_t>(group / layout.n_groups) * matrix_bytes +
                   static_cast<size_t>(group % layout.n_groups) * group_bytes;
        };
        const int64_t n_groups = n_matrices * layout.n_groups;
        const int64_t slab = std::max<int64_t>(kSlabBytes / static_cast<int64_t>(group_bytes), 1);
        for (int64_t begin = 0; begin < n_groups; begin += slab) {
            const int64_t end = std::min(begin + slab, n_groups);
            pool_->for_chunks(end - begin, 4, [&](int64_t first, int64_t last) {
                for (int64_t group = begin + first; group < begin + last; ++group) {
                    const auto matrix = static_cast<size_t>(group / layout.n_groups);
                    pack_group(layout, request.bytes.data() + matrix * matrix_bytes, group % layout.n_groups,
                               tiles + group * layout.group_bytes);
                }
            });
            if (request.consumed) {
                const size_t from = offset_of(begin);
                request.consumed(request.bytes.subspan(from, (end < n_groups ? offset_of(end) : expected) - from));
            }
        }
        storage->tiles = tiles;
        storage->bytes = tile_bytes;
        if (request.used_by_get_rows && request.keep_mapped) {
            storage->data = const_cast<std::byte*>(request.bytes.data());
            storage->bytes += expected;  // rows are read from the file's pages
        }
        return storage;
    }
    if (request.keep_mapped) {
        // Weights are read only; the interface's pointer is mutable because caches share the type.
        storage->data = const_cast<std::byte*>(request.bytes.data());
        storage->bytes = expected;
        return storage;
    }
    storage->piece = arena_.allocate(expected);
    if (storage->piece.data == nullptr) {
        return no_memory(request.name, expected);
    }
    std::memcpy(storage->piece.data, request.bytes.data(), expected);
    if (request.consumed) {
        request.consumed(request.bytes);
    }
    storage->data = storage->piece.data;
    storage->bytes = expected;
    return storage;
}

std::string CpuBackend::weights_summary() const {
    std::string text;
    for (const auto& [key, count] : n_weights_) {
        text += fmt::format("{}{} {}: {}", text.empty() ? "" : "; ", count, key.first, key.second);
    }
    return text;
}

Result<std::unique_ptr<graph::Storage>> CpuBackend::allocate_state(DType dtype, std::array<int64_t, 4> ne) {
    auto storage = std::make_unique<CpuStorage>();
    storage->owner = this;
    storage->dtype = dtype;
    storage->ne = ne;
    const size_t bytes = plain_bytes(dtype, ne);
    storage->memory = Memory::allocate(bytes);
    if (storage->memory.data() == nullptr) {
        return no_memory("state", bytes);
    }
    storage->data = storage->memory.data();
    storage->bytes = storage->memory.resident_bytes();
    return storage;
}

Result<std::unique_ptr<backend::Program>> CpuBackend::compile(const graph::Graph& graph,
                                                              std::span<const graph::TensorId> nodes,
                                                              const backend::Placement& placement) {
    FORESAY_TRY(
        auto program,
        compile_program({.backend = this, .kernels = &kernels_of(isa_), .n_threads = n_threads(), .fuse = fuse_}, graph,
                        nodes, placement));
    return program;
}

void CpuBackend::run(backend::Program& program) {
    const auto& list = static_cast<const CpuProgram&>(program);
    pool_->run_steps(
        static_cast<int64_t>(list.phases.size()),
        [&list](int64_t i) {
            return PoolStep{list.phases[static_cast<size_t>(i)].n_items, 1};
        },
        [&list](const PoolChunk& chunk) {
            const Phase& phase = list.phases[static_cast<size_t>(chunk.step)];
            std::byte* scratch = list.scratch[static_cast<size_t>(chunk.thread)].data();
            for (int64_t item = chunk.begin; item < chunk.end; ++item) {
                size_t i = phase.tasks.size() - 1;
                while (phase.first_item[i] > item) {
                    --i;
                }
                phase.tasks[i]->run(item - phase.first_item[i], scratch);
            }
        });
}

}  // namespace foresay::cpu
