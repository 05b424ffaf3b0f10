// ngram-simple: drafts what followed the newest earlier occurrence of the last n tokens. Stateless, no model.
// Must not know the target or acceptance. Source: draft-models.md, section 11.1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/drafter.h"

namespace foresay::spec {

class NgramSimple final : public Drafter {
  public:
    /// n: length of the key; m: most tokens to draft. Both in [1, 1024].
    NgramSimple(int32_t n, int32_t m);

    std::string_view name() const override { return "ngram-simple"; }

    Status propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) override;

    size_t memory_bytes() const override { return borders_.capacity() * sizeof(int32_t); }

  private:
    void propose_one(const DraftRequest& request, Draft& draft);
    size_t newest_match(std::span<const TokenId> history);

    size_t n_;
    size_t m_;
    std::vector<int32_t> borders_;  ///< failure table of the search, sized once
};

}  // namespace foresay::spec
