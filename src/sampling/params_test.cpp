// Names, ranges, the description of a chain, log probabilities, and the cost of a draw.
#include <algorithm>

#include "sampling/counted_new.h"
#include "sampling/test_rows.h"

namespace foresay::sampling {
namespace {

Error refused(const Params& params) {
    auto sampler = Sampler::create(params, std::make_shared<vocab::FakeVocab>(4));
    if (sampler.has_value()) {
        ADD_FAILURE() << "accepted";
        return {};
    }
    EXPECT_EQ(sampler.error().code, Code::kInvalidArgument);
    return sampler.error();
}

TEST(Params, RepeatPenaltyMustBePositive) {
    Params params;
    for (const float bad : {0.0F, -1.0F, kInf, std::nanf("")}) {
        params.repeat_penalty = bad;
        const Error error = refused(params);
        EXPECT_EQ(error.message, "Failed to initialize samplers: penalty_repeat must be finite and greater than 0");
        EXPECT_EQ(error.where, "repeat_penalty");
    }
}

TEST(Params, RangesAreNamed) {
    const auto check = [](auto Params::*field, auto bad, const std::string& name, const std::string& message) {
        Params params;
        params.*field = bad;
        const Error error = refused(params);
        EXPECT_EQ(error.where, name);
        EXPECT_EQ(error.message, message);
    };
    const auto between = [](const std::string& name, const std::string& got) {
        return "Field '" + name + "': Value must be between 0 <= value <= 2147483647, but got " + got;
    };
    check(&Params::min_keep, -1, "min_keep", between("min_keep", "-1"));
    check(&Params::repeat_last_n, -2, "repeat_last_n", between("repeat_last_n", "-2"));
    check(&Params::dry_allowed_length, -1, "dry_allowed_length", between("dry_allowed_length", "-1"));
    check(&Params::dry_penalty_last_n, -1, "dry_penalty_last_n", between("dry_penalty_last_n", "-1"));
    check(&Params::adaptive_decay, 1.0F, "adaptive_decay",
          "Field 'adaptive_decay': Value must be between 0 <= value <= 0.99, but got 1");
    check(&Params::presence_penalty, kInf, "presence_penalty",
          "Failed to initialize samplers: presence_penalty must be finite");
    check(&Params::temperature, std::nanf(""), "temperature",
          "Failed to initialize samplers: temperature must be finite");
    check(&Params::dry_sequence_breakers, std::vector<std::string>{}, "dry_sequence_breakers",
          "dry_sequence_breakers must be a non-empty array of strings");
    check(&Params::samplers, std::vector<std::string>{"top_k", "magic"}, "samplers", "unknown sampler 'magic'");
    check(&Params::logit_bias, std::vector<std::pair<TokenId, float>>{{2, std::nanf("")}}, "logit_bias",
          "logit_bias of token 2 is not a number");
}

TEST(Params, SomeFieldsAreClamped) {
    Params params;
    params.temperature = -1.0F;
    params.top_k = -5;
    params.top_p = 7.0F;
    params.min_p = -1.0F;
    params.xtc_probability = 2.0F;
    params.dry_base = 0.5F;
    params.mirostat = 9;
    params.adaptive_target = 3.0F;
    const auto sampler = make(params, 4);
    EXPECT_EQ(sampler->params().temperature, 0.0F);
    EXPECT_EQ(sampler->params().top_k, 0);
    EXPECT_EQ(sampler->params().top_p, 1.0F);
    EXPECT_EQ(sampler->params().min_p, 0.0F);
    EXPECT_EQ(sampler->params().xtc_probability, 1.0F);
    EXPECT_EQ(sampler->params().dry_base, 1.75F);
    EXPECT_EQ(sampler->params().mirostat, 2);
    EXPECT_EQ(sampler->params().adaptive_target, 1.0F);
}

TEST(Params, SamplerNamesHaveManySpellings) {
    for (const auto* name : {"top_k", "top-k", "TopK", "topk", "k", "K"}) {
        EXPECT_EQ(canonical_sampler_name(name), "top_k") << name;
    }
    const std::vector<std::pair<std::string, std::string>> letters{
        {"e", "penalties"}, {"d", "dry"}, {"s", "top_n_sigma"}, {"y", "typ_p"},  {"p", "top_p"},
        {"m", "min_p"},     {"x", "xtc"}, {"t", "temperature"}, {"i", "infill"}, {"a", "adaptive_p"}};
    for (const auto& [letter, name] : letters) {
        EXPECT_EQ(canonical_sampler_name(letter), name);
        EXPECT_EQ(canonical_sampler_name(name), name);
    }
    EXPECT_EQ(canonical_sampler_name("typical_p"), "typ_p");
    EXPECT_EQ(canonical_sampler_name("q"), "");
    EXPECT_EQ(canonical_sampler_name(""), "");
}

TEST(Describe, MarksNeutralSamplers) {
    EXPECT_EQ(make(Params(), 4)->describe(),
              "logits -> ?penalties -> ?dry -> ?top_n_sigma -> top_k -> ?typ_p -> top_p -> min_p -> ?xtc -> "
              "temperature -> dist");
    Params params = only({"adaptive_p", "k", "penalties"});
    params.repeat_penalty = 1.1F;
    params.adaptive_target = 0.5F;
    params.logit_bias = {{1, 1.0F}};
    EXPECT_EQ(make(params, 4)->describe(), "logits -> logit_bias -> ?top_k -> penalties -> adaptive_p -> dist");
    params.mirostat = 2;
    EXPECT_EQ(make(params, 4)->describe(), "logits -> logit_bias -> ?temperature -> mirostat -> dist");
}

TEST(TopLogprobs, AreThoseOfTheRawRow) {
    const std::vector<float> logits = row_of({0.1, 0.4, 0.05, 0.3, 0.15});
    float chosen = 0.0F;
    const auto top = top_logprobs(logits, 3, 2, &chosen);
    ASSERT_EQ(top.size(), 3U);
    EXPECT_EQ(top[0].id, 1);
    EXPECT_EQ(top[1].id, 3);
    EXPECT_EQ(top[2].id, 4);
    EXPECT_NEAR(top[0].logprob, std::log(0.4), 1e-6);
    EXPECT_NEAR(top[2].logprob, std::log(0.15), 1e-6);
    EXPECT_NEAR(chosen, std::log(0.05), 1e-6);
    EXPECT_TRUE(top_logprobs(logits, 0, 2, nullptr).empty());
}

TEST(TopLogprobs, ProbabilityZeroIsTheLowestFloat) {
    float chosen = 0.0F;
    const auto top = top_logprobs(std::vector<float>{-kInf, 1.0F, std::nanf(""), 1.0F}, 9, 0, &chosen);
    ASSERT_EQ(top.size(), 4U) << "exactly n, at most the vocabulary";
    EXPECT_EQ(top[0].id, 1) << "ties by id";
    EXPECT_EQ(top[1].id, 3);
    EXPECT_EQ(top[2].id, 0);
    EXPECT_EQ(top[3].id, 2);
    EXPECT_NEAR(top[0].logprob, std::log(0.5), 1e-6);
    EXPECT_EQ(top[2].logprob, std::numeric_limits<float>::lowest());
    EXPECT_EQ(chosen, std::numeric_limits<float>::lowest());
    top_logprobs(std::vector<float>{1.0F}, 1, 7, &chosen);
    EXPECT_EQ(chosen, std::numeric_limits<float>::lowest());
}

/// The straightforward chain on a sorted vocabulary: top-k, top-p, min-p by their definitions.
std::vector<TokenId> naive_default_chain(const std::vector<float>& logits, const Params& params) {
    std::vector<TokenId> order(logits.size());
    for (size_t i = 0; i < order.size(); ++i) {
        order[i] = static_cast<TokenId>(i);
    }
    const auto at = [&](TokenId id) { return static_cast<double>(logits[static_cast<size_t>(id)]); };
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return at(a) > at(b); });
    order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
    double total = 0.0;
    for (const TokenId id : order) {
        total += std::exp(at(id) - at(order[0]));
    }
    double sum = 0.0;
    for (size_t i = 0; i < order.size(); ++i) {
        sum += std::exp(at(order[i]) - at(order[0])) / total;
        if (sum >= static_cast<double>(params.top_p)) {
            order.resize(i + 1);
            break;
        }
    }
    const double bound = at(order[0]) + std::log(static_cast<double>(params.min_p));
    order.erase(std::find_if(order.begin(), order.end(), [&](TokenId id) { return at(id) < bound; }), order.end());
    return order;
}

