// Bad requests: each gets its status, type and a message that names the cause; after all of them the server answers as
// before.
#include <string>
#include <vector>

#include "server/test_client.h"

namespace foresay::server {
namespace {

struct BadRequest {
    const char* path;
    std::string body;
    int status;
    const char* type;
    const char* message;  ///< part of the message
};

constexpr const char* kInvalid = "invalid_request_error";
constexpr const char* kUnsupportedType = "not_supported_error";

std::vector<BadRequest> bad_completions() {
    const std::string deep(100000, '[');
    return {
        {"/completion", "", 400, kInvalid, "parse error at line 1, column 1"},
        {"/completion", "{", 400, kInvalid, "parse error"},
        {"/completion", "not json", 400, kInvalid, "parse error at line 1"},
        {"/completion", "{\"prompt\":\"a\"", 400, kInvalid, "parse error"},
        {"/completion", "{\"prompt\":\"a\"} x", 400, kInvalid, "parse error"},
        {"/completion", "[]", 400, kInvalid, "must be an object"},
        {"/completion", "\"text\"", 400, kInvalid, "must be an object"},
        {"/completion", "12", 400, kInvalid, "must be an object"},
        {"/completion", deep, 400, kInvalid, "nested deeper"},
        {"/completion", R"({"prompt":)" + std::string(100, '[') + std::string(100, ']') + "}", 400, kInvalid,
         "nested deeper"},
        {"/completion", "{\"prompt\":\"\xff\xfe\"}", 400, kInvalid, "ill-formed UTF-8"},
        {"/completion", "{\"prompt\":\"\xc3\"}", 400, kInvalid, "parse error"},
        {"/completion", "{}", 400, kInvalid, "'prompt' not found"},
        {"/completion", R"({"prompt":null})", 400, kInvalid, "'prompt' not found"},
        {"/completion", R"({"prompt":[]})", 400, kInvalid, "\"prompt\" must not be empty"},
        {"/completion", R"({"prompt":["a",[]]})", 400, kInvalid, "\"prompt\" must not be empty"},
        {"/completion", R"({"prompt":7})", 400, kInvalid, "\"prompt\" must be a string"},
        {"/completion", R"({"prompt":true})", 400, kInvalid, "\"prompt\" must be a string"},
        {"/completion", R"({"prompt":{}})", 400, kInvalid, "\"prompt\" must be a string"},
        {"/completion", R"({"prompt":[1.5]})", 400, kInvalid, "\"prompt\" must be a string"},
        {"/completion", R"({"prompt":[[1],2]})", 400, kInvalid, "\"prompt\" must be a string"},
        {"/completion", R"({"prompt":[1,99999]})", 400, kInvalid, "Prompt contains invalid tokens"},
        {"/completion", R"({"prompt":[-1]})", 400, kInvalid, "Prompt contains invalid tokens"},
        {"/completion", R"({"prompt":[18446744073709551615]})", 400, kInvalid, "Prompt contains invalid tokens"},
        {"/completion", R"({"prompt":{"prompt_string":"a","multimodal_data":["eA=="]}})", 400, kInvalid, "multimodal"},
        {"/completion", R"({"prompt":"a","n_predict":"x"})", 400, kInvalid,
         "Field 'n_predict': type must be number, but is string"},
        {"/completion", R"({"prompt":"a","n_predict":-2})", 400, kInvalid,
         "Field 'n_predict': Value must be between -1 <= value <= 2147483647, but got -2"},
        {"/completion", R"({"prompt":"a","max_tokens":-2})", 400, kInvalid, "Field 'max_tokens': Value"},
        {"/completion", R"({"prompt":"a","n_predict":1e300})", 400, kInvalid, "Field 'n_predict': Value"},
        {"/completion", R"({"prompt":"a","n_predict":99999999999999999999})", 400, kInvalid,
         "Field 'n_predict': Value"},
        {"/completion", R"({"prompt":"a","temperature":"hot"})", 400, kInvalid,
         "Field 'temperature': type must be number"},
        {"/completion", R"({"prompt":"a","temperature":1e300})", 400, kInvalid, "Field 'temperature': Value"},
        {"/completion", R"({"prompt":"a","temperature":1e999})", 400, kInvalid, "number overflow"},
        {"/completion", R"({"prompt":"a","seed":4294967296})", 400, kInvalid, "Field 'seed': Value"},
        {"/completion", R"({"prompt":"a","stream":1})", 400, kInvalid,
         "Field 'stream': type must be boolean, but is number"},
        {"/completion", R"({"prompt":"a","stop":[1]})", 400, kInvalid, "Field 'stop'"},
        {"/completion", R"({"prompt":"a","stop":{"x":1}})", 400, kInvalid, "Field 'stop'"},
        {"/completion", R"({"prompt":"a","repeat_penalty":0})", 400, kInvalid,
         "penalty_repeat must be finite and greater than 0"},
        {"/completion", R"({"prompt":"a","repeat_last_n":-1})", 400, kInvalid, "Field 'repeat_last_n': Value"},
        {"/completion", R"({"prompt":"a","min_keep":-1})", 400, kInvalid, "Field 'min_keep': Value"},
        {"/completion", R"({"prompt":"a","n_probs":-1})", 400, kInvalid, "Field 'n_probs': Value"},
        {"/completion", R"({"prompt":"a","logprobs":"x"})", 400, kInvalid, "Field 'logprobs': type"},
        {"/completion", R"({"prompt":"a","dry_sequence_breakers":[]})", 400, kInvalid, "Field 'dry_sequence_breakers'"},
        {"/completion", R"({"prompt":"a","adaptive_decay":1})", 400, kInvalid, "Field 'adaptive_decay': Value"},
        {"/completion", R"({"prompt":"a","samplers":["top_k","nonsense"]})", 400, kInvalid,
         "unknown sampler 'nonsense'"},
        {"/completion", R"({"prompt":"a","samplers":"kz"})", 400, kInvalid, "unknown sampler letter 'z'"},
        {"/completion", R"({"prompt":"a","samplers":5})", 400, kInvalid, "Field 'samplers'"},
        {"/completion", R"({"prompt":"a","logit_bias":5})", 400, kInvalid, "Field 'logit_bias'"},
        {"/completion", R"({"prompt":"a","id_slot":2})", 400, kInvalid, "Invalid slot ID"},
        {"/completion", R"({"prompt":"a","id_slot":-2})", 400, kInvalid, "Invalid slot ID"},
        {"/completion", R"({"prompt":"a","sse_ping_interval":-2})", 400, kInvalid, "Field 'sse_ping_interval'"},
        {"/completion", R"({"prompt":"a","speculative.n_max":-1})", 400, kInvalid, "Field 'speculative.n_max': Value"},
        {"/completion", R"({"prompt":"a","speculative.n_max":2.5})", 400, kInvalid,
         "Field 'speculative.n_max': must be an integer"},
        {"/completion", R"({"prompt":"a","speculative.n_max":"4"})", 400, kInvalid,
         "Field 'speculative.n_max': type must be number"},
        {"/completion", R"({"prompt":"a","speculative":{"n_max":"4"}})", 400, kInvalid,
         "Field 'speculative.n_max': type must be number"},
        {"/completion", R"({"prompt":"a","speculative":4})", 400, kInvalid, "Field 'speculative': type must be object"},
        {"/completion", R"({"prompt":"a","speculative.p_min":-1})", 400, kInvalid, "Field 'speculative.p_min': Value"},
        {"/completion", R"({"prompt":"a","speculative.p_min":2})", 400, kInvalid, "Field 'speculative.p_min': Value"},
        {"/completion", R"({"prompt":"a","speculative.n_min":8,"speculative.n_max":4})", 400, kInvalid,
         "Field 'speculative.n_min'"},
        {"/completion", R"({"prompt":"a","speculative.relaxed_top_n":-1})", 400, kInvalid,
         "Field 'speculative.relaxed_top_n'"},
        {"/completion", R"({"prompt":"a","speculative.type":"magic"})", 400, kInvalid,
         "unknown speculative type 'magic'"},
        {"/completion", R"({"prompt":"a","lora":{}})", 400, kInvalid, "Field 'lora': type must be array"},
        {"/completion", R"({"prompt":"a","n":3})", 400, kInvalid,
         "Field 'n': Value must be between 1 <= value <= 2, but got 3"},
        {"/completion", R"({"prompt":"a","n":2,"id_slot":0})", 400, kInvalid, "Field 'id_slot': one slot"},
        {"/completion", R"({"prompt":"a","stream_options":1})", 400, kInvalid, "Field 'stream_options': type"},
        {"/completion", R"({"prompt":"a","stream_options":{"include_usage":1}})", 400, kInvalid,
         "Field 'stream_options.include_usage': type"},
        {"/v1/completions", R"({"prompt":"a","echo":true})", 400, kInvalid, "Field 'echo'"},
        {"/v1/completions", R"({"prompt":"a","best_of":2})", 400, kInvalid, "Field 'best_of'"},
        {"/v1/completions", R"({"prompt":"a","suffix":"x"})", 400, kInvalid, "Field 'suffix'"},
        {"/v1/completions", R"({})", 400, kInvalid, "'prompt' not found"},
        {"/completion", R"({"prompt":"a","json_schema":5})", 400, kInvalid,
         "Field 'json_schema': \"json_schema\": JSON schema conversion failed: at #: a schema must be an object"},
        {"/completion", R"({"prompt":"a","json_schema":{"properties":{"b":{"type":"strin"}}}})", 400, kInvalid,
         "at #/properties/b: unknown type 'strin'"},
        {"/completion", R"({"prompt":"a","json_schema":{"$ref":"http://x/y"}})", 400, kInvalid, "only '#' and '#/...'"},
        {"/completion", R"({"prompt":"a","json_schema":{"allOf":[{"type":"string"},{"type":"null"}]}})", 400, kInvalid,
         "allows no value"},
        {"/completion", R"({"prompt":"a","response_format":{"type":"hiccup"}})", 400, kInvalid,
         "response_format type must be one of"},
        {"/completion", R"({"prompt":"a","response_format":{"type":123}})", 400, kInvalid, "response_format type"},
        {"/completion", R"({"prompt":"a","response_format":"json"})", 400, kInvalid, "Field 'response_format'"},
        {"/completion", R"({"prompt":"a","response_format":{"type":"json_object","schema":123}})", 400, kInvalid,
         "Field 'response_format'"},
        {"/completion", R"({"prompt":"a","response_format":{"type":"json_schema"}})", 400, kInvalid,
         "Field 'response_format': \"json_schema\" with \"schema\" is missing"},
        {"/completion", R"({"prompt":"a","grammar_lazy":1})", 400, kInvalid,
         "Field 'grammar_lazy': type must be boolean"},
        {"/completion", R"({"prompt":"a","grammar_triggers":{}})", 400, kInvalid,
         "Field 'grammar_triggers': must be a list"},
        {"/completion", R"({"prompt":"a","grammar_triggers":[{"type":2,"value":5}]})", 400, kInvalid,
         "a pattern trigger needs \"value\""},
        {"/completion", R"({"prompt":"a","grammar_triggers":[{"type":"odd","value":"x"}]})", 400, kInvalid,
         "Field 'grammar_triggers': unknown type"},
        {"/completion", R"({"prompt":"a","lora":[{"id":0,"scale":1}]})", 501, kUnsupportedType,
         "Field 'lora': not supported yet"},
        {"/completion", R"({"prompt":"a","n_indent":4})", 501, kUnsupportedType, "Field 'n_indent'"},
        {"/completion", R"({"prompt":")" + std::string(70, 'x') + R"("})", 400, "exceed_context_size_error",
         "request (71 tokens) exceeds the available context size (64 tokens), try increasing it"},
        {"/completion", R"({"stream":true,"prompt":")" + std::string(70, 'x') + R"("})", 400,
         "exceed_context_size_error", "exceeds"},
        {"/tokenize", R"({"content":5})", 400, kInvalid, "Field 'content'"},
        {"/tokenize", R"({"content":[[1]]})", 400, kInvalid, "Field 'content'"},
        {"/tokenize", R"({"content":[99999]})", 400, kInvalid, "invalid tokens"},
        {"/detokenize", R"({"tokens":[99999]})", 400, kInvalid, "outside the vocabulary"},
        {"/detokenize", R"({"tokens":["a"]})", 400, kInvalid, "must be an integer"},
        {"/detokenize", R"({"tokens":5})", 400, kInvalid, "Field 'tokens'"},
        {"/detokenize", "{", 400, kInvalid, "parse error"},
        {"/v1/chat/completions", R"({"messages":5})", 400, kInvalid, "Expected 'messages' to be an array"},
        {"/v1/chat/completions", "{}", 400, kInvalid, "'messages' is required"},
        {"/v1/messages", "{}", 400, kInvalid, "'messages' is required"},
        {"/v1/responses", "{}", 400, kInvalid, "Field 'input'"},
        {"/apply-template", "{}", 400, kInvalid, "'messages' is required"},
        {"/rerank", "{}", 501, kUnsupportedType, "not yet available"},
        {"/infill", R"({"input_prefix":"a","input_suffix":"b"})", 501, kUnsupportedType,
         "Infill is not supported by this model: prefix token is missing, suffix token is missing"},
        {"/v1/embeddings", R"({"input":"a"})", 501, kUnsupportedType, "`--embeddings`"},
        {"/slots/0?action=save", "{}", 501, kUnsupportedType, "`--slot-save-path`"},
        {"/props", "{}", 501, kUnsupportedType, "`--props`"},
        {"/api/generate", "{}", 404, "not_found_error", "File Not Found"},
        {"/health", "{}", 404, "not_found_error", "File Not Found"},
    };
}

using RequestsTest = ServerFixture;

TEST_F(RequestsTest, BadRequestsAreRefusedByNameAndLeaveTheServerHealthy) {
    start();
    const std::vector<BadRequest> table = bad_completions();
    ASSERT_GE(table.size(), 40U);
    for (const BadRequest& bad : table) {
        const std::string label = std::string(bad.path) + " " + bad.body.substr(0, 100);
        const Reply reply = post(bad.path, bad.body);
        EXPECT_EQ(reply.status, bad.status) << label << "\n" << reply.body;
        const nlohmann::json body = reply.json();
        ASSERT_TRUE(body.is_object() && body.contains("error")) << label << "\n" << reply.body;
        EXPECT_EQ(body["error"]["code"], bad.status) << label;
        EXPECT_EQ(body["error"]["type"], bad.type) << label;
        EXPECT_NE(body["error"]["message"].get<std::string>().find(bad.message), std::string::npos) << label << "\n"
                                                                                                    << reply.body;
        EXPECT_EQ(reply.header("content-type"), "application/json; charset=utf-8") << label;
        EXPECT_EQ(reply.header("connection"), "close") << label;
    }
    EXPECT_EQ(engine->n_cancelled(), 0);
    expect_known_answer();
}

TEST_F(RequestsTest, PromptTooLongSaysHowMuch) {
    start();
    const auto error = post("/completion", R"({"prompt":")" + std::string(70, 'x') + R"("})").json()["error"];
    EXPECT_EQ(error["n_prompt_tokens"], 71);
    EXPECT_EQ(error["n_ctx"], 64);
}

TEST_F(RequestsTest, AFailureOfOnePromptCancelsTheOthers) {
    script_for = [](const engine::Request&) {
        Script script = script_of("abc");
        script.hold_at = 0;
        return script;
    };
    start();
    const Reply reply = post("/completion", R"({"prompt":["a",")" + std::string(70, 'x') + R"("]})");
    EXPECT_EQ(reply.status, 400) << reply.body;
    EXPECT_TRUE(engine->wait_for_cancelled(1));
    EXPECT_TRUE(engine->wait_for_idle());
}

TEST_F(RequestsTest, AnErrorOfTheEngineIs500) {
    script_for = [](const engine::Request&) {
        Script script = script_of("abc");
        script.error = "Compute error.";
        return script;
    };
    start();
    const Reply reply = post("/completion", R"({"prompt":"a"})");
    EXPECT_EQ(reply.status, 500);
    EXPECT_EQ(reply.json()["error"]["type"], "server_error");
}

TEST_F(RequestsTest, FullQueueIs429WithRetryAfter) {
    options.max_queued = 0;  // two slots, nobody waits
    script_for = [](const engine::Request&) {
        Script script = script_of("abc");
        script.hold_at = 1;
        return script;
    };
    start();
    TestClient first(server->port());
    TestClient second(server->port());
    first.send(request_text("POST", "/completion", R"({"prompt":"a"})"));
    second.send(request_text("POST", "/completion", R"({"prompt":"b"})"));
    ASSERT_TRUE(engine->wait_for_held(2));
    const Reply reply = post("/completion", R"({"prompt":"c"})");
    EXPECT_EQ(reply.status, 429) << reply.body;
    EXPECT_FALSE(reply.header("retry-after").empty());
    EXPECT_EQ(get("/health").status, 200);
    engine->release();
    EXPECT_EQ(first.read_reply().json()["content"], "abc");
    EXPECT_EQ(second.read_reply().json()["content"], "abc");
}

}  // namespace
}  // namespace foresay::server
