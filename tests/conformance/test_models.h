// Shared by the conformance tests: loading a model on a backend, evaluating token lists, reading goldens.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/reference/reference_backend.h"
#include "base/test_paths.h"
#include "model/runner.h"

namespace foresay::test {

inline nlohmann::json read_json(const std::string& path) {
    std::ifstream in(path);
    return nlohmann::json::parse(in, nullptr, false);
}

inline bool file_exists(const std::string& path) {
    return std::ifstream(path).good();
}

/// A model with its backend and runner.
struct Loaded {
    std::unique_ptr<backend::Backend> backend;
    std::shared_ptr<const model::Model> model;
    std::unique_ptr<model::Runner> runner;
};

inline std::unique_ptr<backend::Backend> make_backend(const std::string& device, const std::string& isa = "auto",
                                                      int n_threads = 2) {
    if (device == "reference") {
        return reference::ReferenceBackend::create();
    }
    cpu::CpuOptions options;
    options.n_threads = n_threads;
    options.isa = isa;
    auto made = cpu::CpuBackend::create(options);
    EXPECT_TRUE(made.has_value()) << made.error().to_string();
    return std::move(*made);
}

inline Loaded load(const std::string& path, const std::string& device, int n_slots = 1, DType cache = DType::kF16,
                   int n_ctx = 512, const std::string& isa = "auto", int n_threads = 2, int n_rollback = 0) {
    Loaded loaded;
    loaded.backend = make_backend(device, isa, n_threads);
    auto model = model::Model::load(path, *loaded.backend);
    EXPECT_TRUE(model.has_value()) << model.error().to_string();
    if (!model.has_value()) {
        return loaded;
    }
    loaded.model = *model;
    model::RunnerOptions options;
    options.n_slots = n_slots;
    options.n_ctx_slot = n_ctx;
    options.type_k = cache;
    options.type_v = cache;
    options.n_rollback = n_rollback;
    auto runner = model::Runner::create(loaded.model, {loaded.backend.get()}, options);
    EXPECT_TRUE(runner.has_value()) << runner.error().to_string();
    if (runner.has_value()) {
        loaded.runner = std::move(*runner);
    }
    return loaded;
}

/// Logits of every position of `tokens`, evaluated `chunk` rows at a time on `slot` from position 0.
inline std::vector<std::vector<float>> evaluate(model::Runner& runner, const std::vector<int32_t>& tokens, size_t chunk,
                                                int32_t slot = 0, size_t first_wanted = 0) {
    std::vector<std::vector<float>> result;
    for (size_t at = 0; at < tokens.size(); at += chunk) {
        std::vector<model::Row> rows;
        bool any = false;
        for (size_t i = at; i < std::min(tokens.size(), at + chunk); ++i) {
            rows.push_back({tokens[i], static_cast<int32_t>(i), slot, i >= first_wanted});
            any = any || i >= first_wanted;
        }
        auto logits = runner.forward(rows);
        EXPECT_TRUE(logits.has_value()) << logits.error().to_string();
        if (!logits.has_value()) {
            return result;
        }
        if (any) {
            for (const auto& row : *logits) {
                result.emplace_back(row.begin(), row.end());
            }
        }
    }
    return result;
}

}  // namespace foresay::test
