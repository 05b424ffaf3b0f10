#include "spec/ngram.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "spec/drafters/ngram_cache.h"
#include "spec/drafters/ngram_map.h"
#include "spec/drafters/ngram_mod.h"
#include "spec/drafters/ngram_simple.h"
#include "spec/drafters/ngram_suffix.h"

namespace foresay::spec {
namespace {

constexpr int32_t kMostTokens = 1024;

Status check_range(int32_t value, int32_t low, int32_t high, const std::string& flag) {
    if (value < low || value > high) {
        return error(Code::kInvalidArgument, fmt::format("{} is outside {}..{}", value, low, high), flag);
    }
    return ok();
}

Status check_copy(const NgramOptions::Copy& copy, SpecType type) {
    const std::string flag = fmt::format("--spec-{}", name_of(type));
    FORESAY_CHECK_OK(check_range(copy.size_n, 1, kMostTokens, flag + "-size-n"));
    FORESAY_CHECK_OK(check_range(copy.size_m, 1, kMostTokens, flag + "-size-m"));
    return check_range(copy.min_hits, 1, INT32_MAX, flag + "-min-hits");
}

Result<std::unique_ptr<Drafter>> make_mod(const NgramOptions& options, int32_t n_ctx_slot) {
    FORESAY_CHECK_OK(check_range(options.mod_n_match, 1, kMostTokens, "--spec-ngram-mod-n-match"));
    FORESAY_CHECK_OK(check_range(options.mod_n_max, 0, kMostTokens, "--spec-ngram-mod-n-max"));
    if (options.mod_n_max > 0) {
        // A longer least than most would never draft, without a word.
        FORESAY_CHECK_OK(check_range(options.mod_n_min, 0, options.mod_n_max, "--spec-ngram-mod-n-min"));
    }
    return std::make_unique<NgramMod>(
        NgramMod::Options{options.mod_n_match, options.mod_n_min, options.mod_n_max, options.mod_shared, n_ctx_slot});
}

Result<std::unique_ptr<Drafter>> make_cache(const NgramOptions& options, int32_t n_vocab) {
    NgramCache::Options cache;
    if (!options.lookup_static.empty()) {
        auto counts = read_lookup(options.lookup_static, n_vocab);
        if (!counts.has_value()) {
            return std::move(counts).error().context("--lookup-cache-static");
        }
        cache.fixed = std::make_shared<const NgramCounts>(std::move(*counts));
    }
    if (!options.lookup_dynamic.empty()) {
        auto counts = read_lookup(options.lookup_dynamic, n_vocab);
        if (!counts.has_value()) {
            return std::move(counts).error().context("--lookup-cache-dynamic");
        }
        cache.dynamic = std::make_shared<const NgramCounts>(std::move(*counts));
    }
    return std::make_unique<NgramCache>(std::move(cache));
}

Result<std::unique_ptr<Drafter>> make_suffix(const NgramOptions& options) {
    FORESAY_CHECK_OK(check_range(options.suffix_max_depth, 2, kMostTokens, "--spec-ngram-suffix-max-depth"));
    FORESAY_CHECK_OK(
        check_range(options.suffix_min_match, 1, options.suffix_max_depth - 1, "--spec-ngram-suffix-min-match"));
    FORESAY_CHECK_OK(check_range(options.suffix_n_max, 0, kMostTokens, "--spec-ngram-suffix-n-max"));
    FORESAY_CHECK_OK(check_range(options.suffix_max_nodes, 1 << 16, 1 << 28, "--spec-ngram-suffix-max-nodes"));
    return std::make_unique<NgramSuffix>(NgramSuffix::Options{options.suffix_min_match, options.suffix_max_depth,
                                                              options.suffix_n_max, options.suffix_max_nodes});
}

}  // namespace

int32_t ngram_n_max(SpecType type, const NgramOptions& options) {
    switch (type) {
        case SpecType::kNgramSimple:
            return options.simple.size_m;
        case SpecType::kNgramMapK:
            return options.map_k.size_m;
        case SpecType::kNgramMapK4v:
            return options.map_k4v.size_m;
        case SpecType::kNgramMod:
            return options.mod_n_max;
        case SpecType::kNgramCache:
            return NgramCache::kNMax;
        case SpecType::kNgramSuffix:
            return options.suffix_n_max;
        default:
            FORESAY_ASSERT(false);
            return 0;
    }
}

Result<std::unique_ptr<Drafter>> make_ngram(SpecType type, const NgramOptions& options, int32_t n_ctx_slot,
                                            int32_t n_vocab) {
    switch (type) {
        case SpecType::kNgramSimple:
            FORESAY_CHECK_OK(check_copy(options.simple, type));
            return make_ngram_simple(options.simple.size_n, options.simple.size_m);
        case SpecType::kNgramMapK:
            FORESAY_CHECK_OK(check_copy(options.map_k, type));
            return std::make_unique<NgramMap>(NgramMap::Kind::kK, options.map_k, false);
        case SpecType::kNgramMapK4v:
            FORESAY_CHECK_OK(check_copy(options.map_k4v, type));
            return std::make_unique<NgramMap>(NgramMap::Kind::kK4v, options.map_k4v, false);
        case SpecType::kNgramMod:
            return make_mod(options, n_ctx_slot);
        case SpecType::kNgramCache:
            return make_cache(options, n_vocab);
        case SpecType::kNgramSuffix:
            return make_suffix(options);
        default:
            return error(Code::kInternal, fmt::format("{} is no n-gram type", name_of(type)), "--spec-type");
    }
}

}  // namespace foresay::spec
