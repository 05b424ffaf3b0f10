#include "sampling/window.h"

namespace foresay::sampling {

vocab::TokenId Window::push(vocab::TokenId id) {
    if (ring_.size() < n_max_) {
        ring_.push_back(id);
        next_ = ring_.size();
        return vocab::kNoToken;
    }
    next_ = next_ == n_max_ ? 0 : next_;
    const vocab::TokenId gone = ring_[next_];
    ring_[next_++] = id;
    return gone;
}

void Window::clear() {
    ring_.clear();
    next_ = 0;
}

}  // namespace foresay::sampling
