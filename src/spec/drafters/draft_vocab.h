// How much of the vocabulary a drafter scores. In BPE and unigram vocabularies ids rise as tokens get rarer, and the
// head of a small drafter is a large part of what a drafted token reads (48 % for Qwen2.5 0.5B): scoring the first
// quarter of the ids makes the draft cheaper and misses few tokens of a usual text. Texts of rare ids (other scripts)
// keep the whole head. Changes which tokens are drafted, never what stands. Source: the idea of a head over frequent
// tokens is that of FR-Spec (Zhao et al. 2025, arXiv:2502.14856).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "model/model.h"
#include "vocab/vocab.h"

namespace foresay::spec {

class DraftVocab {
  public:
    /// Every id is scored, always.
    DraftVocab() = default;

    /// n_vocab: rows of the head. head_share: its bytes over all that a drafted token reads, 0..1. n_fixed: always
    /// score so many ids (n_vocab: all); 0: choose by the text.
    DraftVocab(int32_t n_vocab, double head_share, int32_t n_fixed);
    /// Of a whole model's file.
    DraftVocab(const model::Model& model, int32_t n_fixed);

    /// Counts what the text's last tokens need; control tokens don't count. Call for each text of a pass, then take().
    void look_at(std::span<const vocab::TokenId> text, const vocab::Vocab& vocab);
    /// Ids to score for drafts of at most n_max tokens, and forgets the texts. 0: all.
    int32_t take(int32_t n_max);

    /// The last answer of take().
    int32_t n_ids() const { return n_ids_; }

  private:
    static constexpr size_t kLevels = 4;  ///< beside all ids

    /// What is expected of a text that has shown nothing yet, from a sample of prose and code.
    void usual_from(const vocab::Vocab& vocab);

    int32_t n_vocab_ = 0;
    int32_t n_fixed_ = 0;
    double head_share_ = 0.0;
    std::array<int32_t, kLevels> ids_{};       ///< of each level, ascending
    std::array<int32_t, kLevels> n_missed_{};  ///< tokens looked at whose ids lie above the level
    int32_t n_looked_ = 0;
    std::array<double, kLevels> usual_misses_ = {0.11, 0.05, 0.025, 0.013};  ///< Qwen2.5's, prose and code
    int32_t n_ids_ = 0;
};

}  // namespace foresay::spec
