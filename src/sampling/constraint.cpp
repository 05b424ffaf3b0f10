#include "sampling/constraint.h"

#include <limits>
#include <optional>
#include <utility>

namespace foresay::sampling {

Constraint::Constraint(std::shared_ptr<grammar::Grammar> grammar, std::shared_ptr<const grammar::Triggers> triggers)
    : grammar_(std::move(grammar)), triggers_(std::move(triggers)), matcher_(grammar_, triggers_) {}

Result<std::unique_ptr<Constraint>> Constraint::create(const Params& params,
                                                       const std::shared_ptr<const vocab::Vocab>& vocab,
                                                       grammar::Library* grammars) {
    if (params.grammar.empty()) {
        return std::unique_ptr<Constraint>();
    }
    std::optional<grammar::Library> own;
    if (grammars == nullptr) {
        own.emplace(vocab);
        grammars = &*own;
    }
    auto compiled = grammars->get(params.grammar);
    if (!compiled.has_value()) {
        Error cause = std::move(compiled).error();
        // The beginning is the peer's text, which clients know.
        cause.message = "Failed to initialize samplers: failed to parse grammar: " + cause.message;
        return cause;
    }
    std::shared_ptr<const grammar::Triggers> triggers;
    if (params.grammar_lazy) {
        FORESAY_TRY(grammar::Triggers checked, grammar::Triggers::create(params.grammar_triggers, vocab->n_tokens()));
        triggers = std::make_shared<const grammar::Triggers>(std::move(checked));
    }
    return std::unique_ptr<Constraint>(new Constraint(std::move(*compiled), std::move(triggers)));
}

bool Constraint::allows(TokenId id) {
    return matcher_.allows(id);
}

std::shared_ptr<const grammar::Mask> Constraint::mask() {
    return matcher_.mask();
}

Constraint::Legal Constraint::keep_legal(std::span<float> logits, const std::function<bool(TokenId)>& is_banned) {
    Legal legal;
    const auto mask = matcher_.mask();
    if (mask == nullptr || matcher_.trouble() == grammar::Trouble::kTooCostly) {
        legal.status =
            error(Code::kInvalidArgument, "the grammar is too ambiguous: one step takes too much work", "grammar");
        return legal;
    }
    bool is_any_left = false;
    for (size_t i = 0; i < logits.size(); ++i) {
        const auto id = static_cast<TokenId>(i);
        if (!mask->has(id)) {
            logits[i] = -std::numeric_limits<float>::infinity();
        } else if (!is_any_left) {
            is_any_left = logits[i] > -std::numeric_limits<float>::infinity() && !is_banned(id);
        }
    }
    if (is_any_left) {
        return legal;
    }
    const auto ends = grammar_->tokens().eog_tokens();
    if (matcher_.is_complete() && !ends.empty()) {
        const TokenId eos = grammar_->tokens().vocab().eos();
        legal.only_end = grammar_->tokens().is_eog(eos) ? eos : ends.front();
    } else if (mask->empty()) {
        legal.status =
            error(Code::kInvalidArgument, "no token of the vocabulary can follow under the grammar", "grammar");
    } else {
        legal.status = error(Code::kInvalidArgument,
                             "every token that the grammar allows here is banned by the request", "grammar");
    }
    return legal;
}

void Constraint::accept(TokenId id) {
    matcher_.accept(id);
}

void Constraint::reset() {
    matcher_ = grammar::Matcher(grammar_, triggers_);
}

}  // namespace foresay::sampling
