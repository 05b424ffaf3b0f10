#include "server/api/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace foresay::server {
namespace {

Error refuse(std::string message) {
    return error(Code::kInvalidArgument, std::move(message));
}

const Json* find(const Json& object, const char* key) {
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
}

/// Text parts joined by a newline.
Result<std::string> join_parts(const Json& parts) {
    std::string text;
    for (size_t i = 0; i < parts.size(); ++i) {
        const Json& part = parts[i];
        const Json* type = part.is_object() ? find(part, "type") : nullptr;
        if (type == nullptr || !type->is_string()) {
            return refuse("unsupported content[].type");
        }
        const auto& name = type->get_ref<const std::string&>();
        if (name == "image_url" || name == "input_audio" || name == "input_image") {
            return refuse(fmt::format("{} input is not supported - hint: this server has a text model",
                                      name == "input_audio" ? "audio" : "image"));
        }
        const Json* value = find(part, "text");
        if ((name != "text" && name != "input_text" && name != "output_text") || value == nullptr ||
            !value->is_string()) {
            return refuse("unsupported content[].type");
        }
        text += i > 0 ? "\n" : "";
        text += value->get_ref<const std::string&>();
    }
    return text;
}

Status check_message(Json* message) {
    if (!message->is_object()) {
        return refuse("Expected each message to be an object");
    }
    const Json* role = find(*message, "role");
    if (role == nullptr || !role->is_string()) {
        return refuse("Failed to parse messages: Missing 'role' in message");
    }
    const bool is_assistant = *role == "assistant";
    const Json* calls = find(*message, "tool_calls");
    if (calls != nullptr && !calls->is_array()) {
        return refuse("Failed to parse messages: 'tool_calls' must be an array");
    }
    const Json* content = find(*message, "content");
    if (content == nullptr) {
        if (!is_assistant) {
            return refuse("All non-assistant messages must contain 'content'");
        }
        if (calls == nullptr && find(*message, "reasoning_content") == nullptr) {
            return refuse("Assistant message must contain either 'content' or 'tool_calls'!");
        }
        (*message)["content"] = "";
        return ok();
    }
    if (content->is_array()) {
        FORESAY_TRY(std::string text, join_parts(*content));
        (*message)["content"] = std::move(text);
    } else if (!content->is_string()) {
        return refuse("Expected 'content' to be a string or an array");
    }
    return ok();
}

/// Templates walk over arguments as objects: OpenAI's clients send them as text.
void open_arguments(Json* message) {
    if (!message->contains("tool_calls") || !(*message)["tool_calls"].is_array()) {
        return;
    }
    for (Json& call : (*message)["tool_calls"]) {
        if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) {
            continue;
        }
        Json& function = call["function"];
        if (function.contains("arguments") && function["arguments"].is_string()) {
            if (auto parsed = parse_ordered(function["arguments"].get_ref<const std::string&>())) {
                function["arguments"] = std::move(*parsed);
            }
        }
    }
}

Status parse_messages(const Json& body, ChatRequest* request) {
    const Json* messages = find(body, "messages");
    if (messages == nullptr) {
        return refuse("'messages' is required");
    }
    if (!messages->is_array()) {
        return refuse("Expected 'messages' to be an array");
    }
    request->messages = *messages;
    for (Json& message : request->messages) {
        FORESAY_CHECK_OK(check_message(&message));
        open_arguments(&message);
    }
    return ok();
}

bool flag(const Json& body, const char* key, bool fallback, Status* status) {
    const Json* value = find(body, key);
    if (value == nullptr) {
        return fallback;
    }
    if (!value->is_boolean()) {
        *status = Status(refuse(fmt::format("Field '{}': type must be boolean, but is {}", key, value->type_name())));
        return fallback;
    }
    return value->get<bool>();
}

Status take_prefill(const Json& body, const ChatOptions& options, ChatRequest* request) {
    Status status;
    const bool asked =
        find(body, "continue_final_message") != nullptr && *find(body, "continue_final_message") != Json(false);
    const bool add_given = find(body, "add_generation_prompt") != nullptr;
    request->add_generation_prompt = flag(body, "add_generation_prompt", true, &status);
    FORESAY_CHECK_OK(status);
    if (asked && add_given && request->add_generation_prompt) {
        return refuse("Cannot set both add_generation_prompt and continue_final_message to true.");
    }
    Json& messages = request->messages;
    const auto is_assistant = [&](size_t from_end) {
        return messages.size() >= from_end && messages[messages.size() - from_end]["role"] == "assistant";
    };
    if (!is_assistant(1) || !(asked || options.prefill_assistant)) {
        return ok();
    }
    if (is_assistant(2)) {
        return refuse("Cannot have 2 or more assistant messages at the end of the list.");
    }
    Json& last = messages.back();
    if (last.contains("tool_calls") && !last["tool_calls"].empty()) {
        return asked ? Status(refuse("Cannot continue an assistant message that contains tool calls.")) : ok();
    }
    request->prefill = last["content"].get<std::string>();
    messages.erase(messages.size() - 1);
    return ok();
}

