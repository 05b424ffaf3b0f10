#include "cli/tune/setting.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/flag_values.h"

namespace foresay::cli::tune {
namespace {

constexpr int32_t kAdaptiveMax = 16;  // what the controller may go up to
constexpr int32_t kMostNMax = 4096;

Setting strict(int32_t n_max, float p_min = 0.0F) {
    Setting s;
    s.n_max = n_max;
    s.p_min = p_min;
    return s;
}

Setting adaptive(int32_t top_n = 0) {
    Setting s = strict(kAdaptiveMax);
    s.adaptive = true;
    s.rule = top_n > 0 ? spec::Rule::kRelaxed : spec::Rule::kStrict;
    s.top_n = top_n;
    return s;
}

Setting relaxed(int32_t top_n, int32_t n_max, float p_min = 0.0F, float delta = -1.0F) {
    Setting s = strict(n_max, p_min);
    s.rule = spec::Rule::kRelaxed;
    s.top_n = top_n;
    s.delta = delta;
    return s;
}

Setting typical(int32_t n_max) {
    Setting s = strict(n_max);
    s.rule = spec::Rule::kTypical;
    return s;
}

/// Takes one part of a setting. has_rule: set when the part names the rule.
Status take_part(std::string_view part, Setting* setting, bool* has_rule) {
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view{} : part.substr(equals + 1);
    if (key == "adaptive" && equals == std::string_view::npos) {
        setting->adaptive = true;
        setting->n_max = std::max(setting->n_max, kAdaptiveMax);
        return ok();
    }
    if (key == "n_max") {
        FORESAY_TRY(const int64_t n, parse_int(value, 1, kMostNMax));
        setting->n_max = static_cast<int32_t>(n);
        return ok();
    }
    if (key == "top_n") {
        FORESAY_TRY(const int64_t n, parse_int(value, 0, kMaxInt));
        setting->top_n = static_cast<int32_t>(n);
        return ok();
    }
    if (key == "p_min") {
        FORESAY_TRY(const double p, parse_float(value, 0, 1));
        setting->p_min = static_cast<float>(p);
        return ok();
    }
    if (key == "delta") {
        FORESAY_TRY(const double nats, parse_float(value, 0, 1e30));
        setting->delta = static_cast<float>(nats);
        return ok();
    }
    if (key == "rule") {
        FORESAY_TRY(const std::string name, parse_choice(value, {"strict", "relaxed", "typical", "lossless"}));
        setting->rule = *spec::rule_of(name);
        *has_rule = true;
        return ok();
    }
    return error(
        Code::kInvalidArgument,
        fmt::format("'{}' is none of plain, adaptive, n_max=N, p_min=P, top_n=N, delta=NATS, rule=NAME", part));
}

Result<Setting> parse_setting(std::string_view text) {
    Setting setting;
    if (text == "plain") {
        return setting;
    }
    bool has_rule = false;
    for (const std::string& part : split(text, ':')) {
        if (auto status = take_part(part, &setting, &has_rule); !status) {
            return std::move(status).error().context(fmt::format("setting '{}'", text));
        }
    }
    const auto refuse = [&](std::string_view why) {
        return error(Code::kInvalidArgument, std::string(why), fmt::format("setting '{}'", text));
    };
    if (setting.n_max == 0) {
        return refuse("it names neither n_max nor adaptive");
    }
    if (!has_rule && setting.top_n > 1) {
        setting.rule = spec::Rule::kRelaxed;
    }
    if (setting.rule == spec::Rule::kRelaxed && setting.top_n < 2) {
        return refuse("the relaxed rule needs a top_n of 2 or more");
    }
    if (setting.rule != spec::Rule::kRelaxed && (setting.top_n > 1 || setting.delta >= 0.0F)) {
        return refuse("top_n and delta belong to the relaxed rule");
    }
    return setting;
}

Source ngram_source(spec::SpecType type, spec::NgramOptions options, std::vector<std::string> more) {
    Source source;
    source.name = std::string(spec::name_of(type));
    source.types = {type};
    source.ngram = std::move(options);
    source.flags = {fmt::format("--spec-type {}", source.name)};
    source.flags.insert(source.flags.end(), more.begin(), more.end());
    return source;
}

/// The flag that limits what an n-gram type drafts; empty: it has none.
std::string limit_flag(spec::SpecType type, int32_t n_max) {
    switch (type) {
        case spec::SpecType::kNgramSimple:
        case spec::SpecType::kNgramMapK:
        case spec::SpecType::kNgramMapK4v:
            return fmt::format("--spec-{}-size-m {}", spec::name_of(type), n_max);
        case spec::SpecType::kNgramMod:
            return fmt::format("--spec-ngram-mod-n-max {}", n_max);
        case spec::SpecType::kNgramSuffix:
            return fmt::format("--spec-ngram-suffix-n-max {}", n_max);
        default:
            return {};
    }
}

}  // namespace

bool Source::runs_model() const {
    return std::any_of(types.begin(), types.end(), spec::is_draft_model);
}

std::string name_of(const Setting& setting) {
    if (setting.is_plain()) {
        return "plain";
    }
    std::string name;
    if (setting.rule == spec::Rule::kRelaxed) {
        name = fmt::format("top-{}", setting.top_n);
        name += setting.delta >= 0.0F ? fmt::format(" delta {:g}", setting.delta) : "";
    } else {
        name = std::string(spec::name_of(setting.rule));
    }
    if (!setting.adaptive) {
        name += fmt::format(" n_max {}", setting.n_max);
    } else {
        name += setting.n_max == kAdaptiveMax ? " adaptive" : fmt::format(" adaptive n_max {}", setting.n_max);
    }
    return setting.p_min > 0.0F ? name + fmt::format(" p_min {:g}", setting.p_min) : name;
}

Result<std::vector<Setting>> parse_settings(std::string_view list) {
    std::vector<Setting> settings;
    for (const std::string& text : split(list, ',')) {
        FORESAY_TRY(Setting setting, parse_setting(text));
        if (!setting.is_plain() && std::find(settings.begin(), settings.end(), setting) == settings.end()) {
            settings.push_back(setting);  // plain is measured anyway
        }
    }
    if (settings.empty()) {
        return error(Code::kInvalidArgument, "there is nothing beside plain to measure", "--settings");
    }
    return settings;
}

engine::SpecRequest request_of(const Setting& setting) {
    engine::SpecRequest request;
    request.n_max = setting.n_max;
    request.n_min = 0;
    request.p_min = setting.p_min;
    request.adaptive = setting.adaptive;
    request.rule = setting.rule;
    request.relaxed_top_n = setting.top_n;
    request.relaxed_delta = setting.delta;
    return request;
}

std::vector<std::string> flags_of(const Setting& setting, const Source& source) {
    if (setting.is_plain()) {
        return {"--spec-type none"};
    }
    std::vector<std::string> flags = source.flags;
    if (source.runs_model()) {
        flags.push_back(fmt::format("--spec-draft-n-max {}", setting.n_max));
    } else {
        for (const spec::SpecType type : source.types) {
            if (std::string flag = limit_flag(type, setting.n_max); !flag.empty()) {
                flags.push_back(std::move(flag));
            }
        }
    }
    if (setting.p_min > 0.0F) {
        flags.push_back(fmt::format("--spec-draft-p-min {:g}", setting.p_min));
    }
    flags.emplace_back(setting.adaptive ? "--spec-draft-adaptive" : "--no-spec-draft-adaptive");
    if (setting.rule == spec::Rule::kRelaxed) {
        flags.push_back(fmt::format("--spec-draft-relaxed-top-n {}", setting.top_n));
        if (setting.delta >= 0.0F) {
            flags.push_back(fmt::format("--spec-draft-relaxed-delta {:g}", setting.delta));
        }
    } else if (setting.rule != spec::Rule::kStrict) {
        flags.push_back(fmt::format("--spec-draft-rule {}", spec::name_of(setting.rule)));
    }
    return flags;
}

std::vector<Setting> model_grid(bool full) {
    if (!full) {
        return {strict(2), strict(4), adaptive(), relaxed(3, 2), relaxed(5, 4)};
    }
    constexpr float kSure = 0.8F;
    constexpr float kMargin = 0.7F;
    return {strict(1),
            strict(2),
            strict(3),
            strict(4),
            strict(6),
            strict(8),
            strict(8, kSure),
            strict(16, kSure),
            adaptive(),
            relaxed(2, 2),
            relaxed(5, 2),
            relaxed(20, 2),
            relaxed(2, 4),
            relaxed(5, 4),
            relaxed(20, 4),
            relaxed(5, 8),
            relaxed(5, 16, kSure),
            relaxed(20, 4, 0.0F, kMargin),
            relaxed(20, 8, 0.0F, kMargin),
            typical(4),
            adaptive(5)};
}

std::vector<Setting> ngram_grid(bool full, size_t source) {
    std::vector<Setting> grid = full ? std::vector<Setting>{strict(4),     strict(8),      strict(16), adaptive(),
                                                            relaxed(3, 8), relaxed(5, 16), adaptive(5)}
                                     : std::vector<Setting>{strict(4), adaptive(), relaxed(5, 4)};
    for (Setting& setting : grid) {
        setting.source = source;
    }
    return grid;
}

std::vector<Source> ngram_sources(bool full) {
    constexpr int32_t kShortKey = 3;  // the defaults' 12 equal tokens are rare in short texts
    spec::NgramOptions short_key;
    short_key.simple.size_n = kShortKey;
    std::vector<Source> sources{ngram_source(spec::SpecType::kNgramSuffix, {}, {}),
                                ngram_source(spec::SpecType::kNgramSimple, short_key,
                                             {fmt::format("--spec-ngram-simple-size-n {}", kShortKey)})};
    if (full) {
        sources.push_back(ngram_source(spec::SpecType::kNgramCache, {}, {}));
    }
    return sources;
}

}  // namespace foresay::cli::tune
