// Statements, filters, tests, methods and operators, each against what Python's jinja2 made of the same text
// (tests/data/jinja_cases.json, written by tests/data/make_jinja_cases.py); and what must fail, with its place.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "chat/jinja/template.h"

namespace foresay::jinja {
namespace {

using Json = nlohmann::ordered_json;

Json cases() {
    std::ifstream file("tests/data/jinja_cases.json");
    return Json::parse(file, nullptr, false);
}

std::string render(const std::string& source, const Json& variables = Json::object(),
                   const RenderOptions& options = {}) {
    const Result<Template> parsed = Template::parse(source);
    if (!parsed.has_value()) {
        return "error: " + parsed.error().to_string();
    }
    const Result<std::string> text = parsed->render(variables, options);
    return text.has_value() ? *text : "error: " + text.error().to_string();
}

TEST(Jinja, RendersAsPythonDoes) {
    const Json all = cases();
    ASSERT_TRUE(all.is_object()) << "run in the repository's root";
    for (const Json& one : all["renders"]) {
        EXPECT_EQ(render(one["template"].get<std::string>(), all["variables"]), one["text"].get<std::string>())
            << one["template"].get<std::string>();
    }
    EXPECT_GT(all["renders"].size(), 50U);
}

TEST(Jinja, FailsWherePythonDoesAndSaysWhere) {
    const Json all = cases();
    ASSERT_TRUE(all.is_object());
    for (const Json& one : all["errors"]) {
        const std::string text = render(one["template"].get<std::string>(), all["variables"]);
        EXPECT_EQ(text.substr(0, 28), "error: chat template, line 1") << one.dump() << "\n" << text;
    }
    EXPECT_GT(all["errors"].size(), 50U);
}

TEST(Jinja, ErrorsNameLineAndColumn) {
    EXPECT_EQ(render("a\nb {{ missing.x }}"), "error: chat template, line 2, column 13: 'missing' is undefined");
    EXPECT_EQ(render("{% for x in [1] %}\n\n  {{ raise_exception('no ' ~ x) }}{% endfor %}"),
              "error: chat template, line 3, column 21: no 1");
    EXPECT_EQ(render("{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}\n\n{{ m() }}"),
              "error: chat template, line 2, column 6: division by zero");
    EXPECT_EQ(render("x\n{% if a %}"), "error: chat template, line 2, column 11: '{% if %}' isn't closed");
    EXPECT_EQ(render("{% endif %}"), "error: chat template, line 1, column 1: unknown tag 'endif'");
    EXPECT_EQ(render("{{ x|nosuch }}"), "error: chat template, line 1, column 6: there is no filter 'nosuch'");
    EXPECT_EQ(render("{{ x is nosuch }}"), "error: chat template, line 1, column 9: there is no test 'nosuch'");
    EXPECT_EQ(render("{% include 'f' %}").substr(0, 79),
              "error: chat template, line 1, column 1: the tag 'include' isn't supported (give");
    EXPECT_EQ(render("{{ [].append(1) }}"),
              "error: chat template, line 1, column 13: access to attribute 'append' of 'list' object is unsafe");
}

TEST(Jinja, UnknownFiltersInABranchFailOnlyWhenTheyRun) {
    EXPECT_EQ(render("{% if x %}{{ x|nosuch }}{% endif %}ok"), "ok");
    EXPECT_EQ(render("{{ (1|nosuch) if false else 'ok' }}"), "ok");
    EXPECT_EQ(render("{% if true %}{{ 1|nosuch }}{% endif %}"),
              "error: chat template, line 1, column 19: there is no filter 'nosuch'");
}

TEST(Jinja, LastNewlineAndCarriageReturns) {
    EXPECT_EQ(render("a\n"), "a");
    EXPECT_EQ(render("a\n\n"), "a\n");
    EXPECT_EQ(render("a\r\nb\rc\r\n"), "a\nb\nc");
    EXPECT_EQ(render(""), "");
}

TEST(Jinja, TheClockIsGiven) {
    RenderOptions options;
    options.now = std::tm{};
    options.now->tm_year = 126;
    options.now->tm_mday = 15;
    EXPECT_EQ(render("{{ strftime_now('%Y-%m-%d %b') }}", Json::object(), options), "2026-01-15 Jan");
    EXPECT_EQ(render("{{ strftime_now('') }}", Json::object(), options), "");
}

TEST(Jinja, FromJsonAndGeneration) {
    EXPECT_EQ(render("{{ ('{\"a\": [1, 2]}'|from_json).a[1] }}"), "2");
    EXPECT_EQ(render("{{ '{'|from_json }}"), "error: chat template, line 1, column 8: from_json: the text isn't JSON");
    ParseOptions options;
    options.generation_tag = true;
    const Result<Template> parsed = Template::parse("a{% generation %}b{% endgeneration %}c", options);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(*parsed->render(Json::object()), "abc");
}

TEST(Jinja, GeneratorsAreWalkedOnce) {
    EXPECT_EQ(render("{% set g = [1, 2]|map('string') %}{{ g|join }}-{{ g|join }}"), "12-");
}

}  // namespace
}  // namespace foresay::jinja