Status parse_tools(const Json& body, const ChatOptions& options, ChatRequest* request) {
    const Json* tools = find(body, "tools");
    const Json* choice = find(body, "tool_choice");
    if (tools != nullptr && !tools->is_array()) {
        return refuse("Failed to parse tools: Expected 'tools' to be an array");
    }
    if (!options.jinja && ((tools != nullptr && !tools->empty()) || choice != nullptr)) {
        return refuse(fmt::format("{} param requires --jinja flag", tools != nullptr ? "tools" : "tool_choice"));
    }
    if (tools != nullptr) {
        for (const Json& tool : *tools) {
            const Json* function = tool.is_object() ? find(tool, "function") : nullptr;
            if (function == nullptr || !function->is_object() || find(*function, "name") == nullptr ||
                !(*function)["name"].is_string()) {
                return refuse("Failed to parse tools: each tool needs a 'function' with a 'name'");
            }
        }
        request->tools = tools->empty() ? Json() : *tools;
    }
    if (choice == nullptr) {
        return ok();
    }
    if (choice->is_object() && choice->contains("function")) {
        request->tool_choice = "required";
        const Json& function = (*choice)["function"];
        const Json* name = function.is_object() ? find(function, "name") : nullptr;
        Json chosen = Json::array();
        for (const Json& tool : request->tools.is_array() ? request->tools : Json::array()) {
            if (name != nullptr && tool["function"]["name"] == *name) {
                chosen.push_back(tool);
            }
        }
        if (chosen.empty()) {
            return refuse("Invalid tool_choice: no such tool");
        }
        request->tools = std::move(chosen);
        return ok();
    }
    if (!choice->is_string() || (*choice != "auto" && *choice != "none" && *choice != "required")) {
        return refuse(
            fmt::format("Invalid tool_choice: {}", choice->is_string() ? choice->get<std::string>() : dump(*choice)));
    }
    request->tool_choice = choice->get<std::string>();
    if (request->tool_choice == "none") {
        request->tools = Json();
    }
    return ok();
}

Status parse_thinking(const Json& body, ChatRequest* request) {
    if (const Json* kwargs = find(body, "chat_template_kwargs"); kwargs != nullptr) {
        if (!kwargs->is_object()) {
            return refuse(
                fmt::format("Field 'chat_template_kwargs': type must be object, but is {}", kwargs->type_name()));
        }
        request->kwargs = *kwargs;
        if (const Json* thinking = find(*kwargs, "enable_thinking"); thinking != nullptr) {
            if (!thinking->is_boolean()) {
                return refuse(fmt::format("invalid type for \"enable_thinking\" (expected boolean, got {})",
                                          thinking->type_name()));
            }
            request->enable_thinking = thinking->get<bool>();
        }
    }
    if (const Json* effort = find(body, "reasoning_effort"); effort != nullptr) {
        if (!effort->is_string()) {
            return refuse(fmt::format("Field 'reasoning_effort': type must be string, but is {}", effort->type_name()));
        }
        if (*effort == "none") {
            request->enable_thinking = false;
        } else if (!request->kwargs.contains("reasoning_effort")) {
            request->kwargs["reasoning_effort"] = *effort;
        }
    }
    if (const Json* format = find(body, "reasoning_format"); format != nullptr) {
        constexpr std::array<const char*, 4> kFormats{"none", "auto", "deepseek", "deepseek-legacy"};
        if (!format->is_string() ||
            std::none_of(kFormats.begin(), kFormats.end(), [&](const char* f) { return *format == f; })) {
            return refuse("Field 'reasoning_format': must be none, auto, deepseek or deepseek-legacy");
        }
        request->reasoning_format = format->get<std::string>();
    }
    return ok();
}

Status parse_format(const Json& body, ChatRequest* request) {
    if (const Json* schema = find(body, "json_schema"); schema != nullptr) {
        request->schema = *schema;
    }
    const Json* format = find(body, "response_format");
    if (format == nullptr) {
        return ok();
    }
    if (!format->is_object() || find(*format, "type") == nullptr || !(*format)["type"].is_string()) {
        return refuse("Field 'response_format': must be an object with a 'type'");
    }
    const std::string type = (*format)["type"];
    if (type == "json_object") {
        const Json* schema = find(*format, "schema");
        request->schema = schema == nullptr ? Json::object() : *schema;
    } else if (type == "json_schema") {
        const Json* named = find(*format, "json_schema");
        const Json* schema = named != nullptr && named->is_object() ? find(*named, "schema") : nullptr;
        request->schema = schema == nullptr ? Json::object() : *schema;
    } else if (type != "text") {
        return refuse(
            fmt::format("response_format type must be one of \"text\" or \"json_object\", but got: {}", type));
    }
    return ok();
}

Status check_grammar(const Json& body, const ChatRequest& request) {
    const Json* grammar = find(body, "grammar");
    const bool has_grammar =
        grammar != nullptr && grammar->is_string() && !grammar->get_ref<const std::string&>().empty();
    if (has_grammar && !request.schema.is_null()) {
        return refuse("Cannot use both json_schema and grammar");
    }
    if (has_grammar && !request.tools.is_null()) {
        return refuse("Cannot use custom grammar constraints with tools.");
    }
    return ok();
}

}  // namespace

Result<ChatRequest> parse_chat(std::string_view body, const ChatOptions& options) {
    FORESAY_TRY(const Json ordered, parse_ordered(body));
    ChatRequest request;
    FORESAY_CHECK_OK(parse_messages(ordered, &request));
    FORESAY_CHECK_OK(take_prefill(ordered, options, &request));
    FORESAY_CHECK_OK(parse_tools(ordered, options, &request));
    FORESAY_CHECK_OK(parse_thinking(ordered, &request));
    FORESAY_CHECK_OK(parse_format(ordered, &request));
    FORESAY_CHECK_OK(check_grammar(ordered, request));
    return request;
}

}  // namespace foresay::server
