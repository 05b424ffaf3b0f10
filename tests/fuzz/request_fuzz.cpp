// Request bodies to engine requests, /tokenize and /detokenize: no bytes may crash them, and what they accept must be
// in range.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/assert.h"
#include "server/api/app.h"
#include "server/api/format_settings.h"
#include "server/api/json.h"
#include "server/api/parse_completion.h"
#include "server/api/text_tools.h"
#include "server/fake_engine.h"

#include <nlohmann/json.hpp>

namespace {

using foresay::server::ByteVocab;

const foresay::server::App& app() {
    static const auto instance = [] {
        auto made = std::make_unique<foresay::server::App>();
        made->parse.vocab = std::make_shared<ByteVocab>();
        made->parse.n_slots = 4;
        made->format.vocab = made->parse.vocab;
        return made;
    }();
    return *instance;
}

void check(const foresay::engine::Request& r) {
    const auto& p = r.sampling;
    FORESAY_ASSERT(r.n_predict >= -1 && r.n_keep >= -1 && r.n_discard >= 0 && r.t_max_predict_ms >= -1);
    FORESAY_ASSERT(r.id_slot >= -1 && r.id_slot < 4 && r.n_probs >= 0 && r.n_probs <= ByteVocab::kTokens);
    FORESAY_ASSERT(r.spec.n_max.value_or(0) >= 0 && r.spec.n_min.value_or(0) >= 0 &&
                   r.spec.relaxed_top_n.value_or(0) >= 0);
    FORESAY_ASSERT(r.spec.p_min.value_or(0.0F) >= 0.0F && r.spec.p_min.value_or(0.0F) <= 1.0F);
    FORESAY_ASSERT(p.top_k >= 0 && p.min_keep >= 0 && p.repeat_last_n >= 0 && p.mirostat >= 0 && p.mirostat <= 2);
    for (const float value :
         {p.temperature, p.dynatemp_range, p.dynatemp_exponent, p.top_p, p.min_p, p.top_n_sigma, p.typical_p,
          p.repeat_penalty, p.presence_penalty, p.frequency_penalty, p.dry_multiplier, p.dry_base, p.mirostat_tau}) {
        FORESAY_ASSERT(std::isfinite(value));
    }
    for (const auto id : r.prompt) {
        FORESAY_ASSERT(id >= 0 && id < ByteVocab::kTokens);
    }
    for (const auto& [id, bias] : p.logit_bias) {
        FORESAY_ASSERT(id >= 0 && id < ByteVocab::kTokens && !std::isnan(bias));
    }
    for (const auto& word : r.stop) {
        FORESAY_ASSERT(!word.empty());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string body(reinterpret_cast<const char*>(data), size);
    const auto result = foresay::server::parse_completion(body, app().parse);
    if (result) {
        FORESAY_ASSERT(!result->tasks.empty());
        for (const auto& task : result->tasks) {
            check(task);
        }
        using foresay::server::SettingsForm;
        const auto settings =
            format_settings(result->tasks[0], result->reply, nullptr, app().format, SettingsForm::kFull);
        FORESAY_ASSERT(nlohmann::json::accept(foresay::server::dump(settings)));
    } else {
        FORESAY_ASSERT(!result.error().message.empty());
    }
    FORESAY_ASSERT(nlohmann::json::accept(tokenize(app(), body).body));
    FORESAY_ASSERT(nlohmann::json::accept(detokenize(app(), body).body));
    return 0;
}
