#include "grammar/machine.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <utility>

#include "grammar/utf8_ranges.h"

namespace foresay::grammar {

class MachineBuilder {
  public:
    explicit MachineBuilder(const Ast& ast) : ast_(ast) {}

    Result<Machine> run() {
        Machine& machine = machine_;
        for (size_t i = 0; i < ast_.rules.size(); ++i) {
            machine.starts_.push_back(add_state());
            finals_.push_back(add_state());
        }
        for (size_t i = 0; i < ast_.rules.size(); ++i) {
            final_ = finals_[i];
            build(ast_.rules[i].body, machine.starts_[i], final_);
            if (is_too_large_) {
                return error(
                    Code::kInvalidArgument,
                    fmt::format("line {}, column {}: rule '{}' makes the grammar too large (more than {} states "
                                "or {} transitions); use smaller repetition counts",
                                ast_.rules[i].line, ast_.rules[i].column, ast_.rules[i].name, kMaxStates, kMaxEdges));
            }
        }
        machine.root_ = ast_.root;
        machine.is_final_.assign(n_states_, 0);
        for (const uint32_t state : finals_) {
            machine.is_final_[state] = 1;
        }
        group(bytes_, &machine.bytes_);
        group(calls_, &machine.calls_);
        group(tokens_, &machine.tokens_);
        group(skips_, &machine.skips_);
        FORESAY_CHECK_OK(machine.check_left_recursion(ast_));
        return std::move(machine_);
    }

  private:
    template <typename Edge>
    using List = std::vector<std::pair<uint32_t, Edge>>;

    uint32_t add_state() {
        is_too_large_ = is_too_large_ || n_states_ >= kMaxStates;
        return static_cast<uint32_t>(n_states_++);
    }

    template <typename Edge>
    void add_edge(List<Edge>* list, uint32_t from, Edge edge) {
        is_too_large_ = is_too_large_ || ++n_edges_ > kMaxEdges;
        list->emplace_back(from, edge);
    }

    /// Adds what reads the node between two states. Nothing may be added that leaves `to`: that of a rule must stay
    /// without edges for tail calls to be seen. Recursion is bounded by the parser's depth.
    void build(uint32_t index, uint32_t from, uint32_t to) {
        if (is_too_large_) {
            return;
        }
        const Node& node = ast_.nodes[index];
        switch (node.kind) {
            case Node::Kind::kText:
                build_text(node.text, from, to);
                return;
            case Node::Kind::kClass:
                build_class(node.ranges, from, to);
                return;
            case Node::Kind::kToken:
                add_edge(&tokens_, from, TokenEdge{node.token, node.is_negated, to});
                return;
            case Node::Kind::kRule:
                add_edge(&calls_, from, CallEdge{node.rule, to, to == final_});
                return;
            case Node::Kind::kSequence:
                for (size_t i = 0; i < node.children.size(); ++i) {
                    const uint32_t next = i + 1 < node.children.size() ? add_state() : to;
                    build(node.children[i], from, next);
                    from = next;
                }
                if (node.children.empty()) {
                    add_edge(&skips_, from, to);
                }
                return;
            case Node::Kind::kChoice:
                for (const uint32_t child : node.children) {
                    build(child, from, to);
                }
                return;
            case Node::Kind::kRepeat:
                build_repeat(node, from, to);
                return;
        }
    }

    void build_text(const std::string& text, uint32_t from, uint32_t to) {
        for (size_t i = 0; i < text.size(); ++i) {
            const uint32_t next = i + 1 < text.size() ? add_state() : to;
            const auto byte = static_cast<uint8_t>(text[i]);
            add_edge(&bytes_, from, ByteEdge{byte, byte, next});
            from = next;
        }
        if (text.empty()) {
            add_edge(&skips_, from, to);
        }
    }

    /// Sequences that end alike share the states of their ends.
    void build_class(const std::vector<CodeRange>& ranges, uint32_t from, uint32_t to) {
        std::vector<ByteSequence> sequences;
        for (const CodeRange& range : ranges) {
            append_utf8_ranges(range.low, range.high, &sequences);
        }
        std::map<uint64_t, uint32_t> shared;  // by the byte ranges of the ending, 16 bits each
        for (const ByteSequence& sequence : sequences) {
            uint32_t target = to;
            uint64_t ending = 0;
            for (size_t i = sequence.size; i-- > 1;) {
                ending = (ending << 16U) | (uint64_t{sequence.bytes[i].low} << 8U) | sequence.bytes[i].high;
                const auto [it, is_new] = shared.try_emplace(ending, 0);
                if (is_new) {
                    it->second = add_state();
                    add_edge(&bytes_, it->second, ByteEdge{sequence.bytes[i].low, sequence.bytes[i].high, target});
                }
                target = it->second;
            }
            add_edge(&bytes_, from, ByteEdge{sequence.bytes[0].low, sequence.bytes[0].high, target});
        }
    }

    void build_repeat(const Node& node, uint32_t from, uint32_t to) {
        const uint32_t item = node.children.front();
        for (uint32_t i = 0; i < node.min && !is_too_large_; ++i) {
            const bool is_last = i + 1 == node.min && node.max == node.min;
            const uint32_t next = is_last ? to : add_state();
            build(item, from, next);
            from = next;
        }
        if (node.max == kUnbounded) {
            const uint32_t loop = add_state();  // of its own: `from` may have other ways out
            add_edge(&skips_, from, loop);
            build(item, loop, loop);
            add_edge(&skips_, loop, to);
            return;
        }
        for (uint32_t i = node.min; i < node.max && !is_too_large_; ++i) {
            const uint32_t next = i + 1 < node.max ? add_state() : to;
            build(item, from, next);
            add_edge(&skips_, from, to);
            from = next;
        }
        if (node.max == 0) {
            add_edge(&skips_, from, to);
        }
    }

