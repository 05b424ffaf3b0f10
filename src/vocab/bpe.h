// Byte-pair encoding (`gpt2`, `gemma4`): words from the pre-tokenizer, merges by rank. Source:
// shared/spec/tokenizers.md, sections 4 and 5.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "vocab/blank_words.h"
#include "vocab/common.h"
#include "vocab/merge.h"
#include "vocab/pretokenize.h"

namespace foresay::vocab {

/// The merge list: (left id, right id) -> rank and id of the joined token.
class MergeTable {
  public:
    /// Errors: bad_file, naming the merge, when a part or the joined text isn't a token.
    static Result<MergeTable> create(const std::vector<std::string_view>& merges, const TokenTable& tokens);

    Merge find(TokenId left, TokenId right) const;

  private:
    struct Slot {
        uint64_t key = kEmpty;
        Merge merge;
    };

    static constexpr uint64_t kEmpty = ~uint64_t{0};  ///< no pair: ids aren't negative
    static uint64_t key_of(TokenId left, TokenId right);
    size_t home(uint64_t key) const;

    std::vector<Slot> slots_;  ///< open addressing, a power of two, at most three quarters full
};

class BpeVocab final : public CommonVocab {
  public:
    BpeVocab(Content content, uint8_t pre_flags, MergeTable merges, std::unique_ptr<const PreTokenizer> pre_tokenizer);

    Kind kind() const override { return Kind::kBpe; }

  private:
    void encode_fragment(std::string_view raw, FragmentPlace place, std::vector<TokenId>* out) const override;
    void encode_text(std::string_view text, bool has_surrogates, std::vector<TokenId>* out) const;
    void encode_word(std::string_view word, MergeQueue* queue, std::vector<TokenId>* out) const;
    void encode_byte_word(std::string_view word, MergeQueue* queue, std::vector<TokenId>* out) const;
    void encode_raw_word(std::string_view word, MergeQueue* queue, std::vector<TokenId>* out) const;
    void encode_metaspace_line(std::string_view line, MergeQueue* queue, std::vector<TokenId>* out) const;
    void merge(MergeQueue* queue) const;

    uint8_t pre_flags_;
    MergeTable merges_;
    std::unique_ptr<const PreTokenizer> pre_tokenizer_;
    std::array<TokenId, 256> byte_symbols_{};  ///< the token of each byte's printable form
    BlankWords blank_words_;                   ///< for raw words: a whole line would be one word otherwise
    std::array<TokenId, 256> byte_tokens_{};   ///< `<0xHH>`
};

}  // namespace foresay::vocab
