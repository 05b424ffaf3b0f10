#include "grammar/token_trie.h"

#include <algorithm>

#include "base/assert.h"

namespace foresay::grammar {
namespace {

constexpr size_t kMaxPiece = 4096;

size_t common_prefix(std::string_view a, std::string_view b) {
    const size_t n = std::min(a.size(), b.size());
    size_t i = 0;
    while (i < n && a[i] == b[i]) {
        ++i;
    }
    return i;
}

}  // namespace

TokenTrie::TokenTrie(std::shared_ptr<const vocab::Vocab> vocab) : vocab_(std::move(vocab)) {
    FORESAY_ASSERT(vocab_ != nullptr);
    n_tokens_ = vocab_->n_tokens();
    offsets_.reserve(static_cast<size_t>(n_tokens_) + 1);
    for (TokenId id = 0; id < n_tokens_; ++id) {
        offsets_.push_back(static_cast<uint32_t>(text_.size()));
        const std::string piece = vocab_->piece(id, false);
        if (!piece.empty() && piece.size() <= kMaxPiece && !vocab_->is_eog(id)) {
            text_ += piece;
            tokens_.push_back(id);
        }
    }
    offsets_.push_back(static_cast<uint32_t>(text_.size()));
    std::sort(tokens_.begin(), tokens_.end(), [this](TokenId a, TokenId b) {
        const int order = piece(a).compare(piece(b));
        return order != 0 ? order < 0 : a < b;
    });
    std::vector<size_t> path;  // the nodes from the root to the last one
    std::string_view last;
    const auto close_to = [&](size_t depth) {
        while (path.size() > depth) {
            nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
            path.pop_back();
        }
    };
    for (size_t i = 0; i < tokens_.size(); ++i) {
        const std::string_view text = piece(tokens_[i]);
        close_to(common_prefix(last, text));
        for (size_t depth = path.size(); depth < text.size(); ++depth) {
            path.push_back(nodes_.size());
            Node node;
            node.byte = static_cast<uint8_t>(text[depth]);
            node.depth = static_cast<uint16_t>(depth + 1);
            node.first_token = static_cast<uint32_t>(i);
            nodes_.push_back(node);
        }
        max_depth_ = std::max(max_depth_, text.size());
        last = text;
    }
    close_to(0);
    Node sentinel;
    sentinel.end = static_cast<uint32_t>(nodes_.size());
    sentinel.first_token = static_cast<uint32_t>(tokens_.size());
    nodes_.push_back(sentinel);
}

std::string_view TokenTrie::piece(TokenId id) const {
    if (id < 0 || id >= n_tokens_) {
        return {};
    }
    const auto i = static_cast<size_t>(id);
    return std::string_view(text_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

}  // namespace foresay::grammar
