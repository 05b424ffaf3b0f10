#include "sched/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/assert.h"
#include "base/checked.h"

namespace foresay::sched {
namespace {

using graph::Graph;
using graph::index;
using graph::Op;
using graph::Tensor;
using graph::TensorId;

/// Free pieces below the high-water mark of one buffer, merged with their neighbours: no fixed count of holes.
class FreeList {
  public:
    size_t end() const { return end_; }

    size_t allocate(size_t bytes) {
        const auto fit = by_size_.lower_bound({bytes, 0});
        if (fit != by_size_.end()) {
            const auto [size, offset] = *fit;
            erase(offset, size);
            if (size > bytes) {
                insert(offset + bytes, size - bytes);
            }
            return offset;
        }
        size_t offset = end_;
        if (!by_offset_.empty()) {
            // A hole at the end is too small, but growing it wastes less than starting behind it.
            const auto [last, size] = *by_offset_.rbegin();
            if (last + size == end_) {
                erase(last, size);
                offset = last;
            }
        }
        end_ = offset + bytes;
        return offset;
    }

    void release(size_t offset, size_t bytes) {
        const auto after = by_offset_.lower_bound(offset);
        size_t first = offset;
        size_t size = bytes;
        if (after != by_offset_.begin()) {
            const auto [before, before_size] = *std::prev(after);
            if (before + before_size == offset) {
                first = before;
                size += before_size;
            }
        }
        if (after != by_offset_.end() && after->first == offset + bytes) {
            const auto [next, next_size] = *after;
            size += next_size;
            erase(next, next_size);
        }
        if (first != offset) {
            erase(first, by_offset_.find(first)->second);
        }
        insert(first, size);
    }

  private:
    void insert(size_t offset, size_t size) {
        by_size_.insert({size, offset});
        by_offset_.insert({offset, size});
    }

    void erase(size_t offset, size_t size) {
        by_size_.erase({size, offset});
        by_offset_.erase(offset);
    }

    std::set<std::pair<size_t, size_t>> by_size_;  ///< (bytes, offset): best fit, lowest first
    std::map<size_t, size_t> by_offset_;
    size_t end_ = 0;
};

class Placer {
  public:
    Placer(const Graph& graph, Assignment& assignment, const TensorTable& table, size_t n_backends, bool in_place)
        : graph_(graph), assignment_(assignment), table_(table), in_place_(in_place), free_(n_backends) {
        out_.offset.resize(graph.n_tensors());
        out_.buffer_bytes.resize(n_backends);
    }

    Result<MemoryPlan> run();

  private:
    bool is_placed(TensorId id) const {
        const Tensor& t = graph_.tensor(id);
        return !t.is_view() && t.storage == nullptr && assignment_.home[index(id)] >= 0;
    }

    void find_kept();
    void open(Block block);
    void open_tensor(TensorId id, int32_t first);
    void open_copies(const Split& split);
    bool open_in_place(TensorId id, int32_t step);
    void close_dying(int32_t step);

