#include "server/api/mark_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema.h"

namespace foresay::server {
namespace {

/// Code points of valid UTF-8.
std::vector<uint32_t> code_points(std::string_view text) {
    std::vector<uint32_t> out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if ((byte & 0xC0U) == 0x80U && !out.empty()) {
            out.back() = (out.back() << 6U) | (byte & 0x3FU);
        } else {
            out.push_back(byte < 0x80 ? byte : byte < 0xE0 ? byte & 0x1FU : byte < 0xF0 ? byte & 0x0FU : byte & 0x07U);
        }
    }
    return out;
}

std::string escaped(uint32_t code) {
    return fmt::format("\\U{:08X}", code);
}

/// How much of `word` has been read when `c` follows its first n code points.
size_t next_state(const std::vector<uint32_t>& word, size_t n, uint32_t c) {
    std::vector<uint32_t> seen(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(n));
    seen.push_back(c);
    for (size_t length = std::min(seen.size(), word.size()); length > 0; --length) {
        if (std::equal(seen.end() - static_cast<std::ptrdiff_t>(length), seen.end(), word.begin())) {
            return length;
        }
    }
    return 0;
}

}  // namespace

std::vector<MarkPiece> mark_pieces(const vocab::Vocab& vocab, std::string_view mark) {
    std::vector<MarkPiece> pieces;
    const auto add_text = [&](std::string_view text) {
        if (!text.empty()) {
            pieces.push_back({std::string(text), vocab::kNoToken});
        }
    };
    for (const vocab::TokenId id : vocab.encode(mark, false, true)) {
        if (!vocab.is_control(id)) {
            continue;
        }
        const std::string_view text = vocab.text(id);
        const size_t at = text.empty() ? std::string_view::npos : mark.find(text);
        if (at == std::string_view::npos) {
            continue;
        }
        add_text(mark.substr(0, at));
        if (!vocab.is_eog(id)) {
            pieces.push_back({"", id});
        }
        mark.remove_prefix(at + text.size());
    }
    add_text(mark);
    return pieces;
}

std::string mark_gbnf(const vocab::Vocab& vocab, std::string_view mark) {
    std::string out;
    for (const MarkPiece& piece : mark_pieces(vocab, mark)) {
        out += out.empty() ? "" : " ";
        out += piece.token == vocab::kNoToken ? grammar::gbnf_literal(piece.text) : fmt::format("<[{}]>", piece.token);
    }
    return out;
}

grammar::Trigger mark_trigger(const vocab::Vocab& vocab, std::string_view mark) {
    const std::vector<MarkPiece> pieces = mark_pieces(vocab, mark);
    if (pieces.empty() || pieces.front().token == vocab::kNoToken) {
        return {grammar::Trigger::Kind::kWord, pieces.empty() ? std::string(mark) : pieces.front().text,
                vocab::kNoToken};
    }
    return {grammar::Trigger::Kind::kToken, "", pieces.front().token};
}

std::string text_until(const vocab::Vocab& vocab, std::string_view end, const std::string& prefix, std::string* rules) {
    const std::vector<MarkPiece> pieces = mark_pieces(vocab, end);
    if (pieces.empty() || pieces.front().token != vocab::kNoToken) {
        return fmt::format(".* {}", mark_gbnf(vocab, end));
    }
    // An automaton that looks for the first piece: one rule per number of code points that fit.
    const std::vector<uint32_t> word = code_points(pieces.front().text);
    std::vector<uint32_t> alphabet = word;
    std::sort(alphabet.begin(), alphabet.end());
    alphabet.erase(std::unique(alphabet.begin(), alphabet.end()), alphabet.end());
    std::string others = "[^";
    for (const uint32_t c : alphabet) {
        others += escaped(c);
    }
    for (size_t n = 0; n < word.size(); ++n) {
        *rules += fmt::format("{}-{} ::= {}] {}-0", prefix, n, others, prefix);
        for (const uint32_t c : alphabet) {
            const size_t next = next_state(word, n, c);
            *rules += next == word.size() ? fmt::format(" | [{}]", escaped(c))
                                          : fmt::format(" | [{}] {}-{}", escaped(c), prefix, next);
        }
        *rules += "\n";
    }
    return fmt::format("{}-0 {}", prefix, mark_gbnf(vocab, end.substr(pieces.front().text.size())));
}

}  // namespace foresay::server
