#include "chat/messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace foresay::chat {
namespace {

Error invalid(std::string message) {
    return error(Code::kInvalidArgument, std::move(message));
}

std::string dumped(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_text(const Json& object, const char* key) {
    return object.contains(key) && object[key].is_string();
}

Result<std::string> joined_parts(const Json& parts) {
    std::string text;
    bool first = true;
    for (const Json& part : parts) {
        if (!part.is_object() || !is_text(part, "type")) {
            return invalid("unsupported content[].type");
        }
        const auto& type = part["type"].get_ref<const std::string&>();
        if (type == "image_url" || type == "input_audio" || type == "input_video") {
            return invalid(fmt::format("{} input is not supported by this model", type == "image_url"     ? "image"
                                                                                  : type == "input_audio" ? "audio"
                                                                                                          : "video"));
        }
        // "refusal" parts and their like aren't text that the model wrote.
        if (type != "text" && type != "input_text" && type != "output_text") {
            return invalid(fmt::format("unsupported content[].type: '{}'", type));
        }
        if (!is_text(part, "text")) {
            return invalid("a content part of type 'text' needs a string 'text'");
        }
        text += first ? "" : "\n";
        first = false;
        text += part["text"].get_ref<const std::string&>();
    }
    return text;
}

Result<Json> checked_tool_calls(const Json& calls) {
    if (!calls.is_array()) {
        return invalid("Expected 'tool_calls' to be an array");
    }
    Json out = Json::array();
    for (const Json& call : calls) {
        if (!call.is_object() || !call.contains("function") || !call["function"].is_object() ||
            !is_text(call["function"], "name")) {
            return invalid("a tool call needs a 'function' with a string 'name'");
        }
        Json kept = call;
        kept["type"] = "function";
        Json& function = kept["function"];
        if (!function.contains("arguments") || function["arguments"].is_null()) {
            function["arguments"] = Json::object();
        } else if (!function["arguments"].is_string() && !function["arguments"].is_object()) {
            return invalid("'arguments' of a tool call must be a string or an object");
        }
        if (kept.contains("id") && !kept["id"].is_string()) {
            return invalid("'id' of a tool call must be a string");
        }
        out.push_back(std::move(kept));
    }
    return out;
}

Status check_content(Json* message, bool is_assistant, bool has_calls) {
    Json& content = (*message)["content"];
    if (content.is_null()) {
        if (is_assistant && !has_calls) {
            return invalid("Assistant message must contain either 'content' or 'tool_calls'!");
        }
        if (!is_assistant) {
            return invalid("All non-assistant messages must contain 'content'");
        }
        content = "";
        return ok();
    }
    if (content.is_string()) {
        return ok();
    }
    if (!content.is_array()) {
        return invalid("Expected 'content' to be a string or an array");
    }
    FORESAY_TRY(std::string text, joined_parts(content));
    content = std::move(text);
    return ok();
}

/// Arguments as an object where they are the text of one, or as text.
void convert_arguments(Json* call, bool as_object) {
    Json& arguments = (*call)["function"]["arguments"];
    if (as_object && arguments.is_string()) {
        const auto& text = arguments.get_ref<const std::string&>();
        // Deep values overflow the stack when they are copied; a model's own calls come back here.
        const auto n_open = std::count_if(text.begin(), text.end(), [](char c) { return c == '{' || c == '['; });
        Json parsed = n_open <= 2000 ? Json::parse(text, nullptr, false) : Json(Json::value_t::discarded);
        if (text.empty()) {
            arguments = Json::object();
        } else if (parsed.is_object()) {
            arguments = std::move(parsed);
        }
    } else if (!as_object && arguments.is_object()) {
        arguments = dumped(arguments);
    }
}

/// A call as the text that models without tools are told to write.
std::string call_text(Json call) {
    convert_arguments(&call, true);
    const Json shown = {{"name", call["function"]["name"]}, {"arguments", call["function"]["arguments"]}};
    return fmt::format("<tool_call>\n{}\n</tool_call>", dumped(shown));
}

std::string instructions(const Json& tools) {
    std::string text = "You can call functions. These are their signatures, one JSON object per line:\n<tools>\n";
    for (const Json& tool : tools) {
        text += dumped(tool) + "\n";
    }
    return text +
           "</tools>\nTo call one, write its name and arguments as a JSON object between these tags, and nothing "
           "after them:\n<tool_call>\n{\"name\": NAME, \"arguments\": {...}}\n</tool_call>";
}

/// Puts text in front of the first message's content if that is a system message, or makes one.
void add_to_system(Json* messages, const std::string& text) {
    if (!messages->empty() && (*messages)[0]["role"] == "system") {
        Json& content = (*messages)[0]["content"];
        content = content.get<std::string>() + "\n\n" + text;
        return;
    }
    messages->insert(messages->begin(), Json{{"role", "system"}, {"content", text}});
}

/// Calls and results as text, for templates that print neither.
Json without_calls(const Json& messages) {
    Json out = Json::array();
    for (Json message : messages) {
        if (message.contains("tool_calls")) {
            auto content = message["content"].get<std::string>();
            for (const Json& call : message["tool_calls"]) {
                content += content.empty() ? "" : "\n";
                content += call_text(call);
            }
            message["content"] = std::move(content);
            message.erase("tool_calls");
        } else if (message["role"] == "tool") {
            auto text = fmt::format("<tool_response>\n{}\n</tool_response>", message["content"].get<std::string>());
            if (!out.empty() && out.back().contains("(results)")) {
                out.back()["content"] = out.back()["content"].get<std::string>() + "\n" + text;
                continue;
            }
            message = Json{{"role", "user"}, {"content", std::move(text)}, {"(results)", true}};
        }
        out.push_back(std::move(message));
    }
    for (Json& message : out) {
        message.erase("(results)");
    }
    return out;
}

/// System text in front of the first user message.
Json without_system(const Json& messages) {
    Json out = Json::array();
    std::string pending;
    for (const Json& message : messages) {
        if (message["role"] == "system") {
            pending += (pending.empty() ? "" : "\n\n") + message["content"].get<std::string>();
            continue;
        }
        out.push_back(message);
        if (!pending.empty() && message["role"] == "user") {
            out.back()["content"] = pending + "\n\n" + message["content"].get<std::string>();
            pending.clear();
        }
    }
    if (!pending.empty()) {
        out.push_back(Json{{"role", "user"}, {"content", pending}});
    }
    return out;
}

}  // namespace

Result<Json> checked_messages(const Json& messages) {
    if (!messages.is_array()) {
        return messages.is_null() ? invalid("'messages' is required") : invalid("Expected 'messages' to be an array");
    }
    Json out = Json::array();
    for (const Json& message : messages) {
        if (!message.is_object()) {
            return invalid(fmt::format("Expected every message to be an object, but got {}", message.type_name()));
        }
        if (!is_text(message, "role")) {
            return invalid(message.contains("role") ? "'role' of a message must be a string"
                                                    : "Missing 'role' in a message");
        }
        Json kept = message;
        const bool is_assistant = kept["role"] == "assistant";
        const bool has_calls =
            kept.contains("tool_calls") && !kept["tool_calls"].is_null() && kept["tool_calls"] != Json::array();
        if (has_calls) {
            FORESAY_TRY(kept["tool_calls"], checked_tool_calls(kept["tool_calls"]));
        } else {
            kept.erase("tool_calls");
        }
        for (const char* key : {"reasoning_content", "name", "tool_call_id"}) {
            if (kept.contains(key) && kept[key].is_null()) {
                kept.erase(key);
            } else if (kept.contains(key) && !kept[key].is_string()) {
                return invalid(fmt::format("'{}' of a message must be a string", key));
            }
        }
        if (is_assistant && !kept.contains("content") && !has_calls) {
            return invalid("Assistant message must contain either 'content' or 'tool_calls'!");
        }
        if (!is_assistant && !kept.contains("content")) {
            return invalid("All non-assistant messages must contain 'content'");
        }
        FORESAY_CHECK_OK(check_content(&kept, is_assistant, has_calls || kept.contains("reasoning_content")));
        out.push_back(std::move(kept));
    }
    return out;
}

Result<Json> checked_tools(const Json& tools) {
    if (tools.is_null()) {
        return Json();
    }
    if (!tools.is_array()) {
        return invalid(fmt::format("Failed to parse tools: expected an array, but got {}", tools.type_name()));
    }
    for (const Json& tool : tools) {
        if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object() ||
            !is_text(tool["function"], "name")) {
            return invalid("Failed to parse tools: a tool needs a 'function' with a string 'name'");
        }
        if (tool.contains("type") && tool["type"] != "function") {
            return invalid("Failed to parse tools: only tools of type 'function' are supported");
        }
    }
    return tools.empty() ? Json() : tools;
}

Json adapted(Json messages, Json* tools, const Abilities& abilities, bool knows_developer) {
    for (Json& message : messages) {
        if (!knows_developer && message["role"] == "developer") {
            message["role"] = "system";
        }
    }
    if (!tools->is_null() && !abilities.tools) {
        add_to_system(&messages, instructions(*tools));
        *tools = Json();
        messages = without_calls(messages);  // earlier calls look as the model was just told to write them
    } else if (!abilities.tool_calls) {
        messages = without_calls(messages);
    }
    if (!abilities.system_role) {
        messages = without_system(messages);
    }
    for (Json& message : messages) {
        if (message.contains("tool_calls")) {
            for (Json& call : message["tool_calls"]) {
                convert_arguments(&call, abilities.object_arguments);
            }
        }
        if (!abilities.string_content && abilities.typed_content) {
            message["content"] = Json::array({Json{{"type", "text"}, {"text", message["content"]}}});
        }
    }
    return messages;
}

}  // namespace foresay::chat
