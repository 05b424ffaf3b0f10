// The result must equal the plain rule: for each candidate, longest first (ties by id), cut every occurrence out of
// what is still raw.
#include "vocab/partition.h"

#include <algorithm>
#include <utility>

namespace foresay::vocab {

namespace {

bool is_ascii_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct Cut {
    size_t begin;  ///< of what is taken out: the token and the blanks stripped with it
    size_t end;
    TokenId id;
};

/// The bytes that are taken, and the cuts that took them.
class Cuts {
  public:
    explicit Cuts(std::string_view text) : text_(text), taken_(text.size(), false) {}

    bool is_taken(size_t pos) const { return taken_[pos]; }

    /// Takes [begin, end) unless a part of it is gone. Longer tokens came first, so a cut that overlaps this one,
    /// blanks included, is at least as long and covers its first or its last byte.
    void try_take(size_t begin, size_t end, TokenId id, uint8_t attributes) {
        if (taken_[begin] || taken_[end - 1]) {
            return;
        }
        while ((attributes & kLstrip) != 0 && begin > 0 && !taken_[begin - 1] && is_ascii_space(text_[begin - 1])) {
            --begin;
        }
        while ((attributes & kRstrip) != 0 && end < text_.size() && !taken_[end] && is_ascii_space(text_[end])) {
            ++end;
        }
        std::fill(taken_.begin() + static_cast<std::ptrdiff_t>(begin),
                  taken_.begin() + static_cast<std::ptrdiff_t>(end), true);
        cuts_.push_back({begin, end, id});
    }

    std::vector<Fragment> fragments() {
        std::sort(cuts_.begin(), cuts_.end(), [](const Cut& a, const Cut& b) { return a.begin < b.begin; });
        std::vector<Fragment> fragments;
        size_t pos = 0;
        for (const Cut& cut : cuts_) {
            if (cut.begin > pos) {
                fragments.push_back({text_.substr(pos, cut.begin - pos), kNoToken});
            }
            fragments.push_back({{}, cut.id});
            pos = cut.end;
        }
        if (pos < text_.size()) {
            fragments.push_back({text_.substr(pos), kNoToken});
        }
        return fragments;
    }

  private:
    std::string_view text_;
    std::vector<bool> taken_;
    std::vector<Cut> cuts_;
};

}  // namespace

Partition::Partition(const TokenTable& tokens, const std::vector<TokenId>& candidates) : nodes_(1) {
    for (const TokenId id : candidates) {
        insert(tokens.text(id), id, tokens.attributes(id));
    }
    link();
}

int32_t Partition::child(int32_t node, unsigned char byte) const {
    if (node == 0) {
        return root_children_[byte];
    }
    const auto found = children_.find(static_cast<uint64_t>(node) << 8 | byte);
    return found == children_.end() ? 0 : found->second;
}

void Partition::insert(std::string_view text, TokenId id, uint8_t attributes) {
    int32_t node = 0;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        int32_t next = child(node, byte);
        if (next == 0) {
            next = static_cast<int32_t>(nodes_.size());
            Node fresh;
            fresh.depth = nodes_[static_cast<size_t>(node)].depth + 1;
            nodes_.push_back(fresh);
            if (node == 0) {
                root_children_[byte] = next;
            } else {
                children_[static_cast<uint64_t>(node) << 8 | byte] = next;
            }
        }
        node = next;
    }
    nodes_[static_cast<size_t>(node)].id = id;
    nodes_[static_cast<size_t>(node)].attributes = attributes;
    max_bytes_ = std::max(max_bytes_, text.size());
}

void Partition::link() {
    struct Edge {
        int32_t depth;
        int32_t from;
        int32_t to;
        unsigned char byte;
    };

    std::vector<Edge> edges;
    edges.reserve(nodes_.size());
    for (const auto& [key, to] : children_) {
        edges.push_back({nodes_[static_cast<size_t>(to)].depth, static_cast<int32_t>(key >> 8), to,
                         static_cast<unsigned char>(key & 0xFF)});
    }
    for (size_t byte = 0; byte < root_children_.size(); ++byte) {
        if (root_children_[byte] != 0) {
            edges.push_back({1, 0, root_children_[byte], static_cast<unsigned char>(byte)});
        }
    }
    // By depth: a node's fail link is shallower and must be final before it is used.
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.depth < b.depth; });
    for (const Edge& edge : edges) {
        Node& node = nodes_[static_cast<size_t>(edge.to)];
        if (edge.from != 0) {
            int32_t suffix = nodes_[static_cast<size_t>(edge.from)].fail;
            while (suffix != 0 && child(suffix, edge.byte) == 0) {
                suffix = nodes_[static_cast<size_t>(suffix)].fail;
            }
            node.fail = child(suffix, edge.byte);
        }
        node.next_output = nodes_[static_cast<size_t>(node.fail)].output;
        node.output = node.id != kNoToken ? edge.to : node.next_output;
    }
}

int32_t Partition::usable(int32_t node, bool parse_special) const {
    while (node >= 0 && !parse_special && (nodes_[static_cast<size_t>(node)].attributes & (kControl | kUnknown)) != 0) {
        node = nodes_[static_cast<size_t>(node)].next_output;
    }
    return node;
}

std::vector<std::vector<Partition::Hit>> Partition::find_hits(std::string_view text, bool parse_special) const {
    std::vector<std::vector<Hit>> by_length(max_bytes_ + 1);
    int32_t state = 0;
    for (size_t pos = 0; pos < text.size(); ++pos) {
        const auto byte = static_cast<unsigned char>(text[pos]);
        int32_t next = child(state, byte);
        while (next == 0 && state != 0) {
            state = nodes_[static_cast<size_t>(state)].fail;
            next = child(state, byte);
        }
        state = next;
        const int32_t output = state == 0 ? -1 : usable(nodes_[static_cast<size_t>(state)].output, parse_special);
        if (output >= 0) {
            by_length[static_cast<size_t>(nodes_[static_cast<size_t>(output)].depth)].push_back({output, pos + 1});
        }
    }
    return by_length;
}

std::vector<Fragment> Partition::split(std::string_view text, bool parse_special) const {
    if (text.empty()) {
        return {};
    }
    std::vector<std::vector<Hit>> by_length =
        nodes_.size() > 1 ? find_hits(text, parse_special) : std::vector<std::vector<Hit>>();
    Cuts cuts(text);
    const auto by_id_then_place = [&](const Hit& a, const Hit& b) {
        const TokenId id_a = nodes_[static_cast<size_t>(a.node)].id;
        const TokenId id_b = nodes_[static_cast<size_t>(b.node)].id;
        return id_a != id_b ? id_a < id_b : a.end < b.end;
    };
    for (size_t length = by_length.size(); length-- > 1;) {
        std::vector<Hit> hits = std::move(by_length[length]);
        std::sort(hits.begin(), hits.end(), by_id_then_place);
        for (const Hit& hit : hits) {
            const Node& node = nodes_[static_cast<size_t>(hit.node)];
            cuts.try_take(hit.end - length, hit.end, node.id, node.attributes);
        }
        for (const Hit& hit : hits) {
            // A place whose last byte is taken can't end a shorter token either; that keeps runs of blanks linear.
            const int32_t shorter = usable(nodes_[static_cast<size_t>(hit.node)].next_output, parse_special);
            if (shorter >= 0 && !cuts.is_taken(hit.end - 1)) {
                by_length[static_cast<size_t>(nodes_[static_cast<size_t>(shorter)].depth)].push_back(
                    {shorter, hit.end});
            }
        }
    }
    return cuts.fragments();
}

}  // namespace foresay::vocab
