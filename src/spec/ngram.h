// Drafters without a model: they propose what followed earlier in the text. Settings and construction.
// Source: shared/spec/draft-models.md, sections 11, 12 and 18.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "spec/drafter.h"
#include "spec/spec_type.h"

namespace foresay::spec {

/// Named and defaulted as the flags --spec-ngram-<type>-<field>.
struct NgramOptions {
    struct Copy {
        int32_t size_n = 12;  ///< 1..1024: tokens that must match
        int32_t size_m = 48;  ///< 1..1024: most tokens drafted
        int32_t min_hits = 1;
    };

    Copy simple;
    Copy map_k;
    Copy map_k4v;
    int32_t mod_n_match = 24;   ///< 1..1024
    int32_t mod_n_min = 48;     ///< 0..1024
    int32_t mod_n_max = 64;     ///< 0..1024
    bool mod_shared = false;    ///< one table for all requests: drafts may come from other requests' text
    std::string lookup_static;  ///< files of ngram-cache; empty: none
    std::string lookup_dynamic;
    int32_t suffix_min_match = 5;        ///< 1..1024
    int32_t suffix_max_depth = 64;       ///< 2..1024
    int32_t suffix_n_max = 16;           ///< 0..1024
    int32_t suffix_max_nodes = 1 << 20;  ///< 65536..2^28, per slot, 24 bytes each
};

/// Most tokens that this type drafts at once. type: an n-gram type.
int32_t ngram_n_max(SpecType type, const NgramOptions& options);

/// Errors: invalid_argument naming the flag whose value is out of range; what reading a lookup file gives.
/// n_ctx_slot: tokens that a slot's context can hold; n_vocab: the target's, no other id is drafted.
Result<std::unique_ptr<Drafter>> make_ngram(SpecType type, const NgramOptions& options, int32_t n_ctx_slot,
                                            int32_t n_vocab);

}  // namespace foresay::spec
