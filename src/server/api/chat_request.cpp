#include "server/api/chat_request.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace foresay::server {
namespace {

constexpr std::array<std::pair<const char*, chat::ReasoningFormat>, 4> kFormats{
    {{"none", chat::ReasoningFormat::kNone},
     {"auto", chat::ReasoningFormat::kAuto},
     {"deepseek", chat::ReasoningFormat::kDeepseek},
     {"deepseek-legacy", chat::ReasoningFormat::kDeepseekLegacy}}};

Error refuse(std::string message) {
    return error(Code::kInvalidArgument, std::move(message));
}

/// Null counts as absent.
const Json* find(const Json& object, const char* key) {
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<std::optional<bool>> flag(const Json& body, const char* key) {
    const Json* value = find(body, key);
    if (value == nullptr) {
        return std::optional<bool>();
    }
    if (!value->is_boolean()) {
        return refuse(fmt::format("Field '{}': type must be boolean, but is {}", key, value->type_name()));
    }
    return std::optional<bool>(value->get<bool>());
}

Status parse_continuation(const Json& body, const ChatOptions& options, chat::Request* request) {
    FORESAY_TRY(request->add_generation_prompt, flag(body, "add_generation_prompt"));
    request->prefill_assistant = options.prefill_assistant;
    const Json* last = find(body, "continue_final_message");
    if (last == nullptr || *last == Json(false)) {
        return ok();
    }
    if (*last != Json(true) && *last != Json("content") && *last != Json("reasoning_content")) {
        return refuse("Field 'continue_final_message': must be true, false, \"content\" or \"reasoning_content\"");
    }
    request->continue_final =
        *last == Json("reasoning_content") ? chat::Continue::kReasoning : chat::Continue::kContent;
    return ok();
}

/// {"type": "function", "function": {"name": N}}: only N may be called, and must be.
Status choose_tool(const Json& choice, ChatRequest* request) {
    const Json* function = find(choice, "function");
    const Json* name = function != nullptr && function->is_object() ? find(*function, "name") : nullptr;
    Json chosen = Json::array();
    for (const Json& tool : request->chat.tools) {
        const Json* candidate = tool.is_object() ? find(tool, "function") : nullptr;
        if (name != nullptr && candidate != nullptr && candidate->is_object() && find(*candidate, "name") != nullptr &&
            *find(*candidate, "name") == *name) {
            chosen.push_back(tool);
        }
    }
    if (chosen.empty()) {
        return refuse("Invalid tool_choice: no such tool");
    }
    request->chat.tool_choice = chat::ToolChoice::kRequired;
    request->callable = std::move(chosen);
    return ok();
}

Status parse_tools(const Json& body, const ChatOptions& options, ChatRequest* request) {
    const Json* tools = find(body, "tools");
    const Json* choice = find(body, "tool_choice");
    if (!options.jinja && ((tools != nullptr && !tools->empty()) || choice != nullptr)) {
        return refuse(fmt::format("{} param requires --jinja flag", tools != nullptr ? "tools" : "tool_choice"));
    }
    if (tools != nullptr && !tools->is_array()) {
        return refuse("Failed to parse tools: Expected 'tools' to be an array");
    }
    if (tools != nullptr && !tools->empty()) {
        request->chat.tools = *tools;
        request->callable = *tools;
    }
    FORESAY_TRY(request->chat.parallel_tool_calls, flag(body, "parallel_tool_calls"));
    if (choice == nullptr) {
        return ok();
    }
    if (choice->is_object() && choice->contains("function")) {
        return choose_tool(*choice, request);
    }
    if (*choice == "none") {
        request->chat.tool_choice = chat::ToolChoice::kNone;
        request->callable = Json();
    } else if (*choice == "required") {
        if (request->callable.is_null()) {
            return refuse("Invalid tool_choice: \"required\" needs tools");
        }
        request->chat.tool_choice = chat::ToolChoice::kRequired;
    } else if (*choice != "auto") {
        const std::string got = choice->is_string() ? choice->get<std::string>() : dump(*choice);
        return refuse(fmt::format("Invalid tool_choice: {}", got.substr(0, 200)));
    }
    return ok();
}

Status parse_budget(const Json& body, const ChatOptions& options, ChatRequest* request) {
    request->reasoning_budget = options.reasoning_budget;
    request->reasoning_budget_message = options.reasoning_budget_message;
    for (const char* key : {"reasoning_budget_tokens", "thinking_budget_tokens"}) {
        const Json* value = find(body, key);
        if (value == nullptr) {
            continue;
        }
        constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
        // An unsigned number above the range of int64_t would come out negative.
        const bool fits = value->is_number_integer() &&
                          (!value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(kMost));
        const int64_t n = fits ? value->get<int64_t>() : -2;
        if (n < -1 || n > kMost) {
            return refuse(fmt::format("Field '{}': must be a whole number from -1 to {}", key, kMost));
        }
        request->reasoning_budget = static_cast<int32_t>(n);
        break;  // the first name wins
    }
    if (const Json* message = find(body, "reasoning_budget_message"); message != nullptr) {
        if (!message->is_string()) {
            return refuse(
                fmt::format("Field 'reasoning_budget_message': type must be string, but is {}", message->type_name()));
        }
        request->reasoning_budget_message = message->get<std::string>();
    }
    constexpr size_t kMostMessage = 4096;  // all of it is spoken: more would be no message
    if (request->reasoning_budget_message.size() > kMostMessage) {
        return refuse(fmt::format("Field 'reasoning_budget_message': {} bytes, {} are possible",
                                  request->reasoning_budget_message.size(), kMostMessage));
    }
    return ok();
}

Status parse_thinking(const Json& body, const ChatOptions& options, ChatRequest* request) {
    chat::Request& chat = request->chat;
    chat.enable_thinking = options.thinking;
    chat.reasoning_effort = options.reasoning_effort;
    if (const Json* kwargs = find(body, "chat_template_kwargs"); kwargs != nullptr) {
        if (!kwargs->is_object()) {
            return refuse(
                fmt::format("Field 'chat_template_kwargs': type must be object, but is {}", kwargs->type_name()));
        }
        chat.kwargs = *kwargs;
    }
    if (const Json* effort = find(body, "reasoning_effort"); effort != nullptr) {
        if (!effort->is_string()) {
            return refuse(fmt::format("Field 'reasoning_effort': type must be string, but is {}", effort->type_name()));
        }
        chat.reasoning_effort = effort->get<std::string>();
    }
    request->reasoning_format = options.reasoning_format;
    if (const Json* format = find(body, "reasoning_format"); format != nullptr) {
        const auto known = format->is_string() ? reasoning_format_of(format->get_ref<const std::string&>())
                                               : std::optional<chat::ReasoningFormat>();
        if (!known) {
            return refuse("Field 'reasoning_format': must be none, auto, deepseek or deepseek-legacy");
        }
        request->reasoning_format = *known;
    }
    FORESAY_TRY(const std::optional<bool> parse, flag(body, "parse_tool_calls"));
    request->parse_calls = parse.value_or(options.parse_replies);
    if (!options.parse_replies) {
        request->reasoning_format = chat::ReasoningFormat::kNone;
    }
    return ok();
}

}  // namespace

std::optional<chat::ReasoningFormat> reasoning_format_of(std::string_view name) {
    for (const auto& [known, format] : kFormats) {
        if (name == known) {
            return format;
        }
    }
    return std::nullopt;
}

const char* name_of(chat::ReasoningFormat format) {
    for (const auto& [name, known] : kFormats) {
        if (format == known) {
            return name;
        }
    }
    return "auto";
}

Result<ChatRequest> parse_chat(std::string_view body, const ChatOptions& options) {
    FORESAY_TRY(const Json ordered, parse_ordered(body));
    ChatRequest request;
    if (const Json* messages = find(ordered, "messages"); messages != nullptr) {
        request.chat.messages = *messages;
    } else {
        return refuse("'messages' is required");
    }
    FORESAY_CHECK_OK(parse_continuation(ordered, options, &request.chat));
    FORESAY_CHECK_OK(parse_tools(ordered, options, &request));
    FORESAY_CHECK_OK(parse_thinking(ordered, options, &request));
    FORESAY_CHECK_OK(parse_budget(ordered, options, &request));
    return request;
}

}  // namespace foresay::server
