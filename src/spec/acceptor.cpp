#include "spec/acceptor.h"

#include <algorithm>

namespace foresay::spec {

bool ThinkingSpan::ends_in_part_of_mark() const {
    const std::string& mark = inside_ ? close_ : open_;
    for (size_t n = std::min(mark.size() - 1, tail_.size()); n > 0; --n) {
        if (tail_.compare(tail_.size() - n, n, mark, 0, n) == 0) {
            return true;
        }
    }
    return false;
}

void ThinkingSpan::push(std::string_view piece) {
    tail_ += piece;
    while (true) {
        const std::string& mark = inside_ ? close_ : open_;
        const size_t at = tail_.find(mark);
        if (at == std::string::npos) {
            break;
        }
        tail_.erase(0, at + mark.size());
        inside_ = !inside_;
    }
    const size_t most = std::max(open_.size(), close_.size()) - 1;
    if (tail_.size() > most) {
        tail_.erase(0, tail_.size() - most);
    }
}

bool ThinkingSpan::touches_mark(std::string_view piece) const {
    if (ends_in_part_of_mark()) {
        return true;  // a mark may be under way: whatever comes decides about it
    }
    ThinkingSpan after = *this;
    after.push(piece);
    return after.inside_ != inside_ || after.ends_in_part_of_mark();
}

Acceptor::Acceptor(const AcceptanceOptions& options, std::shared_ptr<const vocab::Vocab> vocab)
    : options_(options), rule_(effective_rule(options)), vocab_(std::move(vocab)) {}

void Acceptor::start(std::span<const vocab::TokenId> prompt) {
    if (options_.relaxed_scope == Scope::kThinking) {
        for (const vocab::TokenId id : prompt) {
            thinking_.push(vocab_->piece(id, true));
        }
    }
}

bool Acceptor::may_relax(vocab::TokenId drafted, const Decision& decision) const {
    if (options_.relaxed_max_tokens >= 0 && n_relaxed_ >= options_.relaxed_max_tokens) {
        return false;
    }
    if (options_.relaxed_max_gap >= 0.0F &&
        gap_ + static_cast<double>(decision.gap) > static_cast<double>(options_.relaxed_max_gap)) {
        return false;
    }
    if (options_.relaxed_scope == Scope::kAll) {
        return true;
    }
    return thinking_.inside() && !thinking_.touches_mark(vocab_->piece(drafted, true));
}

Decision Acceptor::decide(const sampling::Draw& draw, vocab::TokenId drafted, std::span<const DraftProb> q,
                          uint32_t seed, int64_t position) const {
    Decision decision;
    switch (rule_) {
        case Rule::kLossless:
            return decide_lossless(draw, drafted, q, seed, position);
        case Rule::kRelaxed:
            decision = decide_relaxed_top_n(draw, drafted, options_.relaxed_top_n, *vocab_, options_.relaxed_delta);
            break;
        case Rule::kTypical:
            decision = decide_typical(draw, drafted, options_.typical_epsilon, options_.typical_delta, *vocab_);
            break;
        case Rule::kAuto:
        case Rule::kStrict:
            return decide_strict(draw, drafted);
    }
    if (decision.verdict == Verdict::kRelaxed && !may_relax(drafted, decision)) {
        decision.verdict = Verdict::kReject;
    }
    return decision;
}

void Acceptor::emitted(vocab::TokenId id, const Decision* decision) {
    if (decision != nullptr && decision->verdict == Verdict::kRelaxed) {
        ++n_relaxed_;
        gap_ += static_cast<double>(decision->gap);
    }
    if (options_.relaxed_scope == Scope::kThinking) {
        thinking_.push(vocab_->piece(id, true));
    }
}

}  // namespace foresay::spec
