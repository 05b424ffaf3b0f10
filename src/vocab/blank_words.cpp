// Walks in symbols, as the encoders do: a cut-off sequence may take in bytes of a U+2581, which then isn't one.
#include "vocab/blank_words.h"

#include <algorithm>

#include "vocab/utf8.h"

namespace foresay::vocab {

namespace {

/// Calls at(pos) for every U+2581 behind a character that isn't one, until it returns true; gives that place or the
/// text's size.
template <typename Fn>
size_t find_blank_behind_text(std::string_view text, const Fn& at) {
    size_t pos = 0;
    for (bool in_word = false; pos < text.size();) {
        const bool blank = text.substr(pos, kMetaspace.size()) == kMetaspace;
        if (blank && in_word && at(pos)) {
            break;
        }
        in_word = !blank;
        pos += std::min(utf8_length_by_lead(static_cast<unsigned char>(text[pos])), text.size() - pos);
    }
    return pos;
}

}  // namespace

BlankWords::BlankWords(const TokenTable& tokens) {
    for (TokenId id = 0; id < tokens.size(); ++id) {
        const std::string_view text = tokens.text(id);
        find_blank_behind_text(text, [&](size_t pos) {
            joins_blank_[static_cast<unsigned char>(text[pos - 1])] = true;
            return false;
        });
    }
}

size_t BlankWords::first_word(std::string_view text) const {
    return find_blank_behind_text(text,
                                  [&](size_t pos) { return !joins_blank_[static_cast<unsigned char>(text[pos - 1])]; });
}

}  // namespace foresay::vocab
