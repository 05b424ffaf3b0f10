// One setting of speculation that `foresay tune` measures: how it is written on a command line, in a report, in a
// request. Must not know engines at work or how a setting is measured.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "spec/acceptance.h"
#include "spec/spec_type.h"

namespace foresay::cli::tune {

struct Setting {
    int32_t n_max = 0;  ///< 0: plain decoding
    float p_min = 0.0F;
    bool adaptive = false;
    spec::Rule rule = spec::Rule::kStrict;
    int32_t top_n = 0;    ///< of the relaxed rule
    float delta = -1.0F;  ///< of the relaxed rule, nats; -1: any
    size_t source = 0;    ///< which drafter (Source); plain is measured beside each of them

    bool is_plain() const { return n_max == 0; }

    /// Whether the text may be another than that of plain decoding.
    bool is_relaxed() const { return rule != spec::Rule::kStrict; }

    bool operator==(const Setting& other) const = default;
};

/// What drafts: the model's file, or one or more n-gram types with their sizes.
struct Source {
    std::string name;  ///< "draft-simple", "ngram-suffix"
    std::vector<spec::SpecType> types;
    spec::NgramOptions ngram;
    std::vector<std::string> flags;  ///< that make it: "--spec-type ngram-simple"

    bool runs_model() const;
};

/// "plain", "strict n_max 2", "top-5 n_max 8 p_min 0.8", "top-20 delta 0.7 n_max 4", "typical n_max 4",
/// "strict adaptive".
std::string name_of(const Setting& setting);

/// A comma list of settings; a setting is a colon list of plain, n_max=N, p_min=P, top_n=N, delta=NATS, rule=NAME,
/// adaptive. Errors: invalid_argument naming the part.
Result<std::vector<Setting>> parse_settings(std::string_view list);

engine::SpecRequest request_of(const Setting& setting);

/// The flags of `foresay serve` that put the setting in force, one "--name value" each.
std::vector<std::string> flags_of(const Setting& setting, const Source& source);

/// What is worth measuring, without plain. full: false is the short list of --quick.
std::vector<Setting> model_grid(bool full);
std::vector<Setting> ngram_grid(bool full, size_t source);
/// The n-gram sources that are tried where no drafter is given.
std::vector<Source> ngram_sources(bool full);

}  // namespace foresay::cli::tune
