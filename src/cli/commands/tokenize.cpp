// foresay tokenize: a text's tokens, one a line, or as a list of ids.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "gguf/gguf.h"
#include "vocab/vocab.h"

namespace foresay::cli {
namespace {

/// The token's bytes as a quoted string; bytes that are no UTF-8 by themselves as \xHH.
std::string quoted(const std::string& piece) {
    vocab::Utf8Stream stream;
    const std::string whole = stream.push(piece);
    if (whole == piece && !stream.has_pending()) {
        return nlohmann::json(piece).dump();
    }
    std::string text;
    for (const char byte : piece) {
        text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    return '"' + text + '"';
}

void print_ids(const std::vector<vocab::TokenId>& ids) {
    std::string text;
    for (const vocab::TokenId id : ids) {
        text += fmt::format("{}{}", text.empty() ? "" : ", ", id);
    }
    fmt::print("[{}]\n", text);
}

Result<std::vector<vocab::TokenId>> tokenize(const Options& options, std::shared_ptr<const vocab::Vocab>* vocab) {
    FORESAY_TRY(const std::string text, prompt_text(options.local));
    FORESAY_TRY(const auto file, gguf::File::open(options.engine.model));
    FORESAY_TRY(*vocab, vocab::Vocab::load(*file));
    return (*vocab)->encode(text, options.local.add_bos, options.local.parse_special);
}

}  // namespace

int tokenize_command(const Options& options) {
    std::shared_ptr<const vocab::Vocab> vocab;
    const auto ids = tokenize(options, &vocab);
    if (!ids) {
        log::error("{}", ids.error().to_string());
        return 1;
    }
    if (options.local.ids_only) {
        print_ids(*ids);
        return 0;
    }
    if (options.local.json) {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const vocab::TokenId id : *ids) {
            list.push_back({{"id", id}, {"piece", vocab->piece(id, true)}});
        }
        fmt::print("{}\n", list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
        return 0;
    }
    for (const vocab::TokenId id : *ids) {
        fmt::print("{:>7} {}\n", id, quoted(vocab->piece(id, true)));
    }
    log::info("{} tokens", ids->size());
    return 0;
}

}  // namespace foresay::cli
