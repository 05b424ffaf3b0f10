// Judges the drafted tokens of one response: the rule, its budget and its scope. Owns what has been spent and whether
// the text is inside the thinking span. Must not know drafters, slots or HTTP. Source: shared/spec/sampling.md, 12
// and 13.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "spec/acceptance.h"

namespace foresay::spec {

/// Follows a text and knows whether it is between the marks. Works on bytes: a mark may be one token or several.
class ThinkingSpan {
  public:
    explicit ThinkingSpan(std::string open = "<think>", std::string close = "</think>")
        : open_(std::move(open)), close_(std::move(close)) {}

    void push(std::string_view piece);

    bool inside() const { return inside_; }

    /// True when the piece would begin, continue or end a mark.
    bool touches_mark(std::string_view piece) const;

  private:
    bool ends_in_part_of_mark() const;

    std::string open_;
    std::string close_;
    std::string tail_;  ///< of the text, shorter than the longer mark
    bool inside_ = false;
};

class Acceptor {
  public:
    Acceptor(const AcceptanceOptions& options, std::shared_ptr<const vocab::Vocab> vocab);

    /// The text in front of the response: a template may have opened the thinking span.
    void start(std::span<const vocab::TokenId> prompt);

    Rule rule() const { return rule_; }

    int32_t relaxed_top_n() const { return options_.relaxed_top_n; }

    /// May the drafted token stand? Changes nothing. q: as in decide_lossless; position: index in the response.
    Decision decide(const sampling::Draw& draw, vocab::TokenId drafted, std::span<const DraftProb> q, uint32_t seed,
                    int64_t position) const;
    /// A token is now part of the text; decision: of a drafted one, null otherwise.
    void emitted(vocab::TokenId id, const Decision* decision);

    int32_t n_relaxed() const { return n_relaxed_; }

    double gap() const { return gap_; }

  private:
    bool may_relax(vocab::TokenId drafted, const Decision& decision) const;

    AcceptanceOptions options_;
    Rule rule_;
    std::shared_ptr<const vocab::Vocab> vocab_;
    ThinkingSpan thinking_;
    int32_t n_relaxed_ = 0;
    double gap_ = 0.0;
};

}  // namespace foresay::spec
