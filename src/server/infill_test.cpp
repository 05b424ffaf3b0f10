// The prompt of /infill: order, cuts and refusals. (POST /infill over a real vocabulary: tests/e2e.)
#include "server/api/infill.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/fake_engine.h"

namespace foresay::server {
namespace {

constexpr vocab::FimTokens kFim{300, 301, 302, 303, 304};

std::string shown(const std::vector<vocab::TokenId>& tokens) {
    std::string out;
    for (const vocab::TokenId id : tokens) {
        if (id < 256) {
            out += static_cast<char>(id);
        } else {
            out += id == 256 ? "<s>" : std::string("<") + "PSMRF"[id - 300] + ">";
        }
    }
    return out;
}

TEST(Infill, PutsThePartsInOrder) {
    const ByteVocab vocab;
    const InfillText text{"before", "after", "begin", {}};
    EXPECT_EQ(shown(infill_prompt(text, vocab, kFim, 100)), "<s><P>beforebegin<S>after<M>");
    InfillText more = text;
    more.extra = {{"a.c", "A"}, {"b.c", "B"}};
    EXPECT_EQ(shown(infill_prompt(more, vocab, kFim, 100)),
              "<s><R>myproject\n<F>a.c\nA<F>b.c\nB<F>filename\n<P>beforebegin<S>after<M>");
    const vocab::FimTokens plain{300, 301, 302, vocab::kNoToken, vocab::kNoToken};
    EXPECT_EQ(shown(infill_prompt(more, vocab, plain, 100)),
              "<s>\n\n--- snippet ---\n\nA\n\n--- snippet ---\n\nB<P>beforebegin<S>after<M>");
}

TEST(Infill, CutsToTheRoomFromTheFarEnds) {
    const ByteVocab vocab;
    const InfillText text{std::string(100, 'a') + "P", "S" + std::string(100, 'b'), "", {{"x", std::string(50, 'c')}}};
    for (size_t room = 16; room < 300; ++room) {
        const std::string got = shown(infill_prompt(text, vocab, kFim, room));
        EXPECT_LE(infill_prompt(text, vocab, kFim, room).size(), room);
        EXPECT_NE(got.find("P<S>S"), std::string::npos) << got;
    }
    EXPECT_EQ(infill_prompt(text, vocab, kFim, 24).size(), 24U) << "no room is wasted";
    EXPECT_EQ(shown(infill_prompt({"", "abc", "", {}}, vocab, kFim, 7)), "<s><P><S>abc<M>");
}

TEST(Infill, RefusesByName) {
    ParseContext context;
    context.vocab = std::make_shared<ByteVocab>();
    const auto message = [&](const char* body, const vocab::FimTokens& fim = kFim) {
        const auto result = parse_infill(nlohmann::json::parse(body), body, context, fim, 64);
        return result ? std::string("fine") : result.error().message;
    };
    EXPECT_EQ(message(R"({"input_prefix":"a","input_suffix":"b"})"), "fine");
    EXPECT_EQ(message(R"({"input_suffix":"b"})"), "key 'input_prefix' not found");
    EXPECT_EQ(message(R"({"input_prefix":"b"})"), "key 'input_suffix' not found");
    EXPECT_NE(message(R"({"input_prefix":1,"input_suffix":"b"})").find("Field 'input_prefix'"), std::string::npos);
    EXPECT_NE(message(R"({"input_prefix":"a","input_suffix":"b","prompt":5})").find("Field 'prompt'"),
              std::string::npos);
    for (const char* extra :
         {"5", "[5]", R"([{"filename":"x"}])", R"([{"text":5}])", R"([{"text":"x","filename":5}])"}) {
        EXPECT_NE(
            message((std::string(R"({"input_prefix":"a","input_suffix":"b","input_extra":)") + extra + "}").c_str())
                .find("Field 'input_extra'"),
            std::string::npos)
            << extra;
    }
    EXPECT_EQ(message("{}", {300, vocab::kNoToken, 302, vocab::kNoToken, vocab::kNoToken}),
              "Infill is not supported by this model: suffix token is missing");
}

}  // namespace
}  // namespace foresay::server
