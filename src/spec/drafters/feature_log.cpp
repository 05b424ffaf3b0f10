#include "spec/drafters/feature_log.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace foresay::spec {

void FeatureLog::clear() {
    tokens_.clear();
    rows_.clear();
    n_stored_ = 0;
    base_ = 0;
}

void FeatureLog::rewind_to(int32_t pos) {
    if (tokens_.empty() || pos < base_ || pos > base_ + n_known()) {
        clear();
        base_ = pos;
        return;
    }
    const int32_t cell = pos - base_;
    n_stored_ = std::min(n_stored_, cell);
    tokens_.resize(static_cast<size_t>(cell));
    rows_.resize(static_cast<size_t>(cell - n_stored_) * width_);
}

void FeatureLog::assign(int32_t base, std::vector<vocab::TokenId> tokens, int32_t n_stored, std::vector<float> rows) {
    FORESAY_ASSERT(rows.size() == (tokens.size() - static_cast<size_t>(n_stored)) * width_);
    base_ = base;
    tokens_ = std::move(tokens);
    n_stored_ = n_stored;
    rows_ = std::move(rows);
}

std::span<float> FeatureLog::append(int32_t pos, vocab::TokenId token) {
    FORESAY_ASSERT(pos == base_ + n_known());
    tokens_.push_back(token);
    rows_.resize(rows_.size() + width_);
    return {rows_.data() + rows_.size() - width_, width_};
}

bool FeatureLog::leads_to(std::span<const vocab::TokenId> text) const {
    const auto n = static_cast<int32_t>(text.size());
    return n > base_ && !tokens_.empty() && base_ + n_known() >= n - 1 && n - 1 > base_ &&
           std::equal(text.begin() + base_, text.end() - 1, tokens_.begin());
}

void FeatureLog::mark_stored(int32_t n) {
    FORESAY_ASSERT(n >= n_stored_ && n <= n_known());
    rows_.erase(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(n - n_stored_) * width_));
    n_stored_ = n;
}

bool FeatureLog::shift(int32_t keep, int32_t discard, int32_t* n, int32_t* cell_keep, int32_t* cell_discard) {
    const int32_t first = std::max(0, keep - base_);
    const int32_t end = keep + discard - base_;
    if (end <= 0) {
        base_ -= discard;  // everything known lies behind the gap
        return false;
    }
    if (end > n_stored_) {
        clear();
        return false;
    }
    *n = n_stored_;
    *cell_keep = first;
    *cell_discard = end - first;
    tokens_.erase(tokens_.begin() + first, tokens_.begin() + end);
    n_stored_ -= end - first;
    base_ = std::min(base_, keep);
    return *cell_discard > 0;
}

}  // namespace foresay::spec
