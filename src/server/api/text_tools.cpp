#include "server/api/text_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/api/errors.h"
#include "server/api/json.h"
#include "server/api/parse_prompt.h"

namespace foresay::server {
namespace {

/// A flag of another type counts as absent here, as in the peer.
bool flag(const JsonIn& object, const char* name, bool fallback) {
    const auto it = object.find(name);
    return it != object.end() && it->is_boolean() ? it->get<bool>() : fallback;
}

Result<Tokens> tokens_of(const JsonIn& object, const vocab::Vocab& vocab) {
    const auto content = object.find("content");
    if (content == object.end() || content->is_null()) {
        return Tokens{};
    }
    const bool is_list = content->is_array() && std::all_of(content->begin(), content->end(), [](const JsonIn& v) {
                             return v.is_string() || v.is_number_integer();
                         });
    if (!content->is_string() && !is_list) {
        return error(Code::kInvalidArgument,
                     fmt::format("Field 'content': type must be a string or a list of strings and tokens, but is {}",
                                 content->is_array() ? "a list of others" : content->type_name()));
    }
    return parse_mixed(*content, vocab, flag(object, "add_special", false), flag(object, "parse_special", true));
}

/// Text, or the bytes of a piece that isn't valid UTF-8.
Json piece_json(const std::string& piece) {
    if (valid_utf8_prefix(piece).size() == piece.size()) {
        return piece;
    }
    Json bytes = Json::array();
    for (const char c : piece) {
        bytes.push_back(static_cast<unsigned char>(c));
    }
    return bytes;
}

http::HttpReply json_reply(const Json& value) {
    http::HttpReply reply;
    reply.body = dump(value);
    return reply;
}

}  // namespace

http::HttpReply tokenize(const App& app, const std::string& body) {
    JsonIn object;
    if (Status parsed = parse_object(body, &object); !parsed) {
        return error_reply(to_api_error(parsed.error()));
    }
    const vocab::Vocab& vocab = *app.parse.vocab;
    Result<Tokens> tokens = tokens_of(object, vocab);
    if (!tokens) {
        return error_reply(to_api_error(tokens.error()));
    }
    if (!flag(object, "with_pieces", false)) {
        return json_reply(Json{{"tokens", *tokens}});
    }
    Json list = Json::array();
    for (const vocab::TokenId id : *tokens) {
        list.push_back({{"id", id}, {"piece", piece_json(vocab.piece(id, true))}});
    }
    return json_reply(Json{{"tokens", std::move(list)}});
}

http::HttpReply detokenize(const App& app, const std::string& body) {
    JsonIn object;
    if (Status parsed = parse_object(body, &object); !parsed) {
        return error_reply(to_api_error(parsed.error()));
    }
    const auto tokens = object.find("tokens");
    if (tokens == object.end() || tokens->is_null()) {
        return json_reply(Json{{"content", ""}});
    }
    if (!tokens->is_array()) {
        return error_reply(
            make_api_error(400, fmt::format("Field 'tokens': type must be array, but is {}", tokens->type_name())));
    }
    Result<Tokens> ids = parse_ids(*tokens, *app.parse.vocab);
    if (!ids) {
        return error_reply(to_api_error(ids.error()));
    }
    return json_reply(Json{{"content", app.parse.vocab->decode(*ids, false, true)}});
}

}  // namespace foresay::server
