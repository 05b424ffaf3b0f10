#include "chat/builtin.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "chat/jinja/text.h"

namespace foresay::chat {
namespace {

/// A format whose turns are a text before and a text behind the content.
struct Turns {
    std::string_view name;
    std::string_view marker;  ///< a model's template with this text is of this kind; empty: never found by its look
    std::string_view head;
    std::string_view system[2];
    std::string_view user[2];
    std::string_view assistant[2];
    std::string_view generation;
    bool trims = false;
    bool system_in_user = false;  ///< no system turn: its text and two newlines go in front of the next user text
};

// More special markers before those that they contain.
constexpr Turns kTurns[] = {
    {"phi4",
     "<|im_sep|>",
     "",
     {"<|im_start|>system<|im_sep|>", "<|im_end|>"},
     {"<|im_start|>user<|im_sep|>", "<|im_end|>"},
     {"<|im_start|>assistant<|im_sep|>", "<|im_end|>"},
     "<|im_start|>assistant<|im_sep|>"},
    {"chatml",
     "<|im_start|>",
     "",
     {"<|im_start|>system\n", "<|im_end|>\n"},
     {"<|im_start|>user\n", "<|im_end|>\n"},
     {"<|im_start|>assistant\n", "<|im_end|>\n"},
     "<|im_start|>assistant\n"},
    {"llama3",
     "<|start_header_id|>",
     "",
     {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
     {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
     "<|start_header_id|>assistant<|end_header_id|>\n\n",
     true},
    {"llama4",
     "<|header_start|>",
     "",
     {"<|header_start|>system<|header_end|>\n\n", "<|eot|>"},
     {"<|header_start|>user<|header_end|>\n\n", "<|eot|>"},
     {"<|header_start|>assistant<|header_end|>\n\n", "<|eot|>"},
     "<|header_start|>assistant<|header_end|>\n\n",
     true},
    {"gemma",
     "<start_of_turn>",
     "",
     {"", ""},
     {"<start_of_turn>user\n", "<end_of_turn>\n"},
     {"<start_of_turn>model\n", "<end_of_turn>\n"},
     "<start_of_turn>model\n",
     true,
     true},
    {"granite",
     "<|start_of_role|>",
     "",
     {"<|start_of_role|>system<|end_of_role|>", "<|end_of_text|>\n"},
     {"<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>\n"},
     {"<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>\n"},
     "<|start_of_role|>assistant<|end_of_role|>"},
    {"command-r",
     "<|START_OF_TURN_TOKEN|>",
     "",
     {"<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
     {"<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
     {"<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
     true},
    {"kimi-k2",
     "<|im_middle|>",
     "",
     {"<|im_system|>system<|im_middle|>", "<|im_end|>"},
     {"<|im_user|>user<|im_middle|>", "<|im_end|>"},
     {"<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"},
     "<|im_assistant|>assistant<|im_middle|>"},
    {"seed_oss",
     "<seed:bos>",
     "",
     {"<seed:bos>system\n", "<seed:eos>"},
     {"<seed:bos>user\n", "<seed:eos>"},
     {"<seed:bos>assistant\n", "<seed:eos>"},
     "<seed:bos>assistant\n",
     true},
    {"gpt-oss",
     "<|channel|>",
     "",
     {"<|start|>system<|message|>", "<|end|>"},
     {"<|start|>user<|message|>", "<|end|>"},
     {"<|start|>assistant<|channel|>final<|message|>", "<|end|>"},
     "<|start|>assistant"},
    {"chatglm4",
     "[gMASK]<sop>",
     "[gMASK]<sop>",
     {"<|system|>\n", ""},
     {"<|user|>\n", ""},
     {"<|assistant|>\n", ""},
     "<|assistant|>\n"},
    {"exaone3",
     "[|endofturn|]",
     "",
     {"[|system|]", "[|endofturn|]\n"},
     {"[|user|]", "\n"},
     {"[|assistant|]", "[|endofturn|]\n"},
     "[|assistant|]",
     true},
    {"openchat",
     "GPT4 Correct ",
     "",
     {"", "<|end_of_turn|>"},
     {"GPT4 Correct User: ", "<|end_of_turn|>"},
     {"GPT4 Correct Assistant: ", "<|end_of_turn|>"},
     "GPT4 Correct Assistant:"},
    {"deepseek3",
     "<｜Assistant｜>",
     "",
     {"", "\n\n"},
     {"<｜User｜>", ""},
     {"<｜Assistant｜>", "<｜end▁of▁sentence｜>"},
     "<｜Assistant｜>"},
    {"deepseek2",
     "'Assistant: ' + message['content'] + eos_token",
     "",
     {"", "\n\n"},
     {"User: ", "\n\n"},
     {"Assistant: ", "<｜end▁of▁sentence｜>"},
     "Assistant:"},
    {"deepseek",
     "### Instruction:",
     "",
     {"", ""},
     {"### Instruction:\n", "\n"},
     {"### Response:\n", "\n<|EOT|>\n"},
     "### Response:\n"},
    {"vicuna", "USER: ", "", {"", "\n\n"}, {"USER: ", "\n"}, {"ASSISTANT: ", "</s>\n"}, "ASSISTANT:"},
    {"minicpm", "<用户>", "", {"", ""}, {"<用户>", "<AI>"}, {"", ""}, "", true},
    {"rwkv-world",
     "rwkv-world",
     "",
     {"System: ", "\n\n"},
     {"User: ", "\n\n"},
     {"Assistant: ", "\n\n"},
     "Assistant:",
     true},
    {"phi3",
     "<|end|>",
     "",
     {"<|system|>\n", "<|end|>\n"},
     {"<|user|>\n", "<|end|>\n"},
     {"<|assistant|>\n", "<|end|>\n"},
     "<|assistant|>\n"},
    {"zephyr",
     "<|user|>",
     "",
     {"<|system|>\n", "<|endoftext|>\n"},
     {"<|user|>\n", "<|endoftext|>\n"},
     {"<|assistant|>\n", "<|endoftext|>\n"},
     "<|assistant|>\n"},
    {"falcon3", "", "", {"<|system|>\n", "\n"}, {"<|user|>\n", "\n"}, {"<|assistant|>\n", "\n"}, "<|assistant|>\n"},
};

/// The formats around [INST]: a user turn stays open from the system text to the end of the user's.
struct Inst {
    std::string_view name;
    std::string_view first;  ///< opens the first turn
    std::string_view open;   ///< opens the others
    std::string_view system[2];
    std::string_view close;
    std::string_view reply;  ///< before the assistant's text
    bool trims = false;      ///< every text
    bool trims_reply = false;
};

constexpr Inst kInst[] = {
    {"llama2", "[INST] ", "[INST] ", {"", "\n"}, " [/INST]", ""},
    {"llama2-sys", "[INST] ", "[INST] ", {"<<SYS>>\n", "\n<</SYS>>\n\n"}, " [/INST]", ""},
    {"llama2-sys-bos", "[INST] ", "<s>[INST] ", {"<<SYS>>\n", "\n<</SYS>>\n\n"}, " [/INST]", ""},
    {"llama2-sys-strip", "[INST] ", "[INST] ", {"<<SYS>>\n", "\n<</SYS>>\n\n"}, " [/INST]", "", true},
    {"mistral-v1", " [INST] ", " [INST] ", {"", "\n\n"}, " [/INST]", " "},
    {"mistral-v3", "[INST] ", "[INST] ", {"", "\n\n"}, "[/INST]", " ", false, true},
    {"mistral-v3-tekken", "[INST]", "[INST]", {"", "\n\n"}, "[/INST]", ""},
};

/// Mistral's v7: a system turn of its own.
constexpr Turns kMistral7[] = {
    {"mistral-v7", "", "", {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"}, {"[INST] ", "[/INST]"}, {" ", "</s>"}, ""},
    {"mistral-v7-tekken", "", "", {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}, {"[INST]", "[/INST]"}, {"", "</s>"}, ""},
};

const Turns* find_turns(std::string_view name) {
    const auto named = [&](const Turns& format) { return format.name == name; };
    if (const auto* found = std::find_if(std::begin(kTurns), std::end(kTurns), named); found != std::end(kTurns)) {
        return found;
    }
    const auto* found = std::find_if(std::begin(kMistral7), std::end(kMistral7), named);
    return found != std::end(kMistral7) ? found : nullptr;
}

const Inst* find_inst(std::string_view name) {
    const auto* found = std::find_if(std::begin(kInst), std::end(kInst), [&](const Inst& f) { return f.name == name; });
    return found != std::end(kInst) ? found : nullptr;
}

std::string_view content_of(const Json& message, bool trims) {
    const std::string_view text = message["content"].get_ref<const std::string&>();
    return trims ? jinja::strip(text, jinja::Side::kBoth) : text;
}

std::string in_turns(const Turns& format, const Json& messages, bool add_generation_prompt) {
    std::string out(format.head);
    std::string pending;
    for (const Json& message : messages) {
        const std::string_view content = content_of(message, format.trims);
        const bool is_system = message["role"] == "system";
        if (is_system && format.system_in_user) {
            pending.append(content).append("\n\n");
            continue;
        }
        const bool is_assistant = message["role"] == "assistant";
        const auto& around = is_system ? format.system : is_assistant ? format.assistant : format.user;
        out.append(around[0]);
        if (!is_system && !is_assistant) {
            out.append(pending);
            pending.clear();
        }
        out.append(content).append(around[1]);
    }
    return add_generation_prompt ? out.append(format.generation) : out;
}

std::string in_inst(const Inst& format, const Json& messages) {
    std::string out(format.first);
    bool is_open = true;
    for (const Json& message : messages) {
        const std::string_view content = content_of(message, format.trims);
        if (message["role"] == "assistant") {
            out.append(format.reply)
                .append(format.trims_reply ? jinja::strip(content, jinja::Side::kBoth) : content)
                .append("</s>");
            is_open = false;
            continue;
        }
        if (!is_open) {
            out.append(format.open);
            is_open = true;
        }
        if (message["role"] == "system") {
            out.append(format.system[0]).append(content).append(format.system[1]);
        } else {
            out.append(content).append(format.close);
        }
    }
    return out;
}

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

}  // namespace

std::vector<std::string_view> builtin_names() {
    std::vector<std::string_view> names;
    for (const Turns& format : kTurns) {
        names.push_back(format.name);
    }
    for (const Turns& format : kMistral7) {
        names.push_back(format.name);
    }
    for (const Inst& format : kInst) {
        names.push_back(format.name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

bool is_builtin(std::string_view name) {
    return find_turns(name) != nullptr || find_inst(name) != nullptr;
}

std::string_view builtin_for(std::string_view model_template) {
    if (is_builtin(model_template)) {
        return model_template;
    }
    if (has(model_template, "[SYSTEM_PROMPT]")) {
        return has(model_template, "[SYSTEM_PROMPT] ") ? "mistral-v7" : "mistral-v7-tekken";
    }
    if (has(model_template, "[INST]")) {
        if (has(model_template, "<<SYS>>")) {
            return has(model_template, "bos_token + '[INST]") || has(model_template, "bos_token + \"[INST]")
                       ? "llama2-sys-bos"
                   : has(model_template, "content.strip()") ? "llama2-sys-strip"
                                                            : "llama2-sys";
        }
        if (has(model_template, "' [INST] '") || has(model_template, "\" [INST] \"")) {
            return "mistral-v1";
        }
        return has(model_template, "\"[INST]\"") || has(model_template, "'[INST]'") ? "mistral-v3-tekken"
                                                                                    : "mistral-v3";
    }
    for (const Turns& format : kTurns) {
        if (!format.marker.empty() && has(model_template, format.marker)) {
            return format.name;
        }
    }
    return {};
}

Result<std::string> format_builtin(std::string_view name, const Json& messages, bool add_generation_prompt) {
    if (const Turns* turns = find_turns(name); turns != nullptr) {
        return in_turns(*turns, messages, add_generation_prompt);
    }
    if (const Inst* inst = find_inst(name); inst != nullptr) {
        return in_inst(*inst, messages);
    }
    return error(Code::kNotFound, fmt::format("there is no built-in chat format '{}'", name));
}

}  // namespace foresay::chat
