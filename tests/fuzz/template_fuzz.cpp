// Any template over any variables: it is refused or renders within its limits; and replies cut anywhere are taken apart
// as they are in one piece. The first byte chooses the part.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "chat/jinja/template.h"
#include "chat/output.h"

namespace {

using foresay::chat::Json;

const Json& variables() {
    static const Json all = {
        {"messages",
         Json::array({{{"role", "system"}, {"content", "s"}},
                      {{"role", "user"}, {"content", "h\u00e9llo"}},
                      {{"role", "assistant"},
                       {"content", ""},
                       {"tool_calls",
                        Json::array({{{"id", "1"}, {"function", {{"name", "f"}, {"arguments", {{"a", 1.5}}}}}}})}}})},
        {"tools", Json::array({{{"function", {{"name", "f"}, {"parameters", {{"type", "object"}}}}}}})},
        {"add_generation_prompt", true},
        {"n", 3},
        {"l", Json::array({1, "x", nullptr})},
        {"bos_token", "<s>"}};
    return all;
}

void render(std::string_view source) {
    const foresay::Result<foresay::jinja::Template> parsed = foresay::jinja::Template::parse(source);
    if (!parsed.has_value()) {
        return;
    }
    foresay::jinja::RenderOptions options;
    options.limits.max_steps = 20'000;
    options.limits.max_text_bytes = 1U << 16U;
    options.limits.max_live_bytes = 1U << 22U;
    const foresay::Result<std::string> text = parsed->render(variables(), options);
    FORESAY_ASSERT(!text.has_value() || text->size() <= options.limits.max_text_bytes);
}

std::string shown(const foresay::chat::Message& message) {
    return message.to_json().dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The reply in pieces of bytes would cut characters, which the engine never does: cuts stand before lead bytes only.
void take_apart(std::string_view reply, uint8_t form, uint8_t stride) {
    static constexpr foresay::chat::ThinkTags kThink{"<think>", "</think>"};
    const auto forms = foresay::chat::call_syntaxes();
    foresay::chat::OutputOptions options;
    options.syntax.calls = &forms[form % forms.size()];
    options.syntax.think = (form & 0x80U) != 0 ? &kThink : nullptr;
    options.starts_in_reasoning = (form & 0x40U) != 0;
    options.id_prefix = "c";
    foresay::chat::OutputParser parser(options);
    for (size_t pos = 0; pos < reply.size();) {
        size_t end = std::min(reply.size(), pos + 1 + stride % 7);
        while (end < reply.size() && (static_cast<unsigned char>(reply[end]) & 0xC0U) == 0x80U) {
            ++end;
        }
        parser.push(reply.substr(pos, end - pos));
        pos = end;
    }
    parser.finish();
    FORESAY_ASSERT(shown(parser.message()) == shown(foresay::chat::parse_output(reply, options)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 3) {
        return 0;
    }
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (data[0] == '@') {
        take_apart(text.substr(3), data[1], data[2]);
    } else {
        render(text);
    }
    return 0;
}
