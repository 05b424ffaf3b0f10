// SentencePiece-style BPE (`llama`): merges by score, bytes as a last resort. Source: shared/spec/tokenizers.md,
// section 6.1.
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "vocab/blank_words.h"
#include "vocab/common.h"
#include "vocab/merge.h"

namespace foresay::vocab {

class SpmVocab final : public CommonVocab {
  public:
    explicit SpmVocab(Content content);

    Kind kind() const override { return Kind::kSpm; }

  private:
    void encode_fragment(std::string_view raw, FragmentPlace place, std::vector<TokenId>* out) const override;
    void encode_word(std::string_view text, MergeQueue* queue, std::vector<TokenId>* out) const;
    void emit(const Symbol& symbol, std::string_view text, std::vector<TokenId>* out) const;
    TokenId byte_token(unsigned char byte) const;

    std::array<TokenId, 256> byte_tokens_;
    BlankWords blank_words_;
    std::vector<uint32_t> priorities_;  ///< by token: the score as an integer, the highest score lowest
};

}  // namespace foresay::vocab
