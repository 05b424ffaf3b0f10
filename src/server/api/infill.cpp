#include "server/api/infill.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/api/fields.h"

namespace foresay::server {
namespace {

using Tokens = std::vector<vocab::TokenId>;

constexpr const char* kDivider = "\n\n--- snippet ---\n\n";  // where the model has no token between files

void keep_last(Tokens* tokens, size_t n) {
    if (tokens->size() > n) {
        tokens->erase(tokens->begin(), tokens->end() - static_cast<ptrdiff_t>(n));
    }
}

void append(Tokens* to, const Tokens& more) {
    to->insert(to->end(), more.begin(), more.end());
}

Tokens extra_tokens(const InfillText& text, const vocab::Vocab& vocab, const vocab::FimTokens& fim) {
    Tokens tokens;
    if (text.extra.empty()) {
        return tokens;
    }
    const auto add_file = [&](const std::string& name, const std::string& body) {
        if (fim.file_separator != vocab::kNoToken) {
            tokens.push_back(fim.file_separator);
            append(&tokens, vocab.encode(name + "\n", false, false));
        } else {
            append(&tokens, vocab.encode(kDivider, false, false));
        }
        append(&tokens, vocab.encode(body, false, false));
    };
    if (fim.repository != vocab::kNoToken) {
        tokens.push_back(fim.repository);
        append(&tokens, vocab.encode("myproject\n", false, false));
    }
    for (const auto& [name, body] : text.extra) {
        add_file(name, body);
    }
    if (fim.file_separator != vocab::kNoToken) {
        add_file("filename", "");
    }
    return tokens;
}

Status parse_extra(const JsonIn& object, InfillText* text) {
    std::string spelt;
    const JsonIn* list = Fields(object).find({"input_extra"}, &spelt);
    if (list == nullptr) {
        return ok();
    }
    const auto refuse = [] {
        return error(Code::kInvalidArgument,
                     "Field 'input_extra': must be a list of {\"text\": string, \"filename\": string}");
    };
    if (!list->is_array()) {
        return refuse();
    }
    for (const JsonIn& chunk : *list) {
        if (!chunk.is_object() || !chunk.contains("text") || !chunk["text"].is_string() ||
            (chunk.contains("filename") && !chunk["filename"].is_string())) {
            return refuse();
        }
        text->extra.emplace_back(chunk.value("filename", std::string("tmp")), chunk["text"].get<std::string>());
    }
    return ok();
}

}  // namespace

Tokens infill_prompt(const InfillText& text, const vocab::Vocab& vocab, const vocab::FimTokens& fim, size_t room) {
    const size_t n_fixed = 3 + (vocab.adds_bos() ? 1 : 0);
    room -= std::min(room, n_fixed);
    Tokens prompt = vocab.encode(text.prompt, false, false);
    prompt.resize(std::min(prompt.size(), room / 4));
    Tokens prefix = vocab.encode(text.prefix, false, false);
    Tokens suffix = vocab.encode(text.suffix, false, false);
    // Each side may use what the other leaves of its share: three quarters before the gap, one after it.
    const size_t sides = room - prompt.size();
    const size_t suffix_share = sides / 4;
    const size_t prefix_room = sides - std::min(suffix.size(), suffix_share);
    keep_last(&prefix, prefix_room);
    suffix.resize(std::min(suffix.size(), sides - prefix.size()));
    Tokens tokens;
    if (vocab.adds_bos()) {
        tokens.push_back(vocab.bos());
    }
    Tokens extra = extra_tokens(text, vocab, fim);
    keep_last(&extra, sides - prefix.size() - suffix.size());
    append(&tokens, extra);
    tokens.push_back(fim.prefix);
    append(&tokens, prefix);
    append(&tokens, prompt);
    tokens.push_back(fim.suffix);
    append(&tokens, suffix);
    tokens.push_back(fim.middle);
    return tokens;
}

Result<CompletionRequest> parse_infill(const JsonIn& object, std::string_view body, const ParseContext& context,
                                       const vocab::FimTokens& fim, int32_t n_ctx) {
    std::string missing;
    for (const auto& [id, name] : {std::pair(fim.prefix, "prefix"), {fim.suffix, "suffix"}, {fim.middle, "middle"}}) {
        if (id == vocab::kNoToken) {
            missing += fmt::format("{}{} token is missing", missing.empty() ? "" : ", ", name);
        }
    }
    if (!missing.empty()) {
        return error(Code::kUnsupported, "Infill is not supported by this model: " + missing);
    }
    FORESAY_TRY(CompletionRequest request, parse_fields(object, body, context));
    Fields fields(object);
    for (const char* name : {"input_prefix", "input_suffix"}) {
        if (!fields.has(name)) {
            return error(Code::kInvalidArgument, fmt::format("key '{}' not found", name));
        }
    }
    InfillText text;
    fields.text({"input_prefix"}, &text.prefix);
    fields.text({"input_suffix"}, &text.suffix);
    fields.text({"prompt"}, &text.prompt);
    FORESAY_CHECK_OK(fields.status());
    FORESAY_CHECK_OK(parse_extra(object, &text));
    const int32_t n_predict = request.tasks.front().n_predict;
    const int32_t reserve = n_predict < 0 ? n_ctx / 4 : std::min(n_predict, n_ctx / 2);
    const int32_t room = std::max(n_ctx - 1 - reserve, 16);
    set_prompts(&request, {infill_prompt(text, *context.vocab, fim, static_cast<size_t>(room))});
    return request;
}

}  // namespace foresay::server
