#include "spec/drafters/ngram_simple.h"

#include <algorithm>

#include "base/assert.h"

namespace foresay::spec {

constexpr int32_t kMostTokens = 1024;  // the range of --spec-ngram-simple-size-n and -m
constexpr size_t kNone = 0;            // index 0 is never tried, so it can stand for "no match"

NgramSimple::NgramSimple(int32_t n, int32_t m) : n_(static_cast<size_t>(n)), m_(static_cast<size_t>(m)) {
    FORESAY_ASSERT(n >= 1 && n <= kMostTokens && m >= 1 && m <= kMostTokens);
    borders_.resize(n_);
}

/// The largest j in [1, N-n-1] with history[j .. j+n-1] equal to the last n tokens, N = history.size() - 1; else kNone.
/// Knuth-Morris-Pratt from the end: a repetitive text is what this drafter is for, and there the plain search is
/// quadratic. Cost: linear in the history.
size_t NgramSimple::newest_match(std::span<const TokenId> history) {
    const size_t last = history.size() - 1;
    const auto pattern = [&](size_t i) { return history[last - i]; };  // the key, read backwards
    borders_[0] = 0;
    for (size_t i = 1, k = 0; i < n_; ++i) {
        while (k > 0 && pattern(i) != pattern(k)) {
            k = static_cast<size_t>(borders_[k - 1]);
        }
        k += pattern(i) == pattern(k) ? 1 : 0;
        borders_[i] = static_cast<int32_t>(k);
    }
    // j <= N-n-1 means that a match ends at N-2 or before.
    size_t matched = 0;
    for (size_t i = last - 2; i >= 1; --i) {
        while (matched > 0 && history[i] != pattern(matched)) {
            matched = static_cast<size_t>(borders_[matched - 1]);
        }
        matched += history[i] == pattern(matched) ? 1 : 0;
        if (matched == n_) {
            return i;
        }
    }
    return kNone;
}

void NgramSimple::propose_one(const DraftRequest& request, Draft& draft) {
    draft.tokens.clear();
    const size_t n_past = request.tokens.empty() ? 0 : request.tokens.size() - 1;  // N of the spec: without the last
    if (request.n_max <= 0 || n_past <= n_ + m_ + 1) {
        return;
    }
    const size_t match = newest_match(request.tokens);
    if (match == kNone) {
        return;
    }
    const size_t first = match + n_;
    const size_t n_copy = std::min(m_, n_past - first);
    if (n_copy < n_) {
        return;  // too near to the end of the text to be worth a draft
    }
    const size_t n_draft = std::min(n_copy, static_cast<size_t>(request.n_max));
    if (request.n_min > 0 && n_draft < static_cast<size_t>(request.n_min)) {
        return;
    }
    const auto begin = request.tokens.begin() + static_cast<ptrdiff_t>(first);
    draft.tokens.assign(begin, begin + static_cast<ptrdiff_t>(n_draft));
}

Status NgramSimple::propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) {
    drafts.resize(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
        propose_one(requests[i], drafts[i]);
    }
    return ok();
}

std::unique_ptr<Drafter> make_ngram_simple(int32_t n, int32_t m) {
    return std::make_unique<NgramSimple>(n, m);
}

}  // namespace foresay::spec
