#include "backend/cpu/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/simple_tasks.h"
#include "backend/cpu/tasks.h"
#include "backend/cpu/tasks_experts.h"
#include "base/checked.h"

namespace foresay::cpu {
namespace {

using graph::Op;
using graph::TensorId;

/// Where a quantised (or packed) form of a tensor lives. Two slots: a fused gate-up-activation reads one and writes the
/// other.
struct Slot {
    std::byte* base = nullptr;
    size_t bytes = 0;
    TensorId tensor = graph::kNoTensor;  ///< what it holds now
    ActImage image{};
    uint64_t last_use = 0;
};

struct RopeTable {
    TensorId pos, factors;
    graph::OpParams params;
    const float* table;
};

struct GroupedRows {
    TensorId ids;
    ExpertGroups groups;
    Extent extent;
};

class Compiler {
  public:
    Compiler(const CompileContext& context, const graph::Graph& graph, std::span<const TensorId> nodes,
             const backend::Placement& placement)
        : context_(context),
          graph_(graph),
          nodes_(nodes),
          placement_(placement),
          program_(std::make_unique<CpuProgram>()) {}

    Result<std::unique_ptr<CpuProgram>> run();

  private:
    Status prepare();
    Status add_node(size_t* i);
    Status add_mul_mat(size_t* i);
    Status add_mul_mat_id(TensorId id);
    Result<GroupedRows> grouped(TensorId id);
    bool try_glu(size_t* i);
    void add_norm(TensorId id);
    void add_element(TensorId id);
    Status add_rope(size_t* i);
    void add_attention(TensorId id);
    void add_set_rows(TensorId id);
    void add_get_rows(TensorId id);
    void add_copy(TensorId id);

    const graph::Tensor& tensor(TensorId id) const { return graph_.tensor(id); }

    const graph::Tensor& src(TensorId id, size_t i) const { return tensor(tensor(id).src[i]); }

    std::byte* result(TensorId id) const { return placement_.result(id); }

    float* result_f32(TensorId id) const { return reinterpret_cast<float*>(result(id)); }

    std::byte* source(TensorId id, int i) const { return placement_.source(id, i); }

    float* source_f32(TensorId id, int i) const { return reinterpret_cast<float*>(source(id, i)); }

    const int32_t* source_i32(TensorId id, int i) const { return reinterpret_cast<const int32_t*>(source(id, i)); }

    Matrix matrix(TensorId id, int i) const;

    bool only_used_by_next(TensorId id) const {
        return uses_[index(id)] == 1 && (tensor(id).flags & graph::kOutput) == 0;
    }

    /// The next node after position i that isn't a view; nodes_.size() when there is none.
    size_t next(size_t i) const;

    uint32_t need(TensorId id) const { return needs_[index(id)]; }

    Slot* find_slot(TensorId id);
    Slot* take_slot(const Slot* keep);
    /// A slot with the quantised form of node id's operand i, adding the task that fills it where needed.
    Slot* quantized(TensorId id, int i);
    Slot* image_for_result(TensorId id, int64_t k, int64_t n_columns, const Slot* keep);
    const float* rope_table(TensorId id, const graph::RopeParams& params);

    void reads(Task& task, const void* p, size_t bytes) {
        task.reads.push_back({static_cast<const std::byte*>(p), bytes});
    }

    void writes(Task& task, const void* p, size_t bytes) {
        task.writes.push_back({static_cast<const std::byte*>(p), bytes});
    }

    void reads_source(Task& task, TensorId id, int i) {
        reads(task, source(id, i), src(id, static_cast<size_t>(i)).span_bytes());
    }

    void writes_result(Task& task, TensorId id) { writes(task, result(id), tensor(id).span_bytes()); }

    void writes_slot(Task& task, const Slot& slot) { writes(task, slot.base, slot.bytes); }

    /// Into the last phase when it touches nothing that the phase's tasks touch, else into a new one.
    void add(std::unique_ptr<Task> task);
    Result<std::byte*> memory(size_t bytes, std::string_view what);

