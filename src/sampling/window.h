// The last n accepted tokens, for penalties and DRY.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "vocab/vocab.h"

namespace foresay::sampling {

class Window {
  public:
    /// n_max: at least 1. Memory grows with the text, so a window of "everything" costs no more than the text.
    explicit Window(int32_t n_max) : n_max_(static_cast<size_t>(n_max)) {}

    /// Adds a token; returns the one that fell out, kNoToken while there was room.
    vocab::TokenId push(vocab::TokenId id);
    void clear();

    size_t size() const { return ring_.size(); }

    /// The token `distance` steps back, 0: the newest. distance < size().
    vocab::TokenId back(size_t distance) const {
        return ring_[next_ > distance ? next_ - 1 - distance : next_ + ring_.size() - 1 - distance];
    }

  private:
    size_t n_max_;
    size_t next_ = 0;  ///< where the next token goes; behind the end while the window still grows
    std::vector<vocab::TokenId> ring_;
};

}  // namespace foresay::sampling