    template <typename Edge>
    void group(const List<Edge>& list, Machine::Table<Edge>* table) const {
        table->begins.assign(n_states_ + 1, 0);
        for (const auto& [from, edge] : list) {
            ++table->begins[from + 1];
        }
        for (size_t i = 0; i < n_states_; ++i) {
            table->begins[i + 1] += table->begins[i];
        }
        table->edges.resize(list.size());
        std::vector<uint32_t> next(table->begins.begin(), table->begins.end() - 1);
        for (const auto& [from, edge] : list) {
            table->edges[next[from]++] = edge;
        }
    }

    const Ast& ast_;
    Machine machine_;
    std::vector<uint32_t> finals_;
    uint32_t final_ = 0;  ///< of the rule that is being built
    size_t n_states_ = 0;
    size_t n_edges_ = 0;
    bool is_too_large_ = false;
    List<ByteEdge> bytes_;
    List<CallEdge> calls_;
    List<TokenEdge> tokens_;
    List<uint32_t> skips_;
};

namespace {

/// Visits the states that are reached from `first` without reading, calls of nullable rules included.
/// visit_call(rule) for every call on the way.
template <typename VisitCall>
bool reaches_final(const Machine& machine, uint32_t first, const std::vector<uint8_t>& is_nullable,
                   std::vector<uint32_t>* seen, uint32_t mark, VisitCall visit_call) {
    std::vector<uint32_t> pending{first};
    (*seen)[first] = mark;
    bool is_final = false;
    const auto go = [&](uint32_t state) {
        if ((*seen)[state] != mark) {
            (*seen)[state] = mark;
            pending.push_back(state);
        }
    };
    while (!pending.empty()) {
        const uint32_t state = pending.back();
        pending.pop_back();
        is_final = is_final || machine.is_final(state);
        for (const uint32_t target : machine.skips(state)) {
            go(target);
        }
        for (const CallEdge& call : machine.calls(state)) {
            visit_call(call.rule);
            if (is_nullable[call.rule] != 0) {
                go(call.target);
            }
        }
    }
    return is_final;
}

}  // namespace

Status Machine::check_left_recursion(const Ast& ast) const {
    const size_t n_rules = starts_.size();
    std::vector<uint32_t> seen(n_states(), 0);
    uint32_t mark = 0;
    // Which rules may read nothing. A rule is looked at again when one that it calls first turns out to be nullable.
    std::vector<uint8_t> is_nullable(n_rules, 0);
    std::vector<std::vector<uint32_t>> callers(n_rules);
    std::deque<uint32_t> pending;
    std::vector<uint8_t> is_pending(n_rules, 1);
    for (uint32_t rule = 0; rule < n_rules; ++rule) {
        pending.push_back(rule);
    }
    while (!pending.empty()) {
        const uint32_t rule = pending.front();
        pending.pop_front();
        is_pending[rule] = 0;
        const bool is_final = reaches_final(*this, starts_[rule], is_nullable, &seen, ++mark, [&](uint32_t callee) {
            if (callers[callee].empty() || callers[callee].back() != rule) {
                callers[callee].push_back(rule);
            }
        });
        if (is_final) {
            is_nullable[rule] = 1;
            for (const uint32_t caller : callers[rule]) {
                if (is_nullable[caller] == 0 && is_pending[caller] == 0) {
                    is_pending[caller] = 1;
                    pending.push_back(caller);
                }
            }
        }
    }
    std::vector<std::vector<uint32_t>> first_calls(n_rules);
    for (uint32_t rule = 0; rule < n_rules; ++rule) {
        reaches_final(*this, starts_[rule], is_nullable, &seen, ++mark,
                      [&](uint32_t callee) { first_calls[rule].push_back(callee); });
    }
    // A cycle of first calls is left recursion: depth first, without recursion of our own.
    enum class Color : uint8_t { kWhite, kGrey, kBlack };
    std::vector<Color> colors(n_rules, Color::kWhite);
    for (uint32_t root = 0; root < n_rules; ++root) {
        std::vector<std::pair<uint32_t, size_t>> path;
        if (colors[root] == Color::kWhite) {
            path.emplace_back(root, 0);
            colors[root] = Color::kGrey;
        }
        while (!path.empty()) {
            const uint32_t rule = path.back().first;
            if (path.back().second == first_calls[rule].size()) {
                colors[rule] = Color::kBlack;
                path.pop_back();
                continue;
            }
            const uint32_t callee = first_calls[rule][path.back().second++];
            if (colors[callee] == Color::kGrey) {
                const Rule& where = ast.rules[callee];
                return error(
                    Code::kInvalidArgument,
                    fmt::format("line {}, column {}: rule '{}' is left-recursive: it can call itself before it "
                                "reads anything",
                                where.line, where.column, where.name));
            }
            if (colors[callee] == Color::kWhite) {
                colors[callee] = Color::kGrey;
                path.emplace_back(callee, 0);
            }
        }
    }
    return ok();
}

Result<Machine> Machine::compile(const Ast& ast) {
    return MachineBuilder(ast).run();
}

Status check_gbnf(std::string_view text, const FindToken& find_token) {
    FORESAY_TRY(const Ast ast, parse_gbnf(text, find_token));
    FORESAY_TRY(const Machine machine, Machine::compile(ast));
    return ok();
}

}  // namespace foresay::grammar
