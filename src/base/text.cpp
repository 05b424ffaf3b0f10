#include "base/text.h"

#include <algorithm>

namespace foresay {

size_t begun_at_end(std::string_view text, std::string_view mark) {
    size_t n = mark.empty() ? 0 : std::min(mark.size() - 1, text.size());
    while (n > 0 && text.substr(text.size() - n) != mark.substr(0, n)) {
        --n;
    }
    return n;
}

}  // namespace foresay
