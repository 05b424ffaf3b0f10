// Every public chat template of shared/goldens/templates renders as Python's jinja2 renders it, or fails where it
// fails.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/test_paths.h"
#include "chat/jinja/template.h"

namespace foresay::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::tm frozen(const std::string& iso) {
    std::tm now{};
    strptime(iso.c_str(), "%Y-%m-%dT%H:%M:%S", &now);
    return now;
}

TEST(Renders, EveryPublicTemplateRendersAsPythonDoes) {
    const std::string folder = shared_path("goldens/templates/");
    const Json golden = Json::parse(read(folder + "renders.json"), nullptr, false);
    if (golden.is_discarded()) {
        GTEST_SKIP() << folder << "renders.json is missing";
    }
    RenderOptions options;
    options.now = frozen(golden["now"].get<std::string>());
    int n_renders = 0;
    int n_errors = 0;
    for (const Json& entry : golden["templates"]) {
        const auto name = entry["template"].get<std::string>();
        SCOPED_TRACE(name);
        const Result<Template> parsed = Template::parse(read(folder + name));

        if (entry.contains("parse_error")) {
            ++n_errors;
            ASSERT_FALSE(parsed.has_value());
            EXPECT_NE(parsed.error().where.find("line "), std::string::npos) << parsed.error().to_string();
            continue;
        }
        ASSERT_TRUE(parsed.has_value()) << parsed.error().to_string();
        for (const auto& wanted : entry["renders"].items()) {
            SCOPED_TRACE(wanted.key());
            Json variables = golden["defaults"];
            variables.update(golden["cases"][wanted.key()]);
            const Result<std::string> text = parsed->render(variables, options);
            if (wanted.value().contains("error")) {
                ++n_errors;
                ASSERT_FALSE(text.has_value()) << *text;
                EXPECT_FALSE(text.error().message.empty());
                EXPECT_NE(text.error().where.find("line "), std::string::npos) << text.error().to_string();
                continue;
            }
            ++n_renders;
            ASSERT_TRUE(text.has_value()) << text.error().to_string();
            EXPECT_EQ(*text, wanted.value()["text"].get<std::string>());
        }
    }
    EXPECT_GT(n_renders, 500);
    EXPECT_GT(n_errors, 15);
}

}  // namespace
}  // namespace foresay::jinja
