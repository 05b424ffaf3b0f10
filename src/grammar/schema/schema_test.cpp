// Schemas: which texts their grammars take. Own vectors here; suite_test.cpp runs the public test suite.
#include "grammar/schema.h"

#include <gmock/gmock.h>

#include "grammar/schema/json_tree.h"
#include "grammar/schema/numbers.h"
#include "grammar/schema/pattern.h"
#include "grammar/schema/text.h"
#include "grammar/test_match.h"

namespace foresay::grammar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::shared_ptr<Grammar> of_schema(std::string_view schema) {
    const auto compiled_schema = schema_to_gbnf(schema);
    if (!compiled_schema.has_value()) {
        ADD_FAILURE() << compiled_schema.error().to_string() << "\n" << schema;
        return nullptr;
    }
    return compiled(compiled_schema->gbnf);
}

struct Case {
    const char* schema;
    std::vector<const char*> taken;
    std::vector<const char*> refused;
};

class Schemas : public testing::TestWithParam<Case> {};

TEST_P(Schemas, TakeWhatIsValid) {
    const auto grammar = of_schema(GetParam().schema);
    ASSERT_NE(grammar, nullptr);
    for (const char* text : GetParam().taken) {
        EXPECT_TRUE(matches(grammar, text)) << text << " under " << GetParam().schema;
    }
    for (const char* text : GetParam().refused) {
        EXPECT_FALSE(matches(grammar, text)) << text << " under " << GetParam().schema;
    }
}

const Case kBasic[] = {
    {"true", {"1", "null", "[{}]", R"({"a": [1, "x"]})"}, {"", "nul", "01", "[1,]"}},
    {R"({"type":"string"})",
     {R"("")", R"("é\n\u00e9\ud83d\ude00")", R"("a/\/")"},
     {"\"\n\"", R"("\x")", R"("\ud83d")", R"("\ude00")", "a", "1"}},
    {R"({"type":"boolean"})", {"true", "false"}, {"null", "1", "True"}},
    {R"({"type":"null"})", {"null"}, {"0"}},
    {R"({"type":["string","null"]})", {"null", "\"a\""}, {"1"}},
    {R"({"type":"number"})", {"0", "-1.5", "1e5", "12.25E-3"}, {"01", "+1", ".5", "1.", "\"1\""}},
    {R"({"type":"integer"})", {"0", "-12", "1234567890123456"}, {"1.5", "00", "1e2"}},
    {R"({"enum":["a",1,null,{"b":[1,2]}]})", {"\"a\"", "1", "null", R"({"b":[1,2]})"}, {"\"b\"", "2", "[]"}},
    {R"({"const":"a\"b\\\n"})", {R"("a\"b\\\n")"}, {R"("a")"}},
    {R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"}},
    {R"({"const":3,"enum":[1,3]})", {"3"}, {"1"}},
};

const Case kStrings[] = {
    {R"({"type":"string","minLength":2,"maxLength":3})",
     {"\"ab\"", "\"éé\"", R"("\n\ud83d\ude00a")"},
     {"\"a\"", "\"abcd\""}},
    {R"({"maxLength":0})", {"\"\""}, {"\"a\""}},
    {R"({"minLength":2})", {"\"ab\"", "\"abcdefgh\""}, {"\"a\""}},
    {R"({"pattern":"^[a-c]+\\d{2}$"})", {"\"abc12\""}, {"\"12\"", "\"abc1\"", "\"xabc12\"", "\"abc123\""}},
    {R"({"pattern":"b"})", {"\"abc\"", "\"b\""}, {"\"ac\""}},
    {R"({"pattern":"^a|b$"})", {"\"axx\"", "\"xxb\""}, {"\"xa\"", "\"bx\""}},
    {R"({"pattern":"^(?:a|b(c|d)?)*$"})", {"\"\"", "\"abbcbd\""}, {"\"c\""}},
    {R"({"pattern":"^[^\"\\\\]\"\\\\\\s$"})", {R"("x\"\\\n")", R"("x\"\\ ")"}, {R"("\"\"\\ ")", R"("x\"\\x")"}},
    {R"({"pattern":"^.$"})", {"\"a\"", R"("\t")", "\"\u65e5\""}, {R"("\n")", "\"\""}},
    {R"({"pattern":"^\\u00e9\\x41\\.$"})", {"\"\u00e9A.\""}, {"\"\u00e9Ax\""}},
    {R"({"format":"date"})",
     {"\"2024-02-29\"", "\"2000-02-29\"", "\"2023-12-31\"", "\"2023-04-30\""},
     {"\"2023-02-29\"", "\"1900-02-29\"", "\"2023-13-01\"", "\"2023-04-31\"", "\"2023-00-10\"", "\"2023-1-1\""}},
    {R"({"format":"time"})",
     {"\"23:59:59Z\"", "\"00:00:00.123+02:00\""},
     {"\"24:00:00Z\"", "\"12:60:00Z\"", "\"12:00:00\""}},
    {R"({"format":"date-time"})", {"\"2024-02-29T12:00:00Z\""}, {"\"2024-02-29\"", "\"2024-02-30T12:00:00Z\""}},
    {R"({"format":"uuid"})",
     {"\"123e4567-e89b-12d3-a456-426614174000\""},
     {"\"123e4567e89b12d3a456426614174000\"", "\"g23e4567-e89b-12d3-a456-426614174000\""}},
};

