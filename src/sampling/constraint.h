// The grammar beside the chain: which tokens a draw may give, and why none can be drawn. Moves only in accept().
// Must not know the chain. Source: shared/spec/sampling.md, sections 2 and 5.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "grammar/grammar.h"
#include "sampling/sampler.h"

namespace foresay::sampling {

class Constraint {
  public:
    /// Null when the parameters have no grammar. Errors: invalid_argument with the grammar's line and column, bad
    /// triggers.
    static Result<std::unique_ptr<Constraint>> create(const Params& params,
                                                      const std::shared_ptr<const vocab::Vocab>& vocab,
                                                      grammar::Library* grammars);

    bool allows(TokenId id);
    /// All that allows() holds for; null: too costly.
    std::shared_ptr<const grammar::Mask> mask();

    struct Legal {
        Status status = ok();  ///< an error: no token can be drawn
        /// The grammar is complete, and an end-of-generation token is all that may follow: it is drawn even where the
        /// request bans it (ignore_eos), because nothing else would be legal.
        TokenId only_end = vocab::kNoToken;
    };

    /// Sets the logits of forbidden tokens to minus infinity. is_banned: by the request or the model file.
    Legal keep_legal(std::span<float> logits, const std::function<bool(TokenId)>& is_banned);
    void accept(TokenId id);
    void reset();

  private:
    Constraint(std::shared_ptr<grammar::Grammar> grammar, std::shared_ptr<const grammar::Triggers> triggers);

    std::shared_ptr<grammar::Grammar> grammar_;
    std::shared_ptr<const grammar::Triggers> triggers_;
    grammar::Matcher matcher_;
};

}  // namespace foresay::sampling
