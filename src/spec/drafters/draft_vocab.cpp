#include "spec/drafters/draft_vocab.h"

#include <algorithm>
#include <string_view>

namespace foresay::spec {
namespace {

constexpr std::array<double, 4> kParts = {0.125, 0.25, 0.375, 0.5};
constexpr double kUsualWeight = 64.0;  // tokens of a text that outweigh the guess
constexpr size_t kWindow = 512;        // last tokens of a text that count
constexpr int32_t kMultiple = 256;     // rows: whole tiles of every layout
constexpr int32_t kSmallest = 8192;    // heads of fewer ids aren't worth a second set of graphs

// What a missed token costs, in shares of a drafted token's cost. With a draft of n tokens, each standing with
// probability a, a pass of 1 and a drafted token of d: throughput is (1 + a + .. + a^n) / (1 + n d). Lowering a by the
// share m of missed tokens, of which 0.7 would have stood, loses at most m * 0.7 * n / 2 (a near 1); making d cheaper
// by s gains s * n d / (1 + n d). With d = 0.37, as Qwen2.5 0.5B has it beside 1.5B, they are equal at s = (0.95 + 0.35
// n) m.
constexpr double kMissCost = 0.95;
constexpr double kMissCostPerToken = 0.35;
constexpr double kLeastGain = 0.08;  // of a drafted token's cost: less isn't worth the guesses above

constexpr double kSampleFactor = 1.75;  // the sample's words are common ones: longer texts miss 1.5 to 1.9 x as often
// What a vocabulary's usual tokens are: in some the single characters have the highest ids (Gemma).
constexpr std::string_view kSample =
    "The committee met on 14 March and agreed, after a long discussion, that the old bridge should be repaired before "
    "winter. \"We can't wait any longer,\" said its chairman; the engineers had found cracks in two of the pillars. "
    "Nobody knew what it would cost, but everyone hoped that the region would pay a part of it.\n\n"
    "- First, the traffic is led over the northern road.\n- Then the pillars are strengthened.\n\n"
    "```python\nimport json\n\ndef load_config(path, default=None):\n    \"\"\"Read a JSON file, or return the "
    "default.\"\"\"\n    try:\n        with open(path, encoding='utf-8') as file:\n            return json.load(file)\n"
    "    except FileNotFoundError:\n        return default\n\nfor i in range(10):\n    print(i, values[i] * 2.5)\n```\n"
    "for (int i = 0; i < n; ++i) {\n    total += items[i].price;\n}\nif (total > limit) {\n    throw "
    "std::runtime_error(\"too much\");\n}\n";

double head_share_of(const gguf::File& file) {
    const gguf::TensorInfo* table = file.tensor("token_embd.weight");
    const gguf::TensorInfo* head = file.tensor("output.weight");
    double all = 0.0;
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        // Of a table that isn't the head too, a token reads one row.
        all += &tensor == table && head != nullptr ? 0.0 : static_cast<double>(tensor.bytes);
    }
    head = head == nullptr ? table : head;
    return head == nullptr || all == 0.0 ? 0.0 : static_cast<double>(head->bytes) / all;
}

}  // namespace

DraftVocab::DraftVocab(int32_t n_vocab, double head_share, int32_t n_fixed)
    : n_vocab_(n_vocab), n_fixed_(n_fixed >= n_vocab ? n_vocab : n_fixed), head_share_(head_share) {
    for (size_t i = 0; i < kLevels; ++i) {
        const auto part = static_cast<int32_t>(kParts[i] * n_vocab);
        ids_[i] = std::min(n_vocab, (part + kMultiple - 1) / kMultiple * kMultiple);
    }
}

DraftVocab::DraftVocab(const model::Model& model, int32_t n_fixed)
    : DraftVocab(model.hparams().n_vocab, head_share_of(model.file()), n_fixed) {
    if (model.vocab() != nullptr) {
        usual_from(*model.vocab());
    }
}

void DraftVocab::usual_from(const vocab::Vocab& vocab) {
    look_at(vocab.encode(kSample, false, false), vocab);
    for (size_t i = 0; i < kLevels && n_looked_ > 0; ++i) {
        usual_misses_[i] = std::min(1.0, kSampleFactor * n_missed_[i] / n_looked_);
    }
    n_missed_ = {};
    n_looked_ = 0;
}

void DraftVocab::look_at(std::span<const vocab::TokenId> text, const vocab::Vocab& vocab) {
    if (n_vocab_ <= kSmallest || n_fixed_ != 0) {
        return;
    }
    for (const vocab::TokenId id : text.last(std::min(text.size(), kWindow))) {
        if (vocab.is_control(id)) {
            continue;  // those of a chat's frame stand in every text
        }
        ++n_looked_;
        for (size_t i = 0; i < kLevels && id >= ids_[i]; ++i) {
            ++n_missed_[i];
        }
    }
}

int32_t DraftVocab::take(int32_t n_max) {
    n_ids_ = n_fixed_ >= n_vocab_ ? 0 : n_fixed_;
    if (n_vocab_ > kSmallest && n_fixed_ == 0) {
        double least = head_share_ - kLeastGain;  // of the whole head, which misses nothing
        for (size_t i = 0; i < kLevels; ++i) {
            const double misses = (n_missed_[i] + kUsualWeight * usual_misses_[i]) / (n_looked_ + kUsualWeight);
            const double cost =
                head_share_ * ids_[i] / n_vocab_ + (kMissCost + kMissCostPerToken * std::max(1, n_max)) * misses;
            if (cost < least) {
                least = cost;
                n_ids_ = ids_[i];
            }
        }
    }
    n_missed_ = {};
    n_looked_ = 0;
    return n_ids_;
}

}  // namespace foresay::spec
