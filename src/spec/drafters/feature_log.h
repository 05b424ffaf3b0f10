// What a drafter that feeds on the target's rows remembers of each slot: the tokens the target has evaluated, and the
// tapped rows of those that the drafter's own cache doesn't hold yet. Must not know graphs.
// Cell c of the drafter's cache stands for position base + c: a slot may begin anywhere (after a restore, after a
// failure), since rotary attention only sees differences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "vocab/vocab.h"

namespace foresay::spec {

class FeatureLog {
  public:
    /// width: floats of one position's row.
    explicit FeatureLog(size_t width) : width_(width) {}

    /// Before adding position pos: what was known of pos and later is forgotten; a gap or an earlier begin starts over.
    void rewind_to(int32_t pos);
    /// Adds the next position's token; returns room for its row [width]. Call rewind_to() first.
    std::span<float> append(int32_t pos, vocab::TokenId token);

    /// True when the log ends right before the last token of this text and agrees with it.
    bool leads_to(std::span<const vocab::TokenId> text) const;

    int32_t base() const { return base_; }

    /// Cells whose K and V are written.
    int32_t n_stored() const { return n_stored_; }

    /// Positions known, stored or not.
    int32_t n_known() const { return static_cast<int32_t>(tokens_.size()); }

    int32_t n_pending() const { return n_known() - n_stored_; }

    vocab::TokenId token(int32_t cell) const { return tokens_[static_cast<size_t>(cell)]; }

    /// The row of an unstored cell.
    std::span<const float> row(int32_t cell) const {
        return {rows_.data() + static_cast<size_t>(cell - n_stored_) * width_, width_};
    }

    size_t width() const { return width_; }

    /// Cells [0, n) are in the cache: their rows go.
    void mark_stored(int32_t n);

    /// Context shift over positions [keep, keep + discard). True: the caller shifts cells [cell_keep, cell_keep +
    /// cell_discard) of the n cells in its cache; false: nothing was in the way, or the log has started over.
    bool shift(int32_t keep, int32_t discard, int32_t* n, int32_t* cell_keep, int32_t* cell_discard);

    void clear();

    std::span<const vocab::TokenId> tokens() const { return tokens_; }

    /// Rows of the cells from n_stored() on.
    std::span<const float> pending() const { return rows_; }

    /// As it was when these were taken from it.
    void assign(int32_t base, std::vector<vocab::TokenId> tokens, int32_t n_stored, std::vector<float> rows);

    size_t bytes() const { return tokens_.capacity() * sizeof(vocab::TokenId) + rows_.capacity() * sizeof(float); }

  private:
    size_t width_;
    int32_t base_ = 0;
    std::vector<vocab::TokenId> tokens_;
    int32_t n_stored_ = 0;
    std::vector<float> rows_;
};

}  // namespace foresay::spec