    const CompileContext& context_;
    const graph::Graph& graph_;
    std::span<const TensorId> nodes_;
    const backend::Placement& placement_;
    std::unique_ptr<CpuProgram> program_;
    std::vector<uint32_t> uses_;  // by tensor: operands that name it, in the whole graph
    std::vector<uint32_t>
        needs_;  // by tensor: ActNeed bits of the quantised products over it; kQuantized when there is any
    std::array<Slot, 2> slots_;
    std::array<Slot, 2> expert_slots_;  // operands of products by expert, in the order of the groups
    std::array<TensorId, 2> expert_ids_{graph::kNoTensor, graph::kNoTensor};
    std::vector<GroupedRows> grouped_;
    std::vector<RopeTable> tables_;
    uint64_t clock_ = 0;
    Status memory_status_;
};

constexpr uint32_t kQuantized = 1u << 31;  // a type without sums or starts still needs the image

bool overlap(const std::vector<Extent>& a, const std::vector<Extent>& b) {
    return std::any_of(a.begin(), a.end(), [&b](const Extent& x) {
        return std::any_of(b.begin(), b.end(), [&x](const Extent& y) {
            return x.begin < y.begin + y.bytes && y.begin < x.begin + x.bytes;
        });
    });
}

void Compiler::add(std::unique_ptr<Task> task) {
    auto& phases = program_->phases;
    const auto conflicts = [&task](const std::unique_ptr<Task>& other) {
        return overlap(task->reads, other->writes) || overlap(task->writes, other->reads) ||
               overlap(task->writes, other->writes);
    };
    if (phases.empty() || !context_.fuse ||
        std::any_of(phases.back().tasks.begin(), phases.back().tasks.end(), conflicts)) {
        phases.emplace_back();
    }
    Phase& phase = phases.back();
    phase.first_item.push_back(phase.n_items);
    phase.n_items += task->n_items();
    phase.tasks.push_back(std::move(task));
}

Result<std::byte*> Compiler::memory(size_t bytes, std::string_view what) {
    Memory block = Memory::allocate(bytes);
    if (block.data() == nullptr) {
        return error(Code::kOutOfMemory, fmt::format("can't allocate {} bytes for {}", bytes, what), "cpu");
    }
    program_->memory.push_back(std::move(block));
    return program_->memory.back().data();
}

size_t Compiler::next(size_t i) const {
    do {
        ++i;
    } while (i < nodes_.size() && tensor(nodes_[i]).op == Op::kView);
    return i;
}

Matrix Compiler::matrix(TensorId id, int i) const {
    const graph::Tensor& w = src(id, static_cast<size_t>(i));
    Matrix m;
    m.layout = make_tile_layout(w.dtype, w.ne[0], w.ne[1]);
    if (w.storage != nullptr && w.storage->owner == context_.backend && (w.flags & graph::kWeight) != 0) {
        m.tiles = static_cast<const CpuStorage*>(w.storage)->tiles;
    }
    if (m.tiles == nullptr || tensor(id).op == Op::kGetRows) {
        m.plain = source(id, i);
    }
    return m;
}

Slot* Compiler::find_slot(TensorId id) {
    for (Slot& slot : slots_) {
        if (slot.tensor == id) {
            slot.last_use = ++clock_;
            return &slot;
        }
    }
    return nullptr;
}

Slot* Compiler::take_slot(const Slot* keep) {
    Slot* slot = &slots_[0];
    if (slot == keep || (&slots_[1] != keep && slots_[1].last_use < slot->last_use)) {
        slot = &slots_[1];
    }
    slot->last_use = ++clock_;
    return slot;
}

Slot* Compiler::image_for_result(TensorId id, int64_t k, int64_t n_columns, const Slot* keep) {
    Slot* slot = take_slot(keep);
    slot->tensor = id;
    slot->image = make_image(slot->base, k, n_columns, need(id) & kAllNeeds);
    return slot;
}

Slot* Compiler::quantized(TensorId id, int i) {
    const TensorId x = tensor(id).src[static_cast<size_t>(i)];
    if (Slot* slot = context_.fuse ? find_slot(x) : nullptr; slot != nullptr) {
        return slot;
    }
    const graph::Tensor& t = tensor(x);
    Slot* slot = image_for_result(x, t.ne[0], t.n_rows(), nullptr);
    auto task = std::make_unique<QuantizeTask>();
    task->kernels = context_.kernels;
    task->x = source_f32(id, i);
    task->k = t.ne[0];
    task->n_columns = t.n_rows();
    task->image = slot->image;
    reads_source(*task, id, i);
    writes_slot(*task, *slot);
    add(std::move(task));
    return slot;
}

/// Row groups per item: 8 items per thread and more where the matrix allows, so that a thread that is held up costs
/// little; 4 groups (64 rows) at most, 1 at least.
int64_t groups_per_item(int64_t n_groups, int n_threads) {
    return std::clamp<int64_t>(n_groups / (8 * n_threads), 1, 4);
}

bool Compiler::try_glu(size_t* i) {
    const size_t second = next(*i);
    const size_t third = second < nodes_.size() ? next(second) : second;
    if (!context_.fuse || third >= nodes_.size()) {
        return false;
    }
    const TensorId a = nodes_[*i];
    const TensorId b = nodes_[second];
    const TensorId glu = nodes_[third];
    const graph::Tensor& g = tensor(glu);
    if (tensor(b).op != Op::kMulMat || (g.op != Op::kSwiglu && g.op != Op::kGeglu) || tensor(a).n_src != 2 ||
        tensor(b).n_src != 2 || tensor(a).src[1] != tensor(b).src[1] || !only_used_by_next(a) ||
        !only_used_by_next(b)) {
        return false;
    }
    const bool in_order = g.src[0] == a && g.src[1] == b;
    if (!in_order && !(g.src[0] == b && g.src[1] == a)) {
        return false;
    }
    const TensorId gate = in_order ? a : b;
    const TensorId up = in_order ? b : a;
    auto task = std::make_unique<GluTask>();
    task->gate = matrix(gate, 0);
    task->up = matrix(up, 0);
    if (task->gate.layout.is_dense || task->up.layout.is_dense) {
        return false;
    }
    const Slot* in = quantized(a, 1);
    task->kernels = context_.kernels;
    task->image = in->image;
    task->n_columns = tensor(a).ne[1];
    task->is_gelu = g.op == Op::kGeglu;
    task->y = result_f32(glu);
    task->pairs_per_item = (groups_per_item(task->gate.layout.n_groups, context_.n_threads) + 1) / 2;
    reads(*task, in->base, in->bytes);
    writes_result(*task, glu);
    if ((need(glu) & kQuantized) != 0) {
        const Slot* out = image_for_result(glu, g.ne[0], task->n_columns, in);
        task->out_image = out->image;
        writes_slot(*task, *out);
    }
    add(std::move(task));
    *i = third;
    return true;
}

Status Compiler::add_mul_mat(size_t* i) {
    if (try_glu(i)) {
        return ok();
    }
    const TensorId id = nodes_[*i];
    auto task = std::make_unique<MatmulTask>();
    task->kernels = context_.kernels;
    task->w = matrix(id, 0);
    if (task->w.tiles == nullptr && task->w.plain == nullptr) {
        return error(Code::kUnsupported, fmt::format("'{}' has no layout that this backend can read", src(id, 0).name),
                     fmt::format("node {} (mul_mat) on cpu", graph::index(id)));
    }
    task->n_columns = src(id, 1).ne[1];
    task->y = result_f32(id);
    const bool dense = task->w.layout.is_dense;
    if (dense) {
        const TensorId x = tensor(id).src[1];
        if (task->n_columns == 1) {
            task->packed = source_f32(id, 1);
            reads_source(*task, id, 1);
        } else {
            Slot* slot = take_slot(nullptr);
            slot->tensor = graph::kNoTensor;  // a packed form is no image
            auto pack = std::make_unique<PackTask>();
            pack->x = source_f32(id, 1);
            pack->packed = reinterpret_cast<float*>(slot->base);
            pack->k = tensor(x).ne[0];
            pack->n_columns = task->n_columns;
            task->packed = pack->packed;
            reads_source(*pack, id, 1);
            writes_slot(*pack, *slot);
            add(std::move(pack));
            reads(*task, slot->base, slot->bytes);
        }
        task->groups_per_item = std::min<int64_t>(
            kDenseGroupsMax, std::max<int64_t>(1, task->w.layout.n_groups / (4 * context_.n_threads)));
    } else {
        const Slot* slot = quantized(id, 1);
        task->image = slot->image;
        reads(*task, slot->base, slot->bytes);
        task->groups_per_item = groups_per_item(task->w.layout.n_groups, context_.n_threads);
    }
    if (tensor(id).n_src == 3) {
        task->bias = source_f32(id, 2);
        reads_source(*task, id, 2);
    }
    // y = W x + other, when the sum follows at once: then nothing between can hold the memory that the sum gets. Dense
    // products may read x itself, whose memory the sum may get.
    const size_t follower = next(*i);
    if (context_.fuse && !dense && follower < nodes_.size() && tensor(nodes_[follower]).op == Op::kAdd &&
        only_used_by_next(id)) {
        const TensorId sum = nodes_[follower];
        const int other = tensor(sum).src[0] == id ? 1 : 0;
        if (tensor(sum).src[static_cast<size_t>(1 - other)] == id && src(sum, 0).ne == src(sum, 1).ne) {
            task->residual = source_f32(sum, other);
            task->y = result_f32(sum);
            reads_source(*task, sum, other);
            writes_result(*task, sum);
            *i = follower;
            add(std::move(task));
            return ok();
        }
    }
    writes_result(*task, id);
    add(std::move(task));
    return ok();
}

/// Pairs sorted by expert: once per choice, for all products that use it.
Result<GroupedRows> Compiler::grouped(TensorId id) {
    const TensorId ids = tensor(id).src[2];
    for (const GroupedRows& known : grouped_) {
        if (known.ids == ids && known.groups.n_expert == src(id, 0).ne[2]) {
            return known;
        }
    }
    const int64_t n_expert = src(id, 0).ne[2];
    const int64_t n_pairs = tensor(ids).n_elements();
    const size_t bytes = ExpertGroups::bytes(n_expert, n_pairs);
    FORESAY_TRY(std::byte * base, memory(bytes, "rows by expert"));
    auto task = std::make_unique<GroupTask>();
    task->ids = source_i32(id, 2);
    task->groups = ExpertGroups::at(base, n_expert, n_pairs);
    grouped_.push_back({ids, task->groups, {base, bytes}});
    reads_source(*task, id, 2);
    writes(*task, base, bytes);
    add(std::move(task));
    return grouped_.back();
}

Status Compiler::add_mul_mat_id(TensorId id) {
    auto task = std::make_unique<MatmulIdTask>();
    task->kernels = context_.kernels;
    task->w = matrix(id, 0);
    if (task->w.tiles == nullptr && task->w.plain == nullptr) {
        return error(Code::kUnsupported, fmt::format("'{}' has no layout that this backend can read", src(id, 0).name),
                     fmt::format("node {} (mul_mat_id) on cpu", graph::index(id)));
    }
    FORESAY_TRY(const GroupedRows rows, grouped(id));
    const TileLayout& layout = task->w.layout;
    const TensorId x = tensor(id).src[1];
    const int64_t n_pairs = rows.groups.n_pairs;
    size_t i = 0;
    while (i < 2 &&
           !(context_.fuse && !layout.is_dense && expert_slots_[i].tensor == x && expert_ids_[i] == rows.ids)) {
        ++i;
    }
    if (i == 2) {
        i = expert_slots_[0].last_use <= expert_slots_[1].last_use ? 0 : 1;
        Slot& slot = expert_slots_[i];
        auto gather = std::make_unique<GatherTask>();
        gather->groups = rows.groups;
        gather->per_column = n_pairs / tensor(x).n_rows();
        gather->k = layout.k;
        if (layout.is_dense) {
            slot.tensor = graph::kNoTensor;  // a packed form is no image
            gather->x = source_f32(id, 1);
            gather->packed = reinterpret_cast<float*>(slot.base);
            reads_source(*gather, id, 1);
        } else {
            const Slot* whole = quantized(id, 1);
            slot.tensor = x;
            slot.image = make_image(slot.base, layout.k, n_pairs, need(x) & kAllNeeds);
            gather->from = whole->image;
            gather->to = slot.image;
            reads(*gather, whole->base, whole->bytes);
        }
        expert_ids_[i] = rows.ids;
        reads(*gather, rows.extent.begin, rows.extent.bytes);
        writes_slot(*gather, slot);
        add(std::move(gather));
    }
    Slot& slot = expert_slots_[i];
    slot.last_use = ++clock_;
    task->groups = rows.groups;
    task->image = slot.image;
    task->packed = reinterpret_cast<const float*>(slot.base);
    task->y = result_f32(id);
    task->groups_per_item = groups_per_item(layout.n_groups, context_.n_threads);
    reads(*task, slot.base, slot.bytes);
    reads(*task, rows.extent.begin, rows.extent.bytes);
    if (tensor(id).n_src == 4) {
        task->bias = source_f32(id, 3);
        reads_source(*task, id, 3);
    }
    writes_result(*task, id);
    add(std::move(task));
    return ok();
}

void Compiler::add_norm(TensorId id) {
    const graph::Tensor& t = tensor(id);
    auto task = std::make_unique<NormTask>();
    task->kernels = context_.kernels;
    task->x = source_f32(id, 0);
    task->w = t.n_src == 2 ? source_f32(id, 1) : nullptr;
    task->y = result_f32(id);
    task->n = t.ne[0];
    task->n_rows = t.n_rows();
    task->rows_per_item = std::clamp<int64_t>(4096 / t.ne[0], 1, 16);
    task->epsilon = t.params.f[0];
    reads_source(*task, id, 0);
    if (t.n_src == 2) {
        reads_source(*task, id, 1);
    }
    writes_result(*task, id);
    if (context_.fuse && (need(id) & kQuantized) != 0) {
        const Slot* slot = image_for_result(id, t.ne[0], task->n_rows, nullptr);
        task->image = slot->image;
        writes_slot(*task, *slot);
    }
    add(std::move(task));
}

void Compiler::add_element(TensorId id) {
    const graph::Tensor& t = tensor(id);
    auto task = std::make_unique<ElementTask>();
    task->kernels = context_.kernels;
    task->op = t.op;
    task->x = source_f32(id, 0);
    task->y = result_f32(id);
    task->n = t.n_elements();
    task->factor = t.params.f[0];
    reads_source(*task, id, 0);
    if (t.n_src == 2) {
        task->second = source_f32(id, 1);
        task->period = src(id, 1).n_elements();
        reads_source(*task, id, 1);
    }
    writes_result(*task, id);
    add(std::move(task));
}

const float* Compiler::rope_table(TensorId id, const graph::RopeParams& params) {
    const graph::Tensor& t = tensor(id);
    const TensorId factors = t.n_src == 3 ? t.src[2] : graph::kNoTensor;
    for (const RopeTable& known : tables_) {
        if (known.pos == t.src[1] && known.factors == factors && known.params == t.params) {
            return known.table;
        }
    }
    const size_t bytes = static_cast<size_t>(t.ne[2] * params.n_rot) * sizeof(float);
    auto block = memory(bytes, "rope angles");
    if (!block.has_value()) {
        memory_status_ = std::move(block).error();
        return nullptr;
    }
    auto task = std::make_unique<RopeTableTask>();
    task->params = params;
    task->prepare();
    task->pos = source_i32(id, 1);
    task->factors = t.n_src == 3 ? source_f32(id, 2) : nullptr;
    task->table = reinterpret_cast<float*>(*block);
    task->n_tokens = t.ne[2];
    reads_source(*task, id, 1);
    if (t.n_src == 3) {
        reads_source(*task, id, 2);
    }
    writes(*task, *block, bytes);
    tables_.push_back({t.src[1], factors, t.params, task->table});
    add(std::move(task));
    return tables_.back().table;
}

CacheWriter cache_writer(const CompileContext& context, const graph::Tensor& node, std::byte* cache,
                         const int32_t* rows) {
    return {.kernels = context.kernels,
            .dtype = node.dtype,
            .cache = cache,
            .width = node.ne[0],
            .n_cells = node.ne[1],
            .rows = rows};
}

Status Compiler::add_rope(size_t* i) {
    const TensorId id = nodes_[*i];
    const graph::Tensor& t = tensor(id);
    const graph::RopeParams params = graph::unpack_rope(t.params);
    auto task = std::make_unique<RopeTask>();
    task->kernels = context_.kernels;
    task->table = rope_table(id, params);
    if (task->table == nullptr) {
        return memory_status_;
    }
    task->x = source_f32(id, 0);
    task->y = result_f32(id);
    task->d = t.ne[0];
    task->n_head = t.ne[1];
    task->n_tokens = t.ne[2];
    task->n_pairs = params.n_rot / 2;
    task->neox = params.pairing == graph::RopePairing::kNeox;
    reads_source(*task, id, 0);
    reads(*task, task->table, static_cast<size_t>(t.ne[2] * params.n_rot) * sizeof(float));
    writes_result(*task, id);
    // Rotated keys go to the cache at once when that is the next step: the store reads only what this item wrote.
    const size_t follower = next(*i);
    if (context_.fuse && follower < nodes_.size() && tensor(nodes_[follower]).op == Op::kSetRows) {
        const TensorId store = nodes_[follower];
        const TensorId x = tensor(store).src[1];
        if ((x == id || tensor(x).view_of == id) && source(store, 1) == result(id) && tensor(x).ne[1] == t.ne[2]) {
            task->writer = cache_writer(context_, tensor(store), result(store), source_i32(store, 2));
            reads_source(*task, store, 2);
            writes_result(*task, store);
            *i = follower;
        }
    }
    add(std::move(task));
    return ok();
}

void Compiler::add_set_rows(TensorId id) {
    auto task = std::make_unique<SetRowsTask>();
    task->writer = cache_writer(context_, tensor(id), result(id), source_i32(id, 2));
    task->x = source_f32(id, 1);
    task->n_rows = src(id, 1).ne[1];
    reads_source(*task, id, 1);
    reads_source(*task, id, 2);
    writes_result(*task, id);
    add(std::move(task));
}

void Compiler::add_get_rows(TensorId id) {
    auto task = std::make_unique<GetRowsTask>();
    task->table = matrix(id, 0);
    task->ids = source_i32(id, 1);
    task->y = result_f32(id);
    task->n_ids = src(id, 1).ne[0];
    if (task->table.plain != nullptr) {
        reads_source(*task, id, 0);
    }
    reads_source(*task, id, 1);
    writes_result(*task, id);
    add(std::move(task));
}

void Compiler::add_copy(TensorId id) {
    auto task = std::make_unique<CopyTask>();
    task->kernels = context_.kernels;
    task->from = src(id, 0).dtype;
    task->to = tensor(id).dtype;
    task->x = source(id, 0);
    task->y = result(id);
    task->n = tensor(id).n_elements();
    reads_source(*task, id, 0);
    writes_result(*task, id);
    add(std::move(task));
}

void Compiler::add_attention(TensorId id) {
    const graph::Tensor& t = tensor(id);
    auto task = std::make_unique<AttentionTask>();
    task->kernels = context_.kernels;
    task->params = graph::unpack_attention(t.params);
    task->q = source_f32(id, 0);
    task->y = result_f32(id);
    task->k = source(id, 1);
    task->v = source(id, 2);
    task->k_dtype = src(id, 1).dtype;
    task->v_dtype = src(id, 2).dtype;
    task->pos = source_i32(id, 3);
    task->kv_base = source_i32(id, 4);
    task->sinks = t.n_src == 6 ? source_f32(id, 5) : nullptr;
    task->d = src(id, 0).ne[0];
    task->n_head = src(id, 0).ne[1];
    task->n_tokens = src(id, 0).ne[2];
    task->n_cells = src(id, 1).ne[1];
    task->dv = src(id, 2).ne[0] / task->params.n_head_kv;
    task->split(context_.n_threads);
    for (int i = 0; i < t.n_src; ++i) {
        reads_source(*task, id, i);
    }
    writes_result(*task, id);
    if (context_.fuse && (need(id) & kQuantized) != 0 && task->dv % kActBlock == 0) {
        const Slot* slot = image_for_result(id, t.ne[0], t.ne[1], nullptr);
        task->image = slot->image;
        writes_slot(*task, *slot);
    }
    add(std::move(task));
}

Status Compiler::add_node(size_t* i) {
    const TensorId id = nodes_[*i];
    switch (tensor(id).op) {
        case Op::kNone:
        case Op::kView:
        case Op::kCount:
            return ok();
        case Op::kGetRows:
            add_get_rows(id);
            return ok();
        case Op::kMulMat:
            return add_mul_mat(i);
        case Op::kMulMatId:
            return add_mul_mat_id(id);
        case Op::kRmsNorm:
            add_norm(id);
            return ok();
        case Op::kRope:
            return add_rope(i);
        case Op::kSetRows:
            add_set_rows(id);
            return ok();
        case Op::kAttention:
            add_attention(id);
            return ok();
        case Op::kCopy:
            add_copy(id);
            return ok();
        case Op::kAdd:
        case Op::kMul:
        case Op::kScale:
        case Op::kSwiglu:
        case Op::kGeglu:
        case Op::kSoftcap:
            add_element(id);
            return ok();
        case Op::kColumns:
        case Op::kMulSigmoid:
        case Op::kSwigluOai:
        case Op::kRouteIds:
        case Op::kRouteWeights:
        case Op::kWeightedSum:
        case Op::kShortConv:
        case Op::kDecay:
        case Op::kDeltaNet:
            add(make_simple_task(*context_.kernels, graph_, id, placement_));
            return ok();
    }
    return ok();
}

/// Who uses what, and slots large enough for every operand of a product.
Status Compiler::prepare() {
    uses_.assign(graph_.n_tensors(), 0);
    needs_.assign(graph_.n_tensors(), 0);
    for (const graph::Tensor& t : graph_.tensors()) {
        for (const TensorId id : t.sources()) {
            ++uses_[graph::index(id)];
        }
    }
    size_t slot_bytes = 0;
    for (const TensorId id : nodes_) {
        const graph::Tensor& t = tensor(id);
        if (t.op != Op::kMulMat && t.op != Op::kMulMatId) {
            continue;
        }
        const TileLayout layout = make_tile_layout(src(id, 0).dtype, src(id, 0).ne[0], src(id, 0).ne[1]);
        const graph::Tensor& x = src(id, 1);
        if (layout.is_dense) {
            slot_bytes = std::max(slot_bytes, static_cast<size_t>(x.n_elements()) * sizeof(float));
        } else {
            needs_[graph::index(t.src[1])] |= activation_needs(layout) | kQuantized;
            slot_bytes = std::max(slot_bytes, image_bytes(x.ne[0], x.n_rows(), kAllNeeds));
        }
    }
    size_t expert_bytes = 0;
    for (const TensorId id : nodes_) {
        if (tensor(id).op == Op::kMulMatId) {
            const int64_t n_pairs = src(id, 2).n_elements();
            const bool dense = (need(tensor(id).src[1]) & kQuantized) == 0;
            const size_t bytes = dense ? static_cast<size_t>(src(id, 1).ne[0] * n_pairs) * sizeof(float)
                                       : image_bytes(src(id, 1).ne[0], n_pairs, need(tensor(id).src[1]) & kAllNeeds);
            expert_bytes = std::max(expert_bytes, bytes);
        }
    }
    for (Slot& slot : expert_slots_) {
        slot.bytes = round_up<size_t>(expert_bytes, 64);
        if (slot.bytes != 0) {
            FORESAY_TRY(slot.base, memory(slot.bytes, "activations by expert"));
        }
    }
    for (Slot& slot : slots_) {
        slot.bytes = round_up<size_t>(slot_bytes, 64);
        if (slot.bytes != 0) {
            FORESAY_TRY(slot.base, memory(slot.bytes, "quantised activations"));
        }
    }
    return ok();
}

Result<std::unique_ptr<CpuProgram>> Compiler::run() {
    FORESAY_CHECK_OK(prepare());
    for (size_t i = 0; i < nodes_.size(); ++i) {
        FORESAY_CHECK_OK(add_node(&i));
    }
    size_t scratch = 0;
    for (const Phase& phase : program_->phases) {
        for (const auto& task : phase.tasks) {
            scratch = std::max(scratch, task->scratch_bytes());
        }
    }
    for (int thread = 0; thread < context_.n_threads; ++thread) {
        Memory block = Memory::allocate(scratch);
        if (block.data() == nullptr) {
            return error(Code::kOutOfMemory, fmt::format("can't allocate {} bytes of scratch", scratch), "cpu");
        }
        program_->scratch.push_back(std::move(block));
    }
    return std::move(program_);
}

}  // namespace

Result<std::unique_ptr<CpuProgram>> compile_program(const CompileContext& context, const graph::Graph& graph,
                                                    std::span<const TensorId> nodes,
                                                    const backend::Placement& placement) {
    return Compiler(context, graph, nodes, placement).run();
}

}  // namespace foresay::cpu
