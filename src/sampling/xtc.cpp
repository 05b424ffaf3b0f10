// XTC, "exclude top choices" (text-generation-webui #6335): now and then removes all candidates above a threshold but
// the least likely of them.
#include "sampling/steps.h"

namespace foresay::sampling {
namespace {

class Xtc final : public Step {
  public:
    explicit Xtc(const Params& params)
        : probability_(static_cast<double>(params.xtc_probability)),
          threshold_(params.xtc_threshold),
          min_keep_(static_cast<size_t>(params.min_keep)) {}

    void apply(Row& row, DrawKey key) override {
        if (uniform_of(noise_key(key, Purpose::kXtc), 0) > probability_ || row.items().size() < 2) {
            return;
        }
        (void)row.softmax();
        const size_t size = row.items().size();
        size_t n_above = 0;
        while (n_above < size && row.sorted_items(n_above + 1)[n_above].p >= threshold_) {
            ++n_above;
        }
        if (n_above < 2) {
            return;
        }
        const size_t last = n_above - 1;
        if (size - last >= min_keep_) {
            row.drop_front(last);
        }
    }

  private:
    double probability_;
    float threshold_;
    size_t min_keep_;
};

}  // namespace

std::unique_ptr<Step> make_xtc(const Params& params) {
    if (params.xtc_probability <= 0.0F || params.xtc_threshold > 0.5F) {
        return nullptr;
    }
    return std::make_unique<Xtc>(params);
}

}  // namespace foresay::sampling
