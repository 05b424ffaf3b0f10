// The public JSON-Schema-Test-Suite (Debian package json-schema-test-suite): what a schema forbids, its grammar must
// refuse. The other way isn't asked for everywhere, for grammars are narrower (order of properties, no additional
// ones).
#include <fstream>
#include <iterator>

#include "grammar/schema.h"
#include "grammar/schema/json_tree.h"
#include "grammar/test_match.h"

namespace foresay::grammar {
namespace {

const std::string kFolder = "/usr/share/json-schema-test-suite/tests/draft7/";

struct Counts {
    int n_groups = 0;
    int n_skipped = 0;  ///< groups with keywords that are reported as ignored, or refused as unsupported
    int n_invalid = 0;
    int n_valid = 0;
    int n_valid_taken = 0;
};

class Suite : public testing::TestWithParam<const char*> {};

TEST_P(Suite, WhatASchemaForbidsItsGrammarRefuses) {
    std::ifstream in(kFolder + GetParam() + ".json");
    if (!in.good()) {
        GTEST_SKIP() << "needs the Debian package json-schema-test-suite";
    }
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto groups = parse_json(text);
    ASSERT_TRUE(groups.has_value()) << groups.error().to_string();
    Counts counts;
    for (const Json& group : groups->items) {
        ++counts.n_groups;
        const Json* schema = group.find("schema");
        const auto gbnf = schema_to_gbnf(to_text(*schema));
        if (!gbnf.has_value() && gbnf.error().message.find("allows no value") != std::string::npos) {
            for (const Json& test : group.find("tests")->items) {
                counts.n_valid += test.find("valid")->boolean ? 1 : 0;
            }
            continue;
        }
        if (!gbnf.has_value() || !gbnf->ignored.empty()) {
            ++counts.n_skipped;
            continue;
        }
        const auto grammar = Grammar::compile(gbnf->gbnf, std::make_shared<TokenTrie>(byte_vocab()));
        if (!grammar.has_value()) {
            ++counts.n_skipped;  // refers to itself without end
            continue;
        }
        for (const Json& test : group.find("tests")->items) {
            const std::string data = to_text(*test.find("data"));
            const bool is_taken = matches(*grammar, data);
            if (test.find("valid")->boolean) {
                ++counts.n_valid;
                counts.n_valid_taken += is_taken ? 1 : 0;
            } else {
                ++counts.n_invalid;
                // oneOf is taken as anyOf: where several fit, the value isn't valid.
                const bool is_known = std::string(GetParam()) == "oneOf";
                EXPECT_FALSE(is_taken && !is_known)
                    << group.find("description")->text << ": " << test.find("description")->text << "\n"
                    << data << "\n"
                    << to_text(*schema);
            }
        }
    }
    std::printf("%s: %d groups (%d skipped), %d invalid refused, %d of %d valid taken\n", GetParam(), counts.n_groups,
                counts.n_skipped, counts.n_invalid, counts.n_valid_taken, counts.n_valid);
    EXPECT_GT(counts.n_invalid + counts.n_valid, 0);
}

INSTANTIATE_TEST_SUITE_P(Draft7, Suite,
                         testing::Values("additionalItems", "additionalProperties", "allOf", "anyOf", "boolean_schema",
                                         "const", "default", "enum", "exclusiveMaximum", "items", "maxItems",
                                         "maxLength", "maxProperties", "maximum", "minItems", "minLength",
                                         "minProperties", "oneOf", "pattern", "properties", "ref", "required", "type",
                                         "optional/format/date", "optional/format/date-time", "optional/format/time"));

}  // namespace
}  // namespace foresay::grammar
