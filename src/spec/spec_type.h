// The kinds of drafters by their --spec-type names, in the order in which a chain of them is tried.
// Source: shared/spec/draft-models.md, section 2.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foresay::spec {

/// The numeric order is the order of attempts: the order that a user gives doesn't count.
enum class SpecType : uint8_t {
    kNone,
    kNgramSimple,
    kNgramMapK,
    kNgramMapK4v,
    kNgramMod,
    kNgramCache,
    kNgramSuffix,
    kDraftSimple,
    kDraftEagle3,
    kDraftMtp,
    kDraftDflash,
    kDraftDspark,
};

/// The names, by the types' numbers.
inline constexpr std::array<std::string_view, 12> kSpecTypeNames{
    "none",         "ngram-simple", "ngram-map-k",  "ngram-map-k4v", "ngram-mod",    "ngram-cache",
    "ngram-suffix", "draft-simple", "draft-eagle3", "draft-mtp",     "draft-dflash", "draft-dspark"};

/// "ngram-map-k".
constexpr std::string_view name_of(SpecType type) {
    return kSpecTypeNames.at(static_cast<size_t>(type));
}

/// Empty when no type has this name.
constexpr std::optional<SpecType> spec_type_of(std::string_view name) {
    for (size_t i = 0; i < kSpecTypeNames.size(); ++i) {
        if (kSpecTypeNames.at(i) == name) {
            return static_cast<SpecType>(i);
        }
    }
    return std::nullopt;
}

/// The types that run a model; at most one of them can be in a chain.
bool is_draft_model(SpecType type);
/// Each type once, in the order of attempts, "none" left out.
std::vector<SpecType> in_order(std::vector<SpecType> types);
/// "ngram-mod,draft-simple"; "none" for no type.
std::string join_names(std::span<const SpecType> types);

}  // namespace foresay::spec
