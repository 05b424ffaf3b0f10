// Where tests find the shared folder and the small real models. Test use only.
// An empty environment variable counts as unset: CTest passes FORESAY_SHARED through even where it isn't set.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace foresay {

/// The value of an environment variable, or `fallback` when it is unset or empty.
inline std::string env_or(const char* name, std::string fallback) {
    const char* value = std::getenv(name);
    return value == nullptr || *value == '\0' ? std::move(fallback) : std::string(value);
}

/// A path below the shared folder: $FORESAY_SHARED, by default ../shared (tests run in the repository's root).
inline std::string shared_path(std::string_view rel) {
    return env_or("FORESAY_SHARED", "../shared").append("/").append(rel);
}

/// The path of a real model's file, for example "smollm2-135m-q4_1.gguf": in $FORESAY_MODELS, by default
/// ~/.cache/foresay/models.
inline std::string model_path(std::string_view name) {
    return env_or("FORESAY_MODELS", env_or("HOME", ".") + "/.cache/foresay/models").append("/").append(name);
}

}  // namespace foresay