TEST(Draw, DefaultChainEqualsTheNaiveOneOnLargeRows) {
    Params params;
    params.seed = 1;
    auto sampler = make(params, 20000);
    for (uint32_t i = 0; i < 8; ++i) {
        std::vector<float> logits = random_row(20000 - i * 7, i, i % 2 == 0 ? 1.0F : 4.0F);
        if (i == 3) {
            std::sort(logits.begin(), logits.end());  // the worst case of the threshold scan
        }
        EXPECT_EQ(ids(sampler->draw(logits, i)), naive_default_chain(logits, params)) << "row " << i;
        params.top_k = static_cast<int32_t>(1 + i * 400);
        params.top_p = 0.99F;
        sampler = make(params, 20000);
    }
}

TEST(Draw, ChainsWithoutTopKWorkOnLargeRows) {
    Params params = only({"top_p", "min_p", "temperature"});
    params.top_p = 0.9F;
    params.min_p = 0.01F;
    Params with_k = params;
    with_k.samplers = {"top_k", "top_p", "min_p", "temperature"};
    with_k.top_k = 30000;
    for (uint32_t i = 0; i < 3; ++i) {
        const std::vector<float> logits = random_row(30000, 70 + i, 1.5F);
        auto a = make(params, 30000);
        auto b = make(with_k, 30000);
        const Draw x = a->draw(logits, i);
        const Draw y = b->draw(logits, i);
        EXPECT_EQ(x.id, y.id);
        EXPECT_EQ(ids(x), ids(y));
        EXPECT_GT(x.candidates.size(), 300U);
    }
}

TEST(Draw, AllocatesNothingAfterWarmUp) {
    Params params;
    params.seed = 1;
    params.repeat_penalty = 1.1F;
    params.dry_multiplier = 0.5F;
    params.logit_bias = {{5, -kInf}, {9, 1.0F}};
    params.xtc_probability = 0.5F;
    auto sampler = make(params, 5000);
    std::vector<std::vector<float>> rows;
    for (uint32_t i = 0; i < 8; ++i) {
        rows.push_back(random_row(5000, i, 2.0F));
    }
    for (int position = 0; position < 400; ++position) {
        sampler->accept(sampler->draw(rows[static_cast<size_t>(position) % 8], position).id, true);
    }
    const long before = n_allocations();
    for (int position = 400; position < 500; ++position) {
        sampler->accept(sampler->draw(rows[static_cast<size_t>(position) % 8], position).id, true);
    }
    EXPECT_EQ(n_allocations(), before);
}

}  // namespace
}  // namespace foresay::sampling
