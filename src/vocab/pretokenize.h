// Cuts text into the words that BPE merges within. Owns the compiled patterns of one pre-tokenizer.
// Must not know vocabularies. PCRE2 stays inside the .cpp. Source: shared/spec/tokenizers.md, section 4.1, step 2.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vocab/patterns.h"

namespace foresay::vocab {

/// A segment of the text, in bytes.
struct Word {
    size_t begin = 0;
    size_t end = 0;
};

class PreTokenizer {
  public:
    /// Compiles the steps. Errors: internal, when PCRE2 refuses a pattern of our own table.
    static Result<std::unique_ptr<const PreTokenizer>> create(std::span<const SplitStep> steps);
    ~PreTokenizer();

    /// The words of text, in order, without gaps; none is empty. text: valid UTF-8 (not checked again: PCRE2's own
    /// check would be quadratic). Threads: const, any number of callers; each thread keeps its own match data and JIT
    /// stack.
    std::vector<Word> split(std::string_view text) const;

    struct Impl;
    explicit PreTokenizer(std::unique_ptr<Impl> impl);

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace foresay::vocab
