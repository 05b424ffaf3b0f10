#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace foresay {

void assert_failed(const char* condition, const char* file, int line) {
    std::fprintf(stderr, "foresay: internal error: %s at %s:%d; please report this\n", condition, file, line);
    std::abort();
}

}  // namespace foresay