    const Graph& graph_;
    Assignment& assignment_;
    const TensorTable& table_;
    bool in_place_;
    std::vector<FreeList> free_;     ///< by backend
    std::vector<bool> kept_;         ///< by tensor id, owners
    std::vector<int32_t> block_of_;  ///< by tensor id, owners
    std::vector<int32_t> dying_;     ///< by step: newest block whose last step it is
    std::vector<int32_t> next_;      ///< by block: older one with the same last step
    MemoryPlan out_;
};

void Placer::find_kept() {
    kept_.resize(graph_.n_tensors());
    for (size_t i = 0; i < graph_.n_tensors(); ++i) {
        const TensorId id{static_cast<int32_t>(i)};
        if ((graph_.tensor(id).flags & (graph::kInput | graph::kOutput)) != 0) {
            kept_[index(owner_of(graph_, id))] = true;
        }
    }
}

/// Takes memory for a block (bytes still as asked) and files it under its last step.
void Placer::open(Block block) {
    block.bytes = round_up(std::max<size_t>(block.bytes, 1), kMemoryAlignment);
    block.offset = free_[static_cast<size_t>(block.backend)].allocate(block.bytes);
    const auto i_block = static_cast<int32_t>(out_.blocks.size());
    int32_t next = -1;
    if (block.last != kForever) {
        std::swap(next, dying_[static_cast<size_t>(block.last)]);
        dying_[static_cast<size_t>(block.last)] = i_block;
    }
    out_.blocks.push_back(block);
    next_.push_back(next);
}

void Placer::open_tensor(TensorId id, int32_t first) {
    const int32_t last = kept_[index(id)] ? kForever : std::max(table_.row(id).last_use, first);
    block_of_[index(id)] = static_cast<int32_t>(out_.blocks.size());
    open({.backend = assignment_.home[index(id)],
          .first = first,
          .last = last,
          .bytes = graph_.tensor(id).span_bytes()});
    out_.offset[index(id)] = out_.blocks.back().offset;
}

void Placer::open_copies(const Split& split) {
    for (int32_t c = split.first_copy; c < split.end_copy; ++c) {
        CopyRecord& copy = assignment_.copies[static_cast<size_t>(c)];
        open({.backend = copy.to, .first = copy.first_step, .last = copy.last_step, .bytes = copy.bytes});
        copy.offset = out_.blocks.back().offset;
    }
}

bool is_elementwise(Op op) {
    return op == Op::kAdd || op == Op::kMul || op == Op::kScale || op == Op::kSwiglu || op == Op::kGeglu ||
           op == Op::kSoftcap || op == Op::kMulSigmoid || op == Op::kSwigluOai;
}

/// Takes over the block of the first operand when this node is its last reader and nothing else can see the change.
bool Placer::open_in_place(TensorId id, int32_t step) {
    const Tensor& node = graph_.tensor(id);
    if (!in_place_ || !is_elementwise(node.op)) {
        return false;
    }
    const TensorId source = node.src[0];
    const uint32_t first_operand = assignment_.first_operand[static_cast<size_t>(step)];
    if (!is_placed(source) || kept_[index(source)] || table_.row(source).last_use != step ||
        assignment_.home[index(source)] != assignment_.home[index(id)] ||
        assignment_.operand_copy[first_operand] >= 0) {
        return false;
    }
    // A second operand inside the same memory (a row of it) would change while it's still being read.
    for (size_t i = 1; i < node.n_src; ++i) {
        if (owner_of(graph_, node.src[i]) == source) {
            return false;
        }
    }
    Block& old = out_.blocks[static_cast<size_t>(block_of_[index(source)])];
    old.handed_over = true;
    Block block = old;
    block.handed_over = false;
    block.first = step;
    block.last = kept_[index(id)] ? kForever : std::max(table_.row(id).last_use, step);
    const auto i_block = static_cast<int32_t>(out_.blocks.size());
    int32_t next = -1;
    if (block.last != kForever) {
        std::swap(next, dying_[static_cast<size_t>(block.last)]);
        dying_[static_cast<size_t>(block.last)] = i_block;
    }
    out_.blocks.push_back(block);
    next_.push_back(next);
    block_of_[index(id)] = i_block;
    out_.offset[index(id)] = block.offset;
    ++out_.n_in_place;
    return true;
}

void Placer::close_dying(int32_t step) {
    for (int32_t b = dying_[static_cast<size_t>(step)]; b >= 0; b = next_[static_cast<size_t>(b)]) {
        const Block& block = out_.blocks[static_cast<size_t>(b)];
        if (!block.handed_over) {
            free_[static_cast<size_t>(block.backend)].release(block.offset, block.bytes);
        }
    }
}

Result<MemoryPlan> Placer::run() {
    find_kept();
    block_of_.assign(graph_.n_tensors(), -1);
    dying_.assign(assignment_.steps.size(), -1);
    out_.blocks.reserve(graph_.n_tensors() + assignment_.copies.size());
    next_.reserve(graph_.n_tensors() + assignment_.copies.size());
    // Sizes are below 2^48 each (check_shape); the sum of all is an upper bound of any offset.
    size_t total = 0;
    for (const Tensor& t : graph_.tensors()) {
        if (!checked_add(total, t.span_bytes() + 2 * kMemoryAlignment, &total) || total > SIZE_MAX / 4) {
            return error(Code::kOutOfMemory, "the graph's tensors don't fit the address space");
        }
    }
    for (const TensorId id : graph_.leafs()) {
        if (is_placed(id)) {
            open_tensor(id, -1);
        }
    }
    for (const Split& split : assignment_.splits) {
        open_copies(split);
        for (int32_t step = split.first_step; step < split.end_step; ++step) {
            const TensorId id = assignment_.steps[static_cast<size_t>(step)];
            if (is_placed(id) && !open_in_place(id, step)) {
                open_tensor(id, step);
            }
            close_dying(step);
        }
    }
    for (size_t i = 0; i < graph_.n_tensors(); ++i) {
        const Tensor& t = graph_.tensors()[i];
        if (t.is_view()) {
            out_.offset[i] = out_.offset[index(t.view_of)] + static_cast<size_t>(t.view_offset);
        }
    }
    for (size_t b = 0; b < free_.size(); ++b) {
        out_.buffer_bytes[b] = free_[b].end();
    }
    return std::move(out_);
}

}  // namespace

Result<MemoryPlan> place(const Graph& graph, Assignment& assignment, const TensorTable& table, size_t n_backends,
                         bool in_place) {
    return Placer(graph, assignment, table, n_backends, in_place).run();
}

std::string find_overlap(std::span<const Block> blocks) {
    // A sweep over time. At one step: blocks that are handed over end, then new ones begin, then the others end.
    struct Event {
        int32_t step;
        int32_t order;  ///< 0 handed over, 1 begins, 2 ends
        size_t block;
    };

    std::vector<Event> events;
    events.reserve(blocks.size() * 2);
    for (size_t i = 0; i < blocks.size(); ++i) {
        events.push_back({blocks[i].first, 1, i});
        events.push_back({blocks[i].last, blocks[i].handed_over ? 0 : 2, i});
    }
    std::sort(events.begin(), events.end(),
              [](const Event& a, const Event& b) { return std::pair(a.step, a.order) < std::pair(b.step, b.order); });
    std::map<std::pair<int16_t, size_t>, size_t> live;  // (backend, offset) -> block
    for (const Event& event : events) {
        const Block& block = blocks[event.block];
        const std::pair key(block.backend, block.offset);
        if (event.order != 1) {
            live.erase(key);
            continue;
        }
        const auto after = live.lower_bound(key);
        const auto clash = [&](size_t other) {
            return fmt::format("blocks {} and {} share bytes of backend {} at step {}", event.block, other,
                               block.backend, event.step);
        };
        if (after != live.end() && after->first.first == block.backend &&
            after->first.second < block.offset + block.bytes) {
            return clash(after->second);
        }
        if (after != live.begin()) {
            const auto& [before_key, before] = *std::prev(after);
            if (before_key.first == block.backend && before_key.second + blocks[before].bytes > block.offset) {
                return clash(before);
            }
        }
        live.emplace(key, event.block);
    }
    return {};
}

}  // namespace foresay::sched
