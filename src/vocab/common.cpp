// The encode frame and decoding.
#include "vocab/common.h"

#include <algorithm>
#include <utility>

#include "vocab/byte_map.h"
#include "vocab/utf8.h"

namespace foresay::vocab {

CommonVocab::CommonVocab(Content content)
    : content_(std::move(content)), partition_(content_.tokens, partition_candidates(content_.tokens)) {
    piece_ends_.reserve(static_cast<size_t>(n_tokens()));
    for (TokenId id = 0; id < n_tokens(); ++id) {
        pieces_ += render(id);
        piece_ends_.push_back(
            static_cast<uint32_t>(pieces_.size()));  // texts are bounded (token_table.cpp), pieces aren't longer
    }
}

std::vector<TokenId> CommonVocab::encode(std::string_view text, bool add_special, bool parse_special) const {
    std::vector<TokenId> ids;
    ids.reserve(text.size() / 3 + 2);
    if (add_special && adds_bos() && bos() != kNoToken) {
        ids.push_back(bos());
    }
    FragmentPlace place;
    for (const Fragment& fragment : partition_.split(text, parse_special)) {
        if (fragment.id != kNoToken) {
            ids.push_back(fragment.id);
            place.after_special = true;
        } else {
            encode_fragment(fragment.raw, place, &ids);
            place.after_special = false;
        }
    }
    if (add_special && adds_eos() && eos() != kNoToken) {
        ids.push_back(eos());
    }
    return ids;
}

std::string CommonVocab::render(TokenId id) const {
    const std::string_view stored = text(id);
    const uint8_t attributes = content_.tokens.attributes(id);
    // The order matters: a fix-up can leave a token with several attributes, and control wins.
    if ((attributes & (kUnknown | kControl | kUserDefined)) != 0) {
        return std::string(stored);
    }
    if ((attributes & kNormal) != 0) {
        return content_.settings.byte_level ? byte_map_decode(stored) : replace_all(stored, kMetaspace, " ");
    }
    if ((attributes & kByte) != 0) {
        const int value = TokenTable::parse_byte_text(stored);
        return value < 0 ? std::string() : std::string(1, static_cast<char>(value));
    }
    return {};
}

std::string_view CommonVocab::shown(TokenId id, bool special) const {
    if (!content_.tokens.contains(id) || (!special && content_.tokens.has(id, kUnknown | kControl))) {
        return {};
    }
    const auto index = static_cast<size_t>(id);
    const size_t begin = index == 0 ? 0 : piece_ends_[index - 1];
    return std::string_view(pieces_).substr(begin, piece_ends_[index] - begin);
}

std::string CommonVocab::piece(TokenId id, bool special) const {
    return std::string(shown(id, special));
}

std::string CommonVocab::decode(std::span<const TokenId> ids, bool remove_special, bool unparse_special) const {
    bool strip_space = content_.settings.add_space_prefix;
    if (remove_special && adds_bos() && !ids.empty() && ids.front() == bos()) {
        ids = ids.subspan(1);
        strip_space = false;  // as the reference: what follows a BOS keeps its blank
    }
    if (remove_special && adds_eos() && !ids.empty() && ids.back() == eos()) {
        ids = ids.first(ids.size() - 1);
    }
    std::string text;
    for (const TokenId id : ids) {
        std::string_view part = shown(id, unparse_special);
        if (strip_space && part.substr(0, 1) == " ") {
            part.remove_prefix(1);
        }
        strip_space = false;  // the first piece only, even when it is a hidden one
        text.append(part);
    }
    return content_.settings.clean_spaces ? clean_spaces(text) : text;
}

bool CommonVocab::is_eog(TokenId id) const {
    return std::binary_search(content_.eog.begin(), content_.eog.end(), id);
}

std::string clean_spaces(std::string_view text) {
    std::string punctuated;
    punctuated.reserve(text.size());
    for (const char c : text) {
        if ((c == '?' || c == '!' || c == '.' || c == ',') && !punctuated.empty() && punctuated.back() == ' ') {
            punctuated.pop_back();
        }
        punctuated.push_back(c);
    }
    std::string quoted;
    quoted.reserve(punctuated.size());
    for (size_t i = 0; i < punctuated.size(); ++i) {
        const bool lone_quote = punctuated[i] == '\'' && i + 1 < punctuated.size() && punctuated[i + 1] == ' ' &&
                                !quoted.empty() && quoted.back() == ' ';
        if (lone_quote) {
            quoted.back() = '\'';
            ++i;
        } else {
            quoted.push_back(punctuated[i]);
        }
    }
    std::string out;
    out.reserve(quoted.size());
    for (size_t i = 0; i < quoted.size(); ++i) {
        const std::string_view rest = std::string_view(quoted).substr(i);
        const auto begins = [&](std::string_view suffix) { return rest.substr(0, suffix.size()) == suffix; };
        if (!out.empty() && out.back() == ' ' && (begins("'s") || begins("'m") || begins("'re") || begins("'ve"))) {
            out.pop_back();
        }
        out.push_back(quoted[i]);
    }
    return out;
}

}  // namespace foresay::vocab