const Case kNumbers[] = {
    {R"({"type":"integer","minimum":0})", {"0", "5", "123456789"}, {"-1", "-0"}},
    {R"({"type":"integer","minimum":-12,"maximum":215})",
     {"-12", "-9", "0", "7", "99", "100", "199", "215"},
     {"-13", "216", "300", "-0", "-100"}},
    {R"({"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":11})", {"10"}, {"9", "11", "1"}},
    {R"({"type":"integer","maximum":-100})", {"-100", "-999", "-12345"}, {"-99", "0", "100"}},
    {R"({"type":"integer","minimum":1.5,"maximum":3.5})", {"2", "3"}, {"1", "4"}},
    {R"({"type":"integer","minimum":5,"exclusiveMinimum":true})", {"6"}, {"5"}},
    {R"({"type":"number","minimum":0,"maximum":1})", {"0", "0.5", "1", "1.0", "0.999"}, {"1.01", "-0.1", "2", "1e5"}},
    {R"({"type":"number","exclusiveMinimum":0})", {"0.001", "3", "3.25"}, {"0", "0.0", "-1"}},
    {R"({"type":"number","exclusiveMaximum":-2})", {"-2.5", "-3", "-17.25"}, {"-2", "-2.0", "-1.9", "0"}},
    {R"({"type":"number","minimum":-3,"exclusiveMaximum":2})",
     {"-3", "-2.5", "-0.5", "0", "1.99"},
     {"-3.1", "2", "2.0", "5"}},
};

const Case kObjects[] = {
    {R"({"type":"object"})", {"{}", R"({"a":1,"b":{"c":[]}})", "{\n  \"a\": 1\n}"}, {"[]", R"({"a"})", R"({"a":1,})"}},
    {R"({"properties":{"b":{"type":"integer"},"a":{"type":"null"}},"required":["b"]})",
     {R"({"b":1})", R"({"b":1,"a":null})", "{ \"b\": 1, \"a\": null }"},
     {"{}", R"({"a":null})", R"({"a":null,"b":1})", R"({"b":1,"c":2})", R"({"b":1 ,"a":null})"}},
    {R"({"properties":{"a":{},"b":{},"c":{}}})",
     {"{}", R"({"a":1})", R"({"b":1})", R"({"c":1})", R"({"a":1,"c":2})", R"({"b":1,"c":2})", R"({"a":1,"b":2,"c":3})"},
     {R"({"c":1,"a":2})", R"({,"a":1})"}},
    {R"({"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
     {"{}", R"({"a":1})", R"({"a":1,"b":"x"})", R"({"b":"x","aa":"y","":"z"})"},
     {R"({"a":"x"})", R"({"a":1,"b":1})", R"({"b":"x","a":"y"})", R"({"\u0061":"x"})"}},
    {R"({"additionalProperties":{"type":"integer"},"minProperties":1,"maxProperties":2})",
     {R"({"a":1})", R"({"a":1,"b":2})"},
     {"{}", R"({"a":1,"b":2,"c":3})", R"({"a":"x"})"}},
    {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
    {R"({"required":["x"]})", {R"({"x":1})", R"({"x":[],"y":2})"}, {"{}", R"({"y":1})"}},
    {R"({"properties":{"a":false,"b":true}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
    {R"({"properties":{"a\"b\n":{"type":"null"}},"required":["a\"b\n"]})", {R"({"a\"b\n":null})"}, {"{}"}},
};

