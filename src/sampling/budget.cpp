#include "sampling/budget.h"

#include <utility>

#include "base/text.h"

namespace foresay::sampling {

Result<std::unique_ptr<Budget>> Budget::create(const ReasoningBudget& limit,
                                               std::shared_ptr<const vocab::Vocab> vocab) {
    if (limit.tokens < 0) {
        return std::unique_ptr<Budget>();
    }
    if (limit.open.empty() || limit.close.empty()) {
        return error(Code::kInvalidArgument, "a limit on thinking needs the marks around thoughts",
                     "reasoning_budget_tokens");
    }
    return std::unique_ptr<Budget>(new Budget(limit, std::move(vocab)));
}

Budget::Budget(const ReasoningBudget& limit, std::shared_ptr<const vocab::Vocab> vocab)
    : limit_(limit), vocab_(std::move(vocab)), closing_(vocab_->encode(limit.message + limit.close, false, true)) {
    reset();
}

void Budget::reset() {
    left_ = limit_.tokens;
    inside_ = limit_.starts_inside;
    i_closing_ = 0;
    tail_.clear();
    stream_ = vocab::Utf8Stream();
}

/// A character or a closing mark that the model has begun itself is not cut in two.
bool Budget::may_close() const {
    return !stream_.has_pending() && tail_.empty();
}

TokenId Budget::forced() const {
    const bool closes = inside_ && (i_closing_ > 0 || (left_ <= 0 && may_close()));
    return closes && i_closing_ < closing_.size() ? closing_[i_closing_] : vocab::kNoToken;
}

void Budget::accept(TokenId id) {
    const bool was_forced = forced() == id;
    const std::string piece = vocab_->piece(id, true);
    if (was_forced && ++i_closing_ == closing_.size()) {
        inside_ = false;  // whatever text the tokens of the mark make
        i_closing_ = 0;
        tail_.clear();
        return;
    }
    if (was_forced) {
        return;
    }
    i_closing_ = 0;
    if (inside_) {
        --left_;
        stream_.push(piece);
    }
    tail_ += piece;
    // A mark that ends thoughts may come with the one that begins the next: one piece can hold both.
    for (;;) {
        const std::string& mark = inside_ ? limit_.close : limit_.open;
        const size_t at = tail_.find(mark);
        if (at == std::string::npos) {
            tail_.erase(0, tail_.size() - begun_at_end(tail_, mark));
            return;
        }
        tail_.erase(0, at + mark.size());
        inside_ = !inside_;
        stream_ = vocab::Utf8Stream();
    }
}

}  // namespace foresay::sampling
