// Repetition (CTRL, Keskar et al. 2019), frequency and presence penalties over a window of accepted tokens.
#include <algorithm>
#include <vector>

#include "sampling/steps.h"
#include "sampling/window.h"

namespace foresay::sampling {
namespace {

class Penalties final : public Step {
  public:
    explicit Penalties(const Params& params)
        : window_(params.repeat_last_n),
          repeat_(params.repeat_penalty),
          frequency_(params.frequency_penalty),
          presence_(params.presence_penalty) {}

    void apply(Row& row, DrawKey) override {
        edits_.clear();
        for (const Count& count : counts_) {
            edits_.push_back({count.id, repeat_, static_cast<float>(count.n) * frequency_ + presence_});
        }
        row.edit(edits_);
    }

    void accept(TokenId id, std::span<const Candidate>) override {
        add(id, 1);
        if (const TokenId gone = window_.push(id); gone != vocab::kNoToken) {
            add(gone, -1);
        }
    }

    void reset() override {
        window_.clear();
        counts_.clear();
    }

  private:
    struct Count {
        TokenId id = 0;
        int32_t n = 0;
    };

    void add(TokenId id, int32_t n) {
        if (id < 0) {
            return;  // kNoToken marks "nothing left the window": it can't be counted too
        }
        const auto it =
            std::lower_bound(counts_.begin(), counts_.end(), id, [](const Count& c, TokenId x) { return c.id < x; });
        if (it == counts_.end() || it->id != id) {
            counts_.insert(it, {id, n});
        } else if ((it->n += n) == 0) {
            counts_.erase(it);
        }
    }

    Window window_;
    std::vector<Count> counts_;  ///< ascending by id: the form that Row::edit wants
    std::vector<Edit> edits_;
    float repeat_;
    float frequency_;
    float presence_;
};

}  // namespace

std::unique_ptr<Step> make_penalties(const Params& params) {
    const bool is_neutral =
        params.repeat_penalty == 1.0F && params.frequency_penalty == 0.0F && params.presence_penalty == 0.0F;
    if (params.repeat_last_n == 0 || is_neutral) {
        return nullptr;
    }
    return std::make_unique<Penalties>(params);
}

}  // namespace foresay::sampling
