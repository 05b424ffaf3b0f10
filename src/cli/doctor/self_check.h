// Proof on the user's own files that strict drafts change nothing: token ids and log-probabilities, bit for bit. Pure
// but for the generator that it is given.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace foresay::cli::doctor {

/// What is compared of one text.
struct Text {
    std::vector<vocab::TokenId> ids;
    std::vector<float> logprobs;
};

/// The first place where two texts part.
struct Difference {
    size_t at = 0;                           ///< token
    vocab::TokenId plain = vocab::kNoToken;  ///< kNoToken: that text has ended
    vocab::TokenId drafted = vocab::kNoToken;
    float plain_logprob = 0.0F;
    float drafted_logprob = 0.0F;
};

/// Log-probabilities count as equal only with equal bits.
std::optional<Difference> first_difference(const Text& plain, const Text& drafted);

/// How a text is generated.
struct Case {
    float temperature = 0.0F;
    int32_t n_max = 0;  ///< 0: plain, one text at a time; else strict drafts, all texts at once
    bool adaptive = false;
};

/// "n_max 4, temperature 0.8".
std::string name_of(const Case& which);

/// Texts of all prompts for a case, in the prompts' order.
using Generate = std::function<Result<std::vector<Text>>(const Case&)>;

struct CheckResult {
    struct Failure {
        Case which;
        size_t prompt = 0;
        Difference difference;
    };

    int32_t n_compared = 0;  ///< texts
    int64_t n_tokens = 0;
    std::vector<Failure> failures;
};

/// Plain, then every n_max and adaptive, at each temperature. Errors: what generate reports.
Result<CheckResult> check_strict(const std::vector<float>& temperatures, const std::vector<int32_t>& n_maxes,
                                 const Generate& generate);

/// For a terminal.
std::string to_text(const CheckResult& result, const vocab::Vocab& vocab);

}  // namespace foresay::cli::doctor
