// A template is an untrusted program: whatever it does, a render ends soon, in bounded memory, without a crash.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chat/jinja/template.h"

namespace foresay::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::string repeated(std::string_view text, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) {
        out += text;
    }
    return out;
}

Error error_of(const std::string& source, const Json& variables = Json::object()) {
    const Result<Template> parsed = Template::parse(source);
    if (!parsed.has_value()) {
        return parsed.error();
    }
    const Result<std::string> text = parsed->render(variables);
    return text.has_value() ? error(Code::kInternal, "no error: " + text->substr(0, 100)) : text.error();
}

struct Attack {
    const char* name;
    std::string source;
    std::string message;  ///< the beginning of the error's
};

class TemplateLimits : public testing::TestWithParam<Attack> {};

TEST_P(TemplateLimits, EndWithAnError) {
    const Error failure = error_of(GetParam().source);
    EXPECT_EQ(failure.message.substr(0, GetParam().message.size()), GetParam().message) << failure.to_string();
    EXPECT_NE(failure.where.find("line"), std::string::npos) << failure.to_string();
}

const std::string kLoops = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";

INSTANTIATE_TEST_SUITE_P(
    Attacks, TemplateLimits,
    testing::Values(
        Attack{"loops", kLoops, "the template runs for more than"},
        Attack{"doubled_string",
               "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
               "a string grows beyond"},
        Attack{"doubled_list",
               "{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
               "the template"},
        Attack{"repeated_string", "{{ 'abc' * 10000000000 }}", "a string grows beyond"},
        Attack{"repeated_list", "{{ [1] * 10000000000 }}", "the template runs for more than"},
        Attack{"wide_format", "{{ '{:99999999}'.format(1) }}", "a width or precision"},
        Attack{"wide_percent", "{{ '%99999999d' % 1 }}", "a width or precision"},
        Attack{"wide_center", "{{ 'a'|center(100000000000) }}", "a string grows beyond"},
        Attack{"wide_ljust", "{{ 'a'.ljust(100000000000) }}", "a string grows beyond"},
        Attack{"wide_indent", "{{ ('\n' * 10000)|indent(10000000) }}", "a string grows beyond"},
        Attack{"multiplying_replace", "{{ ('a' * 10000).replace('a', 'b' * 10000) }}", "a string grows beyond"},
        Attack{"long_range", "{{ range(100001) }}", "range(): more than"},
        Attack{"output", "{% set s = 'x' * 1000000 %}{% for i in range(100) %}{{ s }}{% endfor %}",
               "a string grows beyond"},
        Attack{
            "memory",
            "{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = n.l + ['x' * 1000000] %}{% endfor %}",
            "the template's values take more than"},
        Attack{"endless_macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
               "the template's macros are nested deeper"},
        Attack{"forking_macro",
               "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
               "the template runs for more than"},
        Attack{"nested_list",
               "{% set n = namespace(l=[]) %}{% for i in range(1000) %}{% set n.l = [n.l] %}{% endfor %}",
               "a list is nested deeper than"},
        Attack{"nested_dict",
               "{% set n = namespace(l={}) %}{% for i in range(1000) %}{% set n.l = {'x': n.l} %}{% endfor %}",
               "a dict is nested deeper than"},
        Attack{"nested_loops_in_values",
               "{% set n = namespace(l=0) %}{% for i in range(1000) %}{% for j in [n.l] %}{% set n.l = loop %}{% "
               "endfor %}{% endfor %}",
               "a list is nested deeper than"},
        Attack{"shared_lists_printed",
               "{% set n = namespace(l=[1]) %}{% for i in range(90) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ n.l }}",
               "a string grows beyond"},
        Attack{"shared_lists_as_json",
               "{% set n = namespace(l=[1]) %}{% for i in range(90) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ "
               "n.l|tojson }}",
               "a"},
        Attack{"shared_lists_compared",
               "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(90) %}{% set n.a = [n.a, n.a] %}"
               "{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}",
               "the template runs for more than"},
        Attack{"overflow", "{{ 9223372036854775807 + 1 }}", "an integer grows beyond"},
        Attack{"power", "{{ 10 ** 100000 }}", "an integer grows beyond"},
        Attack{"huge_number", "{{ 99999999999999999999 }}", "the integer"},
        Attack{"parentheses", "{{ " + repeated("(", 100000) + "1" + repeated(")", 100000) + " }}",
               "nested deeper than"},
        Attack{"brackets", "{{ " + repeated("[", 100000) + repeated("]", 100000) + " }}", "nested deeper than"},
        Attack{"nots", "{{ " + repeated("not ", 100000) + "1 }}", "nested deeper than"},
        Attack{"minuses", "{{ " + repeated("-", 100000) + "1 }}", "nested deeper than"},
        Attack{"sums", "{{ 1" + repeated("+1", 100000) + " }}", "an expression is nested deeper than"},
        Attack{"attributes", "{{ a" + repeated(".b", 100000) + " }}", "an expression is nested deeper than"},
        Attack{"filters", "{{ 'a'" + repeated("|upper", 100000) + " }}", "an expression is nested deeper than"},
        Attack{"ifs", repeated("{% if 1 %}", 10000), "nested deeper than"},
        Attack{"mapped_maps", "{{ [[[1]]]|map(" + repeated("'map',", 1000) + "'string')|list }}",
               "'int' object is not iterable"}),
    [](const testing::TestParamInfo<Attack>& attack) { return std::string(attack.param.name); });

TEST(TemplateLimits, NamespacesThatHoldThemselvesAreFreed) {
    // The leak checker of the asan preset has the last word.
    const Result<Template> parsed = Template::parse(
        "{% set n = namespace() %}{% set n.n = n %}{% set n.l = [n] %}{% macro m() %}{{ m }}{% endmacro %}{% set n.m = "
        "m %}"
        "{% set p = namespace(x=0) %}{% for i in range(5000) %}{% set q = namespace(p=p.x) %}{% set p.x = q %}{% "
        "endfor %}ok");
    ASSERT_TRUE(parsed.has_value());
    const Result<std::string> text = parsed->render(Json::object());
    ASSERT_TRUE(text.has_value()) << text.error().to_string();
    EXPECT_EQ(*text, "ok");
}

TEST(TemplateLimits, DeepVariablesAreRefused) {
    Json deep = Json::array();
    for (int i = 0; i < 200; ++i) {
        deep = Json::array({deep});
    }
    const Result<Template> parsed = Template::parse("x");
    const Result<std::string> text = parsed->render(Json{{"deep", deep}});
    ASSERT_FALSE(text.has_value());
    EXPECT_EQ(text.error().message, "JSON is nested deeper than 100 levels");
}

TEST(TemplateLimits, SourcesAreChecked) {
    EXPECT_EQ(Template::parse("\xff").error().message, "isn't valid UTF-8");
    EXPECT_FALSE(Template::parse(std::string(Limits::kMaxSourceBytes + 1, 'x')).has_value());
}

TEST(TemplateLimits, ARenderLeavesNothingForTheNext) {
    const Result<Template> parsed =
        Template::parse("{{ x is defined }}{% set x = 1 %}{% set n = namespace(a=1) %}{{ n.a }}");
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(*parsed->render(Json::object()), "False1");
    EXPECT_EQ(*parsed->render(Json::object()), "False1");
}

}  // namespace
}  // namespace foresay::jinja
