// Does this drafter fit this target? One check for `foresay pair` and for start-up, on the files alone: nothing is
// loaded. Source: shared/spec/draft-models.md, 2, 4.1, 8.1, 9.1, 20 (12).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "vocab/vocab.h"

namespace foresay::spec {

/// How two vocabularies differ.
struct VocabDifference {
    struct Entry {
        vocab::TokenId id = 0;
        std::string target;
        std::string draft;
    };

    int32_t n_target = 0;
    int32_t n_draft = 0;
    int32_t n_different = 0;          ///< ids that both have, with other texts
    int32_t n_different_special = 0;  ///< of these, among the first five ids
    std::vector<Entry> first;         ///< the first few
    std::string other;                ///< kind, BOS or EOS; empty when they agree
};

VocabDifference compare_vocabs(const vocab::Vocab& target, const vocab::Vocab& draft);

struct PairReport {
    std::string type;                   ///< the --spec-type that the drafter's file is made for
    std::vector<std::string> problems;  ///< why it doesn't fit, a sentence each; empty: it fits
    std::vector<std::string> notes;     ///< what is worth knowing all the same
    std::vector<std::string> flags;     ///< to start with, "--name value" each
    VocabDifference vocab;
    bool nextn = false;  ///< it drafts with a NextN block (model::LoadOptions::nextn_base)

    bool fits() const { return problems.empty(); }
};

/// The type that a drafter's file is made for: by its architecture and tensors; draft-simple for any other model.
std::string detect_type(const gguf::File& draft);

/// Checks a pair. draft may be the target itself (layers of its own that draft). type: of --spec-type, or empty to
/// detect it.
PairReport check_pair(const gguf::File& target, const gguf::File& draft, std::string_view type = {});

}  // namespace foresay::spec
