// The tokenizer of a GGUF model: text to ids and back, special tokens, token classes.
// Must not know weights, sampling or HTTP. One implementation class per kind (SPM, BPE) behind this interface.
// Source: shared/spec/tokenizers.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foresay::gguf {
class File;
}

namespace foresay::vocab {

using TokenId = int32_t;
inline constexpr TokenId kNoToken = -1;

enum class Kind { kSpm, kBpe };

class Vocab {
  public:
    /// Reads tokenizer.* from the file and checks it. Errors: unsupported kind or pre-tokenizer (named), inconsistent
    /// arrays.
    static Result<std::shared_ptr<const Vocab>> load(const gguf::File& file);
    virtual ~Vocab() = default;

    virtual Kind kind() const = 0;
    virtual int32_t n_tokens() const = 0;

    /// Text to ids. add_special: BOS/EOS as the file asks; parse_special: special tokens in the text become their ids.
    /// Invalid UTF-8 is encoded through byte tokens or U+FFFD as the spec says. Errors: none for any bytes but out of
    /// memory. Threads: const, any number of callers.
    virtual std::vector<TokenId> encode(std::string_view text, bool add_special, bool parse_special) const = 0;
    /// The bytes of one token. special: control tokens are rendered as their text, otherwise as nothing.
    /// Ids outside the vocabulary give an empty string.
    virtual std::string piece(TokenId id, bool special) const = 0;
    /// Text of a sequence (spec section 7.2: leading-space rule, special tokens kept or dropped).
    virtual std::string decode(std::span<const TokenId> ids, bool remove_special, bool unparse_special) const = 0;

    virtual bool is_control(TokenId id) const = 0;
    /// End of generation: EOS, EOT and their kin (spec section 8).
    virtual bool is_eog(TokenId id) const = 0;
    virtual bool is_byte(TokenId id) const = 0;
    virtual TokenId bos() const = 0;
    virtual TokenId eos() const = 0;
    virtual TokenId eot() const = 0;
    virtual TokenId newline() const = 0;
    virtual bool adds_bos() const = 0;
    virtual bool adds_eos() const = 0;
    /// The stored text of a token as in tokenizer.ggml.tokens (not decoded); empty outside the vocabulary.
    virtual std::string_view text(TokenId id) const = 0;
    /// All end-of-generation ids, ascending.
    virtual std::span<const TokenId> eog_tokens() const = 0;
    /// Tokens that the model file suppresses (tokenizer.ggml.suppress_tokens or the spec's equivalent), ascending; may
    /// be empty.
    virtual std::span<const TokenId> suppressed() const = 0;
    /// tokenizer.chat_template, empty when absent.
    virtual std::string_view chat_template() const = 0;

    /// tokenizer.chat_template.NAME: (NAME, text) of each further template, in file order.
    virtual std::span<const std::pair<std::string, std::string>> named_chat_templates() const { return {}; }
};

/// Collects bytes and hands out whole characters: streaming must never cut a UTF-8 sequence.
class Utf8Stream {
  public:
    /// Adds bytes; returns what can be sent now. Bytes that can never become valid are replaced by U+FFFD.
    std::string push(std::string_view bytes);
    /// The rest at the end of a text: an incomplete sequence becomes U+FFFD.
    std::string finish();

    bool has_pending() const { return !pending_.empty(); }

  private:
    std::string pending_;
};

}  // namespace foresay::vocab
