// Infill: the step for fill-in-the-middle. Ends the text where an end is likely, lets tokens that begin alike speak
// with one voice, and leaves only clear candidates. Rules and thresholds: sampling.md, section 4.5.
#include <algorithm>
#include <string>
#include <vector>

#include "sampling/steps.h"

namespace foresay::sampling {
namespace {

class Infill final : public Step {
  public:
    explicit Infill(std::shared_ptr<const vocab::Vocab> vocab) : vocab_(std::move(vocab)) {}

    void apply(Row& row, DrawKey) override {
        // Prefixes are compared pairwise. Beyond the best few hundred nothing can reach the first threshold, so that a
        // chain without top-k stays fast.
        constexpr size_t kMost = 512;
        row.keep_best(kMost);
        (void)row.softmax();
        double p_text = 0.0;
        double p_end = 0.0;
        for (const Candidate& c : row.items()) {
            (vocab_->is_eog(c.id) ? p_end : p_text) += static_cast<double>(c.p);
        }
        if (3.0 * p_end * static_cast<double>(row.items().size()) > p_text) {
            row.filter([this](const Candidate& c) { return vocab_->is_eog(c.id); });
            return;
        }
        merge_prefixes(row);
        cut(row);
    }

  private:
    /// Adds the probability of a token to the other one when one text begins with the other; the likelier one stays.
    void merge_prefixes(Row& row) {
        const std::span<Candidate> items = row.items();
        pieces_.clear();
        for (const Candidate& c : items) {
            pieces_.push_back(vocab_->piece(c.id, false));
        }
        is_merged_.assign(items.size(), false);
        for (size_t shorter = 0; shorter < items.size(); ++shorter) {
            for (size_t longer = 0; longer < items.size() && !is_merged_[shorter]; ++longer) {
                if (longer == shorter || is_merged_[longer] || pieces_[shorter].empty() ||
                    !pieces_[longer].starts_with(pieces_[shorter])) {
                    continue;
                }
                const bool longer_stays = items[longer].p > items[shorter].p;
                items[longer_stays ? longer : shorter].p += items[longer_stays ? shorter : longer].p;
                is_merged_[longer_stays ? shorter : longer] = true;
            }
        }
        size_t i = 0;
        row.filter([this, &i](const Candidate&) { return !is_merged_[i++]; });
    }

    void cut(Row& row) {
        constexpr float kFirst = 0.2F;
        size_t n_text = 0;
        float sum = 0.0F;
        const Candidate best = row.sorted_items(1)[0];
        row.filter([&](const Candidate& c) {
            const bool is_end = vocab_->is_eog(c.id);
            const bool stays = is_end || c.p >= kFirst;
            n_text += stays && !is_end ? 1 : 0;
            sum += stays ? c.p : 0.0F;
            return stays;
        });
        if (row.items().empty()) {
            // No clear text: the way out is an end of the text, unless the request bans it.
            const TokenId end = vocab_->eot() != vocab::kNoToken ? vocab_->eot() : vocab_->eos();
            row.assign(row.was_live(end) ? end : best.id, best.logit);
            return;
        }
        if (n_text == 0) {
            return;
        }
        const float second = sum / static_cast<float>(n_text + 1);
        row.filter([&](const Candidate& c) { return vocab_->is_eog(c.id) || c.p >= second; });
    }

    std::shared_ptr<const vocab::Vocab> vocab_;
    std::vector<std::string> pieces_;
    std::vector<bool> is_merged_;
};

}  // namespace

std::unique_ptr<Step> make_infill(std::shared_ptr<const vocab::Vocab> vocab) {
    return std::make_unique<Infill>(std::move(vocab));
}

}  // namespace foresay::sampling
