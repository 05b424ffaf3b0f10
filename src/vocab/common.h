// What every kind shares: the encode frame, pieces, decoding, token classes. Kinds add encode_fragment.
// Source: shared/spec/tokenizers.md, sections 3.1 and 7.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vocab/partition.h"
#include "vocab/special.h"
#include "vocab/token_table.h"
#include "vocab/vocab.h"

namespace foresay::vocab {

struct Settings {
    bool add_bos = false;
    bool add_eos = false;
    bool add_space_prefix = false;
    bool clean_spaces = false;
    bool escape_spaces = false;  ///< tokens hold U+2581 for blanks (SPM and the Gemma 4 kind of BPE)
    bool byte_level = false;     ///< normal tokens are spelled in the printable byte map (section 4.1, step 3)
};

/// Everything read from the file, fixed up, before the kind adds its own tables.
struct Content {
    TokenTable tokens;
    SpecialIds special;
    Settings settings;
    std::vector<TokenId> eog;
    std::vector<TokenId> suppressed;
    std::string chat_template;
    std::vector<std::pair<std::string, std::string>> named_chat_templates;
};

/// Where the encoder stands when it reaches a fragment.
struct FragmentPlace {
    bool after_special = true;  ///< at the start of the text or right after a special token
};

class CommonVocab : public Vocab {
  public:
    int32_t n_tokens() const override { return content_.tokens.size(); }

    std::vector<TokenId> encode(std::string_view text, bool add_special, bool parse_special) const override;
    std::string piece(TokenId id, bool special) const override;
    std::string decode(std::span<const TokenId> ids, bool remove_special, bool unparse_special) const override;

    bool is_control(TokenId id) const override { return content_.tokens.has(id, kControl); }

    bool is_eog(TokenId id) const override;

    bool is_byte(TokenId id) const override { return content_.tokens.has(id, kByte); }

    const SpecialIds& special() const { return content_.special; }

    TokenId bos() const override { return content_.special.bos; }

    TokenId eos() const override { return content_.special.eos; }

    TokenId eot() const override { return content_.special.eot; }

    TokenId newline() const override { return newline_; }

    bool adds_bos() const override { return content_.settings.add_bos; }

    bool adds_eos() const override { return content_.settings.add_eos; }

    std::string_view text(TokenId id) const override { return content_.tokens.text(id); }

    std::span<const TokenId> eog_tokens() const override { return content_.eog; }

    std::span<const TokenId> suppressed() const override { return content_.suppressed; }

    std::string_view chat_template() const override { return content_.chat_template; }

    std::span<const std::pair<std::string, std::string>> named_chat_templates() const override {
        return content_.named_chat_templates;
    }

  protected:
    explicit CommonVocab(Content content);
    /// Appends the ids of one raw fragment.
    virtual void encode_fragment(std::string_view raw, FragmentPlace place, std::vector<TokenId>* out) const = 0;

    const TokenTable& tokens() const { return content_.tokens; }

    const Settings& settings() const { return content_.settings; }

    void set_newline(TokenId id) { newline_ = id; }

  private:
    std::string_view shown(TokenId id, bool special) const;
    std::string render(TokenId id) const;

    Content content_;
    Partition partition_;
    TokenId newline_ = kNoToken;
    std::string pieces_;  ///< every token rendered with special = true, back to back
    std::vector<uint32_t> piece_ends_;
};

/// Section 7.2, step 3: the three passes that undo the blanks of word-level tokenizers.
std::string clean_spaces(std::string_view text);

}  // namespace foresay::vocab
