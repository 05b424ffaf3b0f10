// Embeddings: norms, encodings, bodies, and the routes over a fake engine.
#include "server/api/embeddings.h"

#include <cmath>
#include <string>
#include <vector>

#include "server/test_client.h"

namespace foresay::server {
namespace {

using EmbeddingsTest = ServerFixture;

TEST(Embeddings, NormsAreWhatTheySay) {
    const auto normalized = [](int32_t how) {
        std::vector<float> values{3.0F, -4.0F};
        normalize_embedding(values, how);
        return values;
    };
    EXPECT_EQ(normalized(-1), (std::vector<float>{3.0F, -4.0F}));
    EXPECT_EQ(normalized(0), (std::vector<float>{24570.0F, -32760.0F}));
    EXPECT_FLOAT_EQ(normalized(1)[0], 3.0F / 7.0F);
    EXPECT_FLOAT_EQ(normalized(2)[1], -0.8F);
    EXPECT_FLOAT_EQ(normalized(3)[0], 3.0F / std::cbrt(91.0F));
    std::vector<float> zero{0.0F, 0.0F};
    normalize_embedding(zero, 2);
    EXPECT_EQ(zero, (std::vector<float>{0.0F, 0.0F}));
}

TEST(Embeddings, Base64IsLittleEndianFloats) {
    EXPECT_EQ(base64_floats(std::vector<float>{1.0F}), "AACAPw==");
    EXPECT_EQ(base64_floats(std::vector<float>{1.0F, -2.0F}), "AACAPwAAAMA=");
    EXPECT_EQ(base64_floats(std::vector<float>{1.0F, -2.0F, 0.5F}), "AACAPwAAAMAAAAA/");
    EXPECT_EQ(base64_floats({}), "");
}

TEST_F(EmbeddingsTest, RoutesGiveTheirShapes) {
    start(false);
    engine->options_.embeddings = true;
    server->set_engine(engine);
    const auto one = post("/v1/embeddings", R"({"input":"abc","model":"m"})").json();
    EXPECT_EQ(one["object"], "list");
    EXPECT_EQ(one["model"], "m");
    EXPECT_FLOAT_EQ(one["data"][0]["embedding"][0], 0.6F);  // 3 and 4 tokens with BOS
    EXPECT_FLOAT_EQ(one["data"][0]["embedding"][1], 0.8F);
    EXPECT_EQ(one["usage"]["prompt_tokens"], 4);
    EXPECT_TRUE(engine->requests().back().embed);
    const auto many = post("/v1/embeddings",
                           R"({"input":["a",[1,2],{"prompt_string":"x"},{"content":[{"type":"text","text":"y"}]}]})")
                          .json();
    ASSERT_EQ(many["data"].size(), 4U);
    EXPECT_EQ(many["data"][3]["index"], 3);
    EXPECT_EQ(many["usage"]["total_tokens"], 2 + 2 + 2 + 2);
    const auto text = post("/v1/embeddings", R"({"input":"abc","encoding_format":"base64"})").json();
    EXPECT_EQ(text["data"][0]["embedding"], base64_floats(std::vector<float>{0.6F, 0.8F}));
    const auto native = post("/embedding", R"({"content":"abc","embd_normalize":-1})").json();
    EXPECT_EQ(native[0]["embedding"][0], (std::vector<float>{3.0F, 4.0F}));
    for (const char* body :
         {"{}", R"({"input":5})", R"({"input":[]})", R"({"input":""})", R"({"input":"a","encoding_format":"hex"})",
          R"({"input":[{"content":[{"type":"image"}]}]})", R"({"input":[1,99999]})"}) {
        const Reply reply = post("/v1/embeddings", body);
        EXPECT_TRUE(reply.status == 400 || std::string(body) == R"({"input":""})") << body << reply.body;
    }
    const std::string longer(70, 'x');
    EXPECT_EQ(post("/v1/embeddings", R"({"input":")" + longer + R"("})").json()["error"]["type"],
              "exceed_context_size_error");
    engine->pooling_ = engine::Pooling::kNone;
    EXPECT_EQ(post("/v1/embeddings", R"({"input":"abc"})").status, 400);
    EXPECT_EQ(post("/embeddings", R"({"input":"abc"})").json()[0]["embedding"].size(), 1U);
}

}  // namespace
}  // namespace foresay::server
