// Any parameters and any row: a sampler is refused or draws a token of its candidates, twice the same one.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/assert.h"
#include "sampling/sampler.h"
#include "vocab/fake_vocab.h"

namespace {

using foresay::vocab::TokenId;

/// Reads values from the input; zeros when it is used up.
class Input {
  public:
    Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

    template <typename T>
    T take() {
        T value{};
        const size_t n = size_ < sizeof(T) ? size_ : sizeof(T);
        std::memcpy(&value, data_, n);
        data_ += n;
        size_ -= n;
        return value;
    }

    bool empty() const { return size_ == 0; }

  private:
    const uint8_t* data_;
    size_t size_;
};

foresay::sampling::Params params_of(Input& input) {
    foresay::sampling::Params params;
    params.seed = input.take<uint32_t>();
    params.min_keep = input.take<int8_t>();
    params.top_k = input.take<int8_t>();
    params.repeat_last_n = input.take<int8_t>();
    params.dry_penalty_last_n = input.take<int8_t>();
    params.dry_allowed_length = input.take<int8_t>();
    params.mirostat = input.take<int8_t>();
    params.ignore_eos = (input.take<uint8_t>() & 1U) != 0;
    for (float* value : {&params.temperature, &params.dynatemp_range, &params.dynatemp_exponent, &params.top_p,
                         &params.min_p, &params.top_n_sigma, &params.typical_p, &params.xtc_probability,
                         &params.xtc_threshold, &params.repeat_penalty, &params.presence_penalty,
                         &params.frequency_penalty, &params.dry_multiplier, &params.dry_base, &params.mirostat_tau,
                         &params.mirostat_eta, &params.adaptive_target, &params.adaptive_decay}) {
        // Mostly plausible numbers, or nearly everything would be refused.
        const auto kind = input.take<uint8_t>();
        *value = kind == 255 ? input.take<float>() : kind < 128 ? *value : static_cast<float>(kind - 128) / 32.0F;
    }
    if (const auto n = input.take<uint8_t>(); n > 0) {
        params.samplers.clear();
        for (int i = 0; i < n % 12; ++i) {
            params.samplers.emplace_back(1, "edskypmxtia"[input.take<uint8_t>() % 11]);
        }
    }
    params.logit_bias.emplace_back(input.take<int8_t>(), input.take<float>());
    return params;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    auto vocab = std::make_shared<foresay::vocab::FakeVocab>(64);
    vocab->eog = {3, 9};
    vocab->suppressed_tokens = {5};
    vocab->tokens[7] = "a\n";
    auto sampler = foresay::sampling::Sampler::create(params_of(input), vocab);
    if (!sampler.has_value()) {
        return 0;
    }
    for (int position = 0; position < 8 && !input.empty(); ++position) {
        std::vector<float> logits(64);
        for (float& logit : logits) {
            const auto kind = input.take<int8_t>();
            logit = kind == 127 ? input.take<float>() : static_cast<float>(kind) / 8.0F;
        }
        const TokenId id = (*sampler)->draw(logits, position).id;
        const foresay::sampling::Draw again = (*sampler)->draw(logits, position);
        FORESAY_ASSERT(again.id == id);
        double sum = 0.0;
        bool is_inside = false;
        for (const foresay::sampling::Candidate& c : again.candidates) {
            FORESAY_ASSERT(c.p >= 0.0F && c.p_rank >= 0.0F);
            is_inside = is_inside || c.id == id;
            sum += static_cast<double>(c.p);
        }
        FORESAY_ASSERT(is_inside && std::abs(sum - 1.0) < 1e-3);
        (*sampler)->accept(id, position % 2 == 0);
        (*sampler)->accept(input.take<int8_t>(), true);
    }
    return 0;
}