const Case kArrays[] = {
    {R"({"type":"array"})", {"[]", "[1,\"a\",[]]", "[\n  1\n]"}, {"{}", "[1 2]"}},
    {R"({"items":{"type":"integer"},"minItems":1,"maxItems":3})",
     {"[1]", "[1,2,3]", "[ 1, 2 ]"},
     {"[]", "[1,2,3,4]", "[\"a\"]"}},
    {R"({"items":{"type":"integer"},"maxItems":2})", {"[]", "[1]", "[1,2]"}, {"[1,2,3]"}},
    {R"({"items":{"type":"integer"},"minItems":2})", {"[1,2]", "[1,2,3,4,5]"}, {"[1]", "[]"}},
    {R"({"maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
    {R"({"prefixItems":[{"type":"integer"},{"type":"null"}]})", {"[1,null]"}, {"[1]", "[null,1]", "[1,null,2]"}},
    {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"string"},"maxItems":3})",
     {"[1]", "[1,\"a\"]", "[1,\"a\",\"b\"]"},
     {"[]", "[1,2]", "[1,\"a\",\"b\",\"c\"]"}},
    {R"({"items":[{"type":"integer"},{"type":"null"}],"additionalItems":false})", {"[1,null]"}, {"[1,null,1]"}},
    {R"({"items":false})", {"[]"}, {"[1]"}},
};

