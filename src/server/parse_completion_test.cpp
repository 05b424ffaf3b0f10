// The parser alone: defaults, aliases, clamps and the speculation fields.
#include "server/api/parse_completion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "server/fake_engine.h"

namespace foresay::server {
namespace {

ParseContext context() {
    ParseContext result;
    result.vocab = std::make_shared<ByteVocab>();
    result.n_slots = 2;
    return result;
}

CompletionRequest parse(const std::string& fields, const ParseContext& with = context()) {
    auto result = parse_completion(R"({"prompt":"a")" + (fields.empty() ? "" : "," + fields) + "}", with);
    EXPECT_TRUE(result.has_value()) << fields << ": " << (result ? "" : result.error().to_string());
    return result ? std::move(*result) : CompletionRequest{{engine::Request{}}, {}, {}};
}

TEST(ParseCompletion, DefaultsAreTheServers) {
    ParseContext with = context();
    with.n_predict = 12;
    with.n_keep = 3;
    with.stop = {"END"};
    with.sampling.top_k = 7;
    with.cache_prompt = false;
    with.sse_ping_interval_s = 9;
    const CompletionRequest got = parse("", with);
    ASSERT_EQ(got.tasks.size(), 1U);
    const engine::Request& r = got.tasks[0];
    EXPECT_EQ(r.prompt, (std::vector<vocab::TokenId>{256, 'a'}));
    EXPECT_EQ(r.n_predict, 12);
    EXPECT_EQ(r.n_keep, 3);
    EXPECT_EQ(r.stop, std::vector<std::string>{"END"});
    EXPECT_EQ(r.sampling.top_k, 7);
    EXPECT_FALSE(r.cache_prompt);
    EXPECT_FALSE(got.reply.stream);
    EXPECT_EQ(got.reply.sse_ping_interval_s, 9);
    EXPECT_FALSE(r.spec.n_max.has_value());
    EXPECT_EQ(parse(R"("n_predict":-1)", with).tasks[0].n_predict, 12);
    EXPECT_EQ(parse(R"("n_predict":null)", with).tasks[0].n_predict, 12);
    EXPECT_EQ(parse(R"("n_predict":0)", with).tasks[0].n_predict, 0);
    EXPECT_EQ(parse(R"("n_predict":100)", with).tasks[0].n_predict, 100);
    EXPECT_EQ(parse(R"("stop":"")", with).tasks[0].stop, std::vector<std::string>{"END"});
    EXPECT_EQ(parse(R"("stop":[""])", with).tasks[0].stop, std::vector<std::string>{"END"});
    EXPECT_EQ(parse(R"("stop":5)", with).tasks[0].stop, std::vector<std::string>{"END"});
    EXPECT_EQ(parse(R"("stop":["x","","y"])", with).tasks[0].stop, (std::vector<std::string>{"x", "y"}));
}

TEST(ParseCompletion, AliasesFirstOneWins) {
    EXPECT_EQ(parse(R"("max_tokens":5)").tasks[0].n_predict, 5);
    EXPECT_EQ(parse(R"("max_tokens":5,"max_completion_tokens":6)").tasks[0].n_predict, 6);
    EXPECT_EQ(parse(R"("max_tokens":5,"n_predict":7)").tasks[0].n_predict, 7);
    EXPECT_EQ(parse(R"("logprobs":3)").tasks[0].n_probs, 3);
}

TEST(ParseCompletion, NumbersAreCutAndClamped) {
    EXPECT_EQ(parse(R"("n_predict":4.9)").tasks[0].n_predict, 4);
    EXPECT_EQ(parse(R"("n_predict":true)").tasks[0].n_predict, 1);
    EXPECT_EQ(parse(R"("top_k":-3)").tasks[0].sampling.top_k, 0);
    EXPECT_EQ(parse(R"("temperature":-1)").tasks[0].sampling.temperature, 0.0F);
    EXPECT_EQ(parse(R"("top_p":2)").tasks[0].sampling.top_p, 1.0F);
    EXPECT_EQ(parse(R"("mirostat":9)").tasks[0].sampling.mirostat, 2);
    EXPECT_EQ(parse(R"("dry_base":0.5)").tasks[0].sampling.dry_base, 1.75F);
    EXPECT_EQ(parse(R"("seed":-1)").tasks[0].sampling.seed, 4294967295U);
    EXPECT_EQ(parse(R"("seed":4294967295)").tasks[0].sampling.seed, 4294967295U);
    EXPECT_EQ(parse(R"("n_probs":100000)").tasks[0].n_probs, ByteVocab::kTokens);
    EXPECT_EQ(parse(R"("sse_ping_interval":-1)").reply.sse_ping_interval_s, 0);
}

TEST(ParseCompletion, SpeculationInBothSpellings) {
    const auto dotted = parse(
        R"("speculative.n_max":4,"speculative.n_min":1,"speculative.p_min":0.5,"speculative.relaxed_top_n":3,"speculative.ngram_size_n":5)");
    EXPECT_EQ(dotted.tasks[0].spec.n_max, 4);
    EXPECT_EQ(dotted.tasks[0].spec.n_min, 1);
    EXPECT_EQ(dotted.tasks[0].spec.p_min, 0.5F);
    EXPECT_EQ(dotted.tasks[0].spec.relaxed_top_n, 3);
    const auto nested = parse(R"("speculative":{"n_max":4,"relaxed_top_n":2,"unknown":[]})");
    EXPECT_EQ(nested.tasks[0].spec.n_max, 4);
    EXPECT_EQ(nested.tasks[0].spec.relaxed_top_n, 2);
    EXPECT_EQ(parse(R"("speculative":{"n_max":4},"speculative.n_max":6)").tasks[0].spec.n_max, 6);
    EXPECT_EQ(parse(R"("speculative.n_max":1000)").tasks[0].spec.n_max, 1000);  // the engine caps it
    EXPECT_EQ(parse(R"("speculative.type":"none")").tasks[0].spec.n_max, 0);
    EXPECT_FALSE(parse(R"("speculative.type":"draft-simple,ngram-mod")").tasks[0].spec.n_max.has_value());
    EXPECT_FALSE(parse(R"("speculative.n_max":null)").tasks[0].spec.n_max.has_value());
    EXPECT_EQ(parse(R"("speculative.n_max":0,"speculative.n_min":8)").tasks[0].spec.n_max, 0);
    EXPECT_EQ(parse(R"("speculative.sampling":"probabilistic")").tasks[0].spec.probabilistic, true);
    EXPECT_EQ(parse(R"("speculative":{"sampling":"greedy"})").tasks[0].spec.probabilistic, false);
    EXPECT_FALSE(parse(R"("speculative.n_max":1)").tasks[0].spec.probabilistic.has_value());
}

TEST(ParseCompletion, LogitBiasShapes) {
    const auto pairs = parse(R"("logit_bias":[[5,1.5],["ab",-2],[6,false],[7,true],[8],[99999,1],"x",[9,"y"]])")
                           .tasks[0]
                           .sampling.logit_bias;
    ASSERT_EQ(pairs.size(), 4U);
    EXPECT_EQ(pairs[0], std::make_pair(5, 1.5F));
    EXPECT_EQ(pairs[1], std::make_pair(int{'a'}, -2.0F));
    EXPECT_EQ(pairs[2], std::make_pair(int{'b'}, -2.0F));
    EXPECT_EQ(pairs[3].first, 6);
    EXPECT_TRUE(std::isinf(pairs[3].second));
    const auto object = parse(R"("logit_bias":{"5":1,"c":2})").tasks[0].sampling.logit_bias;
    ASSERT_EQ(object.size(), 2U);
    EXPECT_EQ(object[0], std::make_pair(5, 1.0F));
    EXPECT_EQ(object[1], std::make_pair(int{'c'}, 2.0F));
}

TEST(ParseCompletion, SamplersByNameAndByLetter) {
    EXPECT_EQ(parse(R"("samplers":["top-k","temperature"])").tasks[0].sampling.samplers,
              (std::vector<std::string>{"top_k", "temperature"}));
    EXPECT_EQ(parse(R"("samplers":"kt")").tasks[0].sampling.samplers,
              (std::vector<std::string>{"top_k", "temperature"}));
    EXPECT_TRUE(parse(R"("samplers":[])").tasks[0].sampling.samplers.empty());
}

TEST(ParseCompletion, PromptShapes) {
    const auto prompts = [](const std::string& prompt) {
        auto result = parse_completion("{\"prompt\":" + prompt + "}", context());
        std::vector<std::vector<vocab::TokenId>> list;
        if (result) {
            for (const auto& task : result->tasks) {
                list.push_back(task.prompt);
            }
        }
        return list;
    };
    using List = std::vector<std::vector<vocab::TokenId>>;
    EXPECT_EQ(prompts(R"("</s>")"), (List{{256, 257}}));
    EXPECT_EQ(prompts("[1,2]"), (List{{1, 2}}));
    EXPECT_EQ(prompts(R"(["a",2])"), (List{{256, 'a', 2}}));
    EXPECT_EQ(prompts(R"([2,"a"])"), (List{{2, 'a'}}));
    EXPECT_EQ(prompts(R"(["a","b"])"), (List{{256, 'a'}, {256, 'b'}}));
    EXPECT_EQ(prompts(R"([[1],"b",{"prompt_string":"c"},["d",4]])"),
              (List{{1}, {256, 'b'}, {256, 'c'}, {256, 'd', 4}}));
    EXPECT_EQ(prompts(R"("")"), (List{{256}}));
}

TEST(ParseCompletion, TooManyPromptsAreRefused) {
    ParseContext with = context();
    with.max_prompts = 2;
    EXPECT_FALSE(parse_completion(R"({"prompt":["a","b","c"]})", with).has_value());
}

}  // namespace
}  // namespace foresay::server
