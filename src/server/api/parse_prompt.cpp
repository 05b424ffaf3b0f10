#include "server/api/parse_prompt.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace foresay::server {
namespace {

Error bad_shape() {
    return error(Code::kInvalidArgument,
                 "\"prompt\" must be a string, a list of tokens, a list of mixed strings & tokens, an object with "
                 "\"prompt_string\", or a "
                 "list of these");
}

Error bad_token() {
    return error(Code::kInvalidArgument, "Prompt contains invalid tokens");
}

bool is_token_in(const JsonIn& value, const vocab::Vocab& vocab) {
    if (value.is_number_unsigned()) {
        return value.get<uint64_t>() < static_cast<uint64_t>(vocab.n_tokens());
    }
    return value.is_number_integer() && value.get<int64_t>() >= 0 && value.get<int64_t>() < vocab.n_tokens();
}

bool is_text_or_token(const JsonIn& value) {
    return value.is_string() || value.is_number_integer();
}

Result<Tokens> parse_object_prompt(const JsonIn& object, const vocab::Vocab& vocab) {
    const auto text = object.find("prompt_string");
    if (text == object.end() || !text->is_string()) {
        return bad_shape();
    }
    const auto media = object.find("multimodal_data");
    if (media != object.end() && !media->is_null() && !media->empty()) {
        return error(Code::kInvalidArgument,
                     "\"multimodal_data\" needs a multimodal model; this server has a text model");
    }
    return vocab.encode(text->get_ref<const std::string&>(), true, true);
}

Result<Tokens> parse_one(const JsonIn& prompt, const vocab::Vocab& vocab) {
    if (prompt.is_string()) {
        return vocab.encode(prompt.get_ref<const std::string&>(), true, true);
    }
    if (prompt.is_object()) {
        return parse_object_prompt(prompt, vocab);
    }
    if (!prompt.is_array() || !std::all_of(prompt.begin(), prompt.end(), is_text_or_token)) {
        return bad_shape();
    }
    if (prompt.empty()) {
        return error(Code::kInvalidArgument, "\"prompt\" must not be empty");
    }
    return parse_mixed(prompt, vocab, true, true);
}

/// A list is one prompt if it holds at least one id and else only strings.
bool is_several(const JsonIn& prompt) {
    return prompt.is_array() && !prompt.empty() &&
           std::none_of(prompt.begin(), prompt.end(), [](const JsonIn& v) { return v.is_number(); });
}

}  // namespace

Result<Tokens> parse_ids(const JsonIn& list, const vocab::Vocab& vocab) {
    Tokens ids;
    ids.reserve(list.size());
    for (const JsonIn& value : list) {
        if (!value.is_number_integer()) {
            return error(Code::kInvalidArgument,
                         fmt::format("a token must be an integer, but is {}", value.type_name()));
        }
        if (!is_token_in(value, vocab)) {
            return error(Code::kInvalidArgument, fmt::format("token {} is outside the vocabulary", value.dump()));
        }
        ids.push_back(value.get<vocab::TokenId>());
    }
    return ids;
}

Result<Tokens> parse_mixed(const JsonIn& value, const vocab::Vocab& vocab, bool add_special, bool parse_special) {
    if (value.is_string()) {
        return vocab.encode(value.get_ref<const std::string&>(), add_special, parse_special);
    }
    Tokens ids;
    bool first = true;
    for (const JsonIn& part : value) {
        if (part.is_string()) {
            const Tokens piece = vocab.encode(part.get_ref<const std::string&>(), add_special && first, parse_special);
            ids.insert(ids.end(), piece.begin(), piece.end());
        } else if (is_token_in(part, vocab)) {
            ids.push_back(part.get<vocab::TokenId>());
        } else {
            return bad_token();
        }
        first = false;
    }
    return ids;
}

Result<std::vector<Tokens>> parse_prompts(const JsonIn& prompt, const vocab::Vocab& vocab, size_t max_prompts) {
    std::vector<Tokens> prompts;
    if (!is_several(prompt)) {
        FORESAY_TRY(Tokens one, parse_one(prompt, vocab));
        prompts.push_back(std::move(one));
        return prompts;
    }
    if (prompt.size() > max_prompts) {
        return error(Code::kInvalidArgument,
                     fmt::format("\"prompt\" holds {} prompts, at most {} are allowed", prompt.size(), max_prompts));
    }
    for (const JsonIn& element : prompt) {
        FORESAY_TRY(Tokens one, parse_one(element, vocab));
        prompts.push_back(std::move(one));
    }
    return prompts;
}

}  // namespace foresay::server