const Case kCombined[] = {
    {R"({"anyOf":[{"type":"integer"},{"type":"string","maxLength":1}]})", {"1", "\"a\""}, {"\"ab\"", "null"}},
    {R"({"oneOf":[{"const":1},{"const":2}]})", {"1", "2"}, {"3"}},
    {R"({"properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]})",
     {R"({"a":1})", R"({"b":1})", R"({"a":1,"b":1})"},
     {"{}"}},
    {R"({"allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"null"}},"required":["b"]}]})",
     {R"({"a":1,"b":null})"},
     {R"({"a":1})", R"({"b":null})"}},
    {R"({"allOf":[{"minimum":3},{"maximum":5}],"type":"integer"})", {"3", "5"}, {"2", "6"}},
    {R"({"allOf":[{"type":["integer","null"]},{"type":["number","string"]}]})", {"1"}, {"1.5", "null", "\"a\""}},
    {R"({"allOf":[{"anyOf":[{"const":1},{"const":2}]},{"anyOf":[{"const":2},{"const":3}]}]})", {"2"}, {"1", "3"}},
    {R"({"allOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}}}]})",
     {"{}", R"({"a":1})"},
     {R"({"b":1})"}},
    {R"({"$defs":{"n":{"type":"integer"}},"items":{"$ref":"#/$defs/n"}})", {"[1,2]"}, {"[null]"}},
    {R"({"$defs":{"a/b~c d":{"type":"null"}},"$ref":"#/$defs/a~1b~0c%20d"})", {"null"}, {"1"}},
    {R"({"$defs":{"t":{"properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/t"}},"required":["v"]}},"$ref":"#/$defs/t"})",
     {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"},
     {R"({"v":1,"next":{}})", R"({"next":{"v":1}})"}},
    {R"({"type":["object","null"],"properties":{"child":{"$ref":"#"}}})",
     {"null", R"({"child":{"child":null}})"},
     {R"({"child":1})"}},
    {R"({"$ref":"#/$defs/a","minimum":3,"$defs":{"a":{"type":"integer","maximum":4}}})", {"3", "4"}, {"2", "5"}},
    {R"({"type":"integer","description":"a","title":"b","default":1,"x-odd":{}})", {"1"}, {"\"a\""}},
};

INSTANTIATE_TEST_SUITE_P(Basic, Schemas, testing::ValuesIn(kBasic));
INSTANTIATE_TEST_SUITE_P(Strings, Schemas, testing::ValuesIn(kStrings));
INSTANTIATE_TEST_SUITE_P(Numbers, Schemas, testing::ValuesIn(kNumbers));
INSTANTIATE_TEST_SUITE_P(Objects, Schemas, testing::ValuesIn(kObjects));
INSTANTIATE_TEST_SUITE_P(Arrays, Schemas, testing::ValuesIn(kArrays));
INSTANTIATE_TEST_SUITE_P(Combined, Schemas, testing::ValuesIn(kCombined));

struct Bad {
    const char* schema;
    const char* message;
};

TEST(Schema, ErrorsSayWhereAndWhat) {
    const Bad cases[] = {
        {"", "parse error at line 1, column 1"},
        {"{\"type\":", "parse error"},
        {"5", "at #: a schema must be an object or a boolean, not integer"},
        {R"({"type":5})", "at #: type must be a string or a list of strings"},
        {R"({"type":[]})", "at #: type must be a string or a list of strings"},
        {R"({"type":"text"})", "at #: unknown type 'text'"},
        {R"({"properties":5})", "at #: properties must be an object, not integer"},
        {R"({"properties":{"a":{"items":7}}})", "at #/properties/a/items: a schema must be"},
        {R"({"required":"a"})", "at #: required must be an array of names"},
        {R"({"enum":1})", "at #: enum must be an array, not integer"},
        {R"({"enum":[]})", "the schema allows no value"},
        {"false", "the schema allows no value"},
        {R"({"anyOf":[]})", "anyOf must be an array with at least one schema"},
        {R"({"anyOf":[false,{"type":"string","minLength":2,"maxLength":1}]})", "the schema allows no value"},
        {R"({"allOf":5})", "allOf must be an array, not integer"},
        {R"({"type":"integer","minimum":3,"maximum":2})", "the schema allows no value"},
        {R"({"minimum":"a"})", "minimum must be a number, not string"},
        {R"({"minLength":-1})", "minLength must be a whole number from 0 on, not -1"},
        {R"({"maxLength":1e9})", "maxLength above 65536 is not supported"},
        {R"({"minItems":1.5})", "minItems must be a whole number"},
        {R"({"$ref":5})", "$ref must be a string"},
        {R"({"$ref":"#/a"})", "$ref '#/a' leads nowhere"},
        {R"({"$ref":"other.json"})", "only '#' and '#/...' within the schema are"},
        {R"({"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}}})", "contain themselves"},
        {R"({"pattern":5})", "pattern must be a string"},
        {R"x({"pattern":"(?=a)"})x", "at #: pattern, at character 3: look-around"},
        {R"({"pattern":"a\\b"})", "the escape '\\b' is not supported"},
        {R"({"pattern":"\\1"})", "the escape '\\1' is not supported"},
        {R"x({"pattern":"(a"})x", "'(' without ')'"},
        {R"x({"pattern":"a)"})x", "')' without '('"},
        {R"({"pattern":"*"})", "a quantifier without anything before it"},
        {R"({"pattern":"a$b"})", "'$' is supported only at the ends"},
        {R"({"pattern":"[z-a]"})", "a range in a class"},
        {R"({"required":["a"],"additionalProperties":false})", "the schema allows no value"},
    };
    for (const Bad& bad : cases) {
        const auto result = schema_to_gbnf(bad.schema);
        ASSERT_FALSE(result.has_value()) << bad.schema;
        EXPECT_THAT(result.error().message, HasSubstr(bad.message)) << bad.schema;
    }
}

TEST(Schema, ReportsWhatItIgnores) {
    const auto result = schema_to_gbnf(
        R"({"properties":{"a":{"type":"array","uniqueItems":true},"b":{"format":"email"}},"not":{},"title":"x"})");
    ASSERT_TRUE(result.has_value());
    EXPECT_THAT(result->ignored,
                ElementsAre("not at #", "uniqueItems at #/properties/a", "format 'email' at #/properties/b"));
    EXPECT_THAT(schema_to_gbnf(R"({"type":"string"})")->ignored, IsEmpty());
}

TEST(Schema, ReferenceToItselfAloneIsLeftRecursion) {
    // The schema compiler can't tell; the grammar's own check does.
    const auto result = schema_to_gbnf(R"({"$ref":"#"})");
    ASSERT_TRUE(result.has_value());
    EXPECT_THAT(compile_error(result->gbnf), HasSubstr("left-recursive"));
}

TEST(Schema, LargeAndHostileOnesAreRefusedOrBounded) {
    std::string many = R"({"properties":{)";
    for (int i = 0; i < 500; ++i) {
        many += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + "\":{\"type\":\"integer\"}";
    }
    many += "}}";
    const auto wide = schema_to_gbnf(many);
    ASSERT_TRUE(wide.has_value());
    EXPECT_LT(wide->gbnf.size(), 300'000U) << "linear in the number of properties";
    EXPECT_TRUE(matches(wide->gbnf, R"({"p3":1,"p499":2})"));
    // Products of alternatives.
    std::string product = R"({"allOf":[)";
    for (int i = 0; i < 12; ++i) {
        product +=
            std::string(i == 0 ? "" : ",") + R"({"anyOf":[{"minimum":1},{"minimum":2},{"minimum":3},{"maximum":9}]})";
    }
    EXPECT_FALSE(schema_to_gbnf(product + "]}").has_value());
    // Copies of a large base for each of many alternatives; a name that is a deep trie.
    std::string copies = R"({"properties":{)";
    for (int i = 0; i < 3000; ++i) {
        copies += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + "\":{}";
    }
    copies += R"(},"anyOf":[{})";
    for (int i = 0; i < 5000; ++i) {
        copies += ",{}";
    }
    EXPECT_FALSE(schema_to_gbnf(copies + "]}").has_value());
    const std::string name(300'000, 'n');
    EXPECT_FALSE(schema_to_gbnf(R"({"properties":{")" + name + R"(":{}},"additionalProperties":true})").has_value());
    std::string deep;
    for (int i = 0; i < 40; ++i) {
        deep += R"({"items":)";
    }
    EXPECT_TRUE(schema_to_gbnf(deep + "true" + std::string(40, '}')).has_value());
    EXPECT_FALSE(schema_to_gbnf(std::string(100'000, '[')).has_value());
}

TEST(SchemaSet, JoinsSeveralSchemas) {
    SchemaSet set;
    const auto first = set.add(R"({"$defs":{"x":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/x"}}})");
    const auto second = set.add(R"({"$defs":{"x":{"type":"null"}},"properties":{"a":{"$ref":"#/$defs/x"}}})");
    ASSERT_TRUE(first.has_value() && second.has_value());
    const auto joined = set.finish(gbnf_literal("1:") + " " + *first + " | " + gbnf_literal("2:") + " " + *second);
    ASSERT_TRUE(joined.has_value());
    EXPECT_TRUE(matches(joined->gbnf, R"(1:{"a":7})"));
    EXPECT_TRUE(matches(joined->gbnf, R"(2:{"a":null})"));
    EXPECT_FALSE(matches(joined->gbnf, R"(2:{"a":7})"));
}

TEST(Numbers, IntegersWithinAllSmallBounds) {
    for (int64_t min = -25; min <= 25; min += 5) {
        for (int64_t max = min; max <= 125; max += max < 30 ? 3 : 31) {
            const auto grammar = compiled("root ::= " + integers_gbnf({min, max, false, false}));
            ASSERT_NE(grammar, nullptr);
            for (int64_t value = -130; value <= 130; ++value) {
                ASSERT_EQ(matches(grammar, std::to_string(value)), value >= min && value <= max)
                    << value << " in " << min << ".." << max;
            }
        }
    }
}

TEST(JsonTree, KeepsOrderAndTheLastOfEqualKeys) {
    const auto tree = parse_json(R"({"b":1,"a":{"z":[1.50,"é",true,null]},"b":-2})");
    ASSERT_TRUE(tree.has_value());
    EXPECT_EQ(to_text(*tree), R"({"a":{"z":[1.50,"é",true,null]},"b":-2})");
}

}  // namespace
}  // namespace foresay::grammar
