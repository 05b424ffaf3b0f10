// Turns pieces into text that may be shown: whole characters only, and nothing that may be the beginning of a stop
// string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "vocab/vocab.h"

namespace foresay::engine {

class TextOut {
  public:
    /// Empty stop strings are dropped: they would end every text at once.
    explicit TextOut(std::vector<std::string> stops);

    struct Step {
        std::string text;      ///< may be shown now
        bool stopped = false;  ///< a stop string was met; text ends before it
        std::string stopping_word;
    };

    /// Adds the bytes of one token.
    Step push(std::string_view piece);
    /// The rest when generation ends for another reason: what was withheld may now be shown.
    std::string finish();

  private:
    std::vector<std::string> stops_;
    vocab::Utf8Stream utf8_;
    std::string withheld_;
};

}  // namespace foresay::engine
