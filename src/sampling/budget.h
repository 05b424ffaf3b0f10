// A limit on thinking: counts the tokens between the marks of thoughts and says which tokens close them once they are
// spent. Moves only in accept(). Must not know the chain. Source: shared/spec/sampling.md, section 1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sampling/sampler.h"

namespace foresay::sampling {

class Budget {
  public:
    /// Null when the parameters set no limit. Errors: invalid_argument (a limit without marks).
    static Result<std::unique_ptr<Budget>> create(const ReasoningBudget& limit,
                                                  std::shared_ptr<const vocab::Vocab> vocab);

    /// The token that must come next; kNoToken: any.
    TokenId forced() const;
    void accept(TokenId id);
    void reset();

  private:
    Budget(const ReasoningBudget& limit, std::shared_ptr<const vocab::Vocab> vocab);
    bool may_close() const;

    ReasoningBudget limit_;
    std::shared_ptr<const vocab::Vocab> vocab_;
    std::vector<TokenId> closing_;  ///< message and mark
    int32_t left_ = 0;              ///< tokens; all thoughts of a reply share them
    bool inside_ = false;
    size_t i_closing_ = 0;      ///< how many of closing_ have come
    std::string tail_;          ///< text that may be the beginning of the mark looked for
    vocab::Utf8Stream stream_;  ///< whether a character is incomplete
};

}  // namespace foresay::sampling
