#include "server/api/chat_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/api/openai.h"

namespace foresay::server {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";
constexpr std::string_view kBlank = " \t\r\n";

std::string_view trimmed_front(std::string_view text) {
    const size_t begin = text.find_first_not_of(kBlank);
    return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

/// The text without an end that may be the beginning of the tag.
std::string_view without_begun(std::string_view text, std::string_view tag) {
    for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n) {
        if (text.substr(text.size() - n) == tag.substr(0, n)) {
            return text.substr(0, text.size() - n);
        }
    }
    return text;
}

std::string_view without_blank_end(std::string_view text) {
    return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

ChatParts split_thoughts(std::string_view text, bool is_partial, bool thinks_first) {
    ChatParts parts;
    std::string_view rest = trimmed_front(text);
    if (is_partial && rest.size() < kOpen.size() && kOpen.starts_with(rest)) {
        return parts;  // may still become the tag
    }
    if (!thinks_first) {
        if (!rest.starts_with(kOpen)) {
            parts.content = text;
            return parts;
        }
        rest.remove_prefix(kOpen.size());
    } else if (rest.starts_with(kOpen)) {
        rest.remove_prefix(kOpen.size());
    }
    rest = trimmed_front(rest);
    const size_t close = rest.find(kClose);
    if (close == std::string_view::npos) {
        parts.reasoning = without_blank_end(is_partial ? without_begun(rest, kClose) : rest);
        return parts;
    }
    parts.reasoning = without_blank_end(rest.substr(0, close));
    parts.content = trimmed_front(rest.substr(close + kClose.size()));
    return parts;
}

/// What `now` has beyond `before`; nothing when it isn't a continuation (a parse that changed its mind is never taken
/// back: what was sent stays).
std::string gained(const std::string& before, const std::string& now) {
    return now.size() > before.size() && now.starts_with(before) ? now.substr(before.size()) : std::string();
}

}  // namespace

ChatParse parse_thoughts(bool thinks_first) {
    return [thinks_first](std::string_view text, bool is_partial) {
        return split_thoughts(text, is_partial, thinks_first);
    };
}

ChatParse parse_nothing() {
    return [](std::string_view text, bool) {
        ChatParts parts;
        parts.content = text;
        return parts;
    };
}

ChatParse parse_tagged_calls(ChatParse inner) {
    return [inner = std::move(inner)](std::string_view text, bool is_partial) {
        constexpr std::string_view kBegin = "<tool_call>";
        constexpr std::string_view kEnd = "</tool_call>";
        ChatParts parts = inner(text, is_partial);
        const std::string whole = std::exchange(parts.content, {});
        std::string_view rest = whole;
        for (;;) {
            const size_t begin = rest.find(kBegin);
            if (begin == std::string_view::npos) {
                const std::string_view tail = is_partial ? without_begun(rest, kBegin) : rest;
                // Blanks around calls are the template's, not the answer's.
                parts.content += parts.tool_calls.empty() && !is_partial ? tail : without_blank_end(tail);
                return parts;
            }
            const size_t end = rest.find(kEnd, begin);
            parts.content += without_blank_end(rest.substr(0, begin));
            if (end == std::string_view::npos) {
                if (!is_partial) {
                    parts.content += rest.substr(begin);
                }
                return parts;
            }
            const std::string_view inside = rest.substr(begin + kBegin.size(), end - begin - kBegin.size());
            const Json call = parse_ordered(inside).value_or(Json());
            if (call.is_object() && call.contains("name") && call["name"].is_string()) {
                const Json arguments = call.contains("arguments") ? call["arguments"] : Json::object();
                parts.tool_calls.push_back({"", call["name"].get<std::string>(),
                                            arguments.is_string() ? arguments.get<std::string>() : dump(arguments)});
            } else {
                parts.content += rest.substr(begin, end + kEnd.size() - begin);
            }
            rest.remove_prefix(end + kEnd.size());
        }
    };
}

ChatDelta ChatText::push(std::string_view text) {
    text_ += text;
    return grow(parse_(text_, true));
}

ChatDelta ChatText::finish() {
    return grow(parse_(text_, false));
}

ChatDelta ChatText::grow(ChatParts now) {
    ChatDelta delta;
    delta.reasoning = gained(parts_.reasoning, now.reasoning);
    delta.content = gained(parts_.content, now.content);
    parts_.reasoning += delta.reasoning;
    parts_.content += delta.content;
    for (size_t i = 0; i < now.tool_calls.size(); ++i) {
        ChatDelta::Call call;
        call.index = i;
        if (i == parts_.tool_calls.size()) {
            ToolCall begin = now.tool_calls[i];
            begin.arguments.clear();
            if (begin.id.empty()) {
                begin.id = random_id("call_");
            }
            parts_.tool_calls.push_back(begin);
            call.begin = std::move(begin);
        }
        call.arguments = gained(parts_.tool_calls[i].arguments, now.tool_calls[i].arguments);
        parts_.tool_calls[i].arguments += call.arguments;
        if (call.begin || !call.arguments.empty()) {
            delta.calls.push_back(std::move(call));
        }
    }
    return delta;
}

}  // namespace foresay::server
