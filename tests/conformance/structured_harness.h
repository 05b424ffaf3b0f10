// Shared by the tests of structured output: plain, strict and relaxed decoding of one pair under one grammar.
#pragma once

#include <nlohmann/json.hpp>

#include "grammar/grammar.h"
#include "grammar/schema.h"
#include "tests/conformance/engine_harness.h"

namespace foresay::test {

inline const char* const kSchema = R"({"type":"object","properties":{
    "name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":1,"maximum":120},
    "tags":{"type":"array","items":{"enum":["red","green","blue"]},"maxItems":3},"ok":{"type":"boolean"}},
    "required":["name","age","tags","ok"]})";

inline std::string gbnf_of(const char* schema) {
    auto compiled = grammar::schema_to_gbnf(schema);
    EXPECT_TRUE(compiled.has_value());
    return compiled.has_value() ? compiled->gbnf : std::string();
}

/// Whether the tokens follow the grammar; a text that ended must have ended where it may.
inline void expect_legal(const engine::Engine& engine, const std::string& gbnf, const std::vector<int32_t>& ids) {
    grammar::Library library(engine.vocab());
    auto grammar = library.get(gbnf);
    ASSERT_TRUE(grammar.has_value());
    grammar::Matcher matcher(*grammar);
    for (const int32_t id : ids) {
        ASSERT_TRUE(matcher.allows(id)) << id;
        matcher.accept(id);
    }
}

struct Pair {
    std::string target;
    std::string drafter;
};

/// Plain, strict and relaxed on one engine.
inline void check_pair(const Pair& pair, const std::string& gbnf, const std::vector<int32_t>& n_maxes,
                       int32_t n_predict, int n_threads = 1) {
    engine::EngineOptions options;
    options.model = pair.target;
    options.n_ctx = 512;
    options.n_threads = n_threads;
    options.spec.types = {engine::SpecType::kDraftSimple};
    options.spec.draft_model = pair.drafter;
    options.spec.n_max = 16;
    const auto engine = make_engine(options);
    ASSERT_NE(engine, nullptr);
    int32_t n_accepted = 0;
    for (const float temperature : {0.0F, 0.8F}) {
        auto request = request_for(*engine, "Describe a person as JSON: ", n_predict, temperature);
        request.sampling.grammar = gbnf;
        request.spec.n_max = 0;
        const auto plain = generate(*engine, request);
        expect_legal(*engine, gbnf, plain->text().ids);
        if (plain->result().stop_type == engine::StopType::kEos) {
            EXPECT_TRUE(nlohmann::json::accept(plain->text().text)) << plain->text().text;
        }
        for (const int32_t n_max : n_maxes) {
            request.spec.n_max = n_max;
            request.spec.relaxed_top_n = 0;
            const auto strict = generate(*engine, request);
            ASSERT_EQ(strict->text(), plain->text()) << "n_max " << n_max << ", temperature " << temperature;
            EXPECT_EQ(strict->result().stop_type, plain->result().stop_type);
            n_accepted += strict->result().timings.draft_n_accepted;
            request.spec.relaxed_top_n = 5;
            const auto relaxed = generate(*engine, request);
            expect_legal(*engine, gbnf, relaxed->text().ids);
        }
    }
    EXPECT_GT(n_accepted, 0);
}

}  // namespace foresay::test
