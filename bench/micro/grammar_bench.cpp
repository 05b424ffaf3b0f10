// What structured output costs: compiling, the token trie, one look at a drawn token, a mask for a new state and for
// one seen before. On the vocabulary of a real model: the file in FORESAY_BENCH_MODEL, by default Qwen2.5-Coder-0.5B.
#include <benchmark/benchmark.h>

#include "base/test_paths.h"
#include "gguf/gguf.h"
#include "grammar/grammar.h"
#include "grammar/schema.h"

namespace foresay {
namespace {

const char* const kSchema =
    R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0},
    "tags":{"type":"array","items":{"type":"string"}},"more":{}},"required":["name","age","tags","more"]})";

std::shared_ptr<const vocab::Vocab> vocabulary() {
    static const auto instance = [] {
        const std::string path = env_or("FORESAY_BENCH_MODEL", model_path("qwen2.5-coder-0.5b-q4_k_m.gguf"));
        const auto file = gguf::File::open(path);
        return file.has_value() ? vocab::Vocab::load(**file).value() : nullptr;
    }();
    return instance;
}

std::shared_ptr<const grammar::TokenTrie> trie() {
    static const auto instance = std::make_shared<const grammar::TokenTrie>(vocabulary());
    return instance;
}

std::shared_ptr<grammar::Grammar> compiled() {
    return *grammar::Grammar::compile(grammar::schema_to_gbnf(kSchema)->gbnf, trie());
}

bool has_model(benchmark::State& state) {
    if (vocabulary() == nullptr) {
        state.SkipWithError("no model file: tools/fetch_models.py");
        return false;
    }
    return true;
}

/// After so much of an answer.
grammar::Matcher at(const std::shared_ptr<grammar::Grammar>& grammar, const char* text) {
    grammar::Matcher matcher(grammar);
    for (const vocab::TokenId id : vocabulary()->encode(text, false, false)) {
        matcher.accept(id);
    }
    return matcher;
}

void BM_Compile(benchmark::State& state) {
    if (has_model(state)) {
        for (auto _ : state) {
            benchmark::DoNotOptimize(compiled());
        }
    }
}

void BM_Trie(benchmark::State& state) {
    if (has_model(state)) {
        for (auto _ : state) {
            benchmark::DoNotOptimize(std::make_shared<const grammar::TokenTrie>(vocabulary()));
        }
        state.counters["tokens"] = vocabulary()->n_tokens();
        state.counters["nodes"] = static_cast<double>(trie()->nodes().size());
    }
}

/// allows() and accept() for each token of an answer: what every token pays.
void BM_Token(benchmark::State& state) {
    if (!has_model(state)) {
        return;
    }
    const auto grammar = compiled();
    const auto ids = vocabulary()->encode(
        R"({"name": "Ada Lovelace", "age": 36, "tags": ["mathematics", "poetry"], "more": {"a": [1, 2.5]}})", false,
        false);
    size_t n_allowed = 0;
    for (auto _ : state) {
        grammar::Matcher matcher(grammar);
        for (const vocab::TokenId id : ids) {
            n_allowed += matcher.allows(id) ? 1 : 0;
            matcher.accept(id);
        }
    }
    state.counters["tokens"] =
        benchmark::Counter(static_cast<double>(ids.size()) * static_cast<double>(state.iterations()),
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
    state.counters["allowed"] = static_cast<double>(n_allowed) / static_cast<double>(state.iterations());
}

/// argument: 0 where nearly all is legal (inside a string), 1 where little is (before a key).
const char* place(int64_t i) {
    return i == 0 ? R"({"name": "A)" : "{";
}

void BM_MaskOfANewState(benchmark::State& state) {
    if (!has_model(state)) {
        return;
    }
    for (auto _ : state) {
        state.PauseTiming();
        grammar::Matcher matcher = at(compiled(), place(state.range(0)));
        state.ResumeTiming();
        benchmark::DoNotOptimize(matcher.mask());
    }
}

void BM_MaskOfAKnownState(benchmark::State& state) {
    if (!has_model(state)) {
        return;
    }
    const auto grammar = compiled();
    grammar::Matcher matcher = at(grammar, place(state.range(0)));
    state.counters["legal"] = static_cast<double>(matcher.mask()->count());
    for (auto _ : state) {
        benchmark::DoNotOptimize(matcher.mask());
    }
}

BENCHMARK(BM_Compile)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Trie)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Token)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_MaskOfANewState)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MaskOfAKnownState)->Arg(0)->Arg(1);

}  // namespace
}  // namespace foresay
