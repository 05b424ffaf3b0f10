#include "grammar/utf8_ranges.h"

#include <algorithm>
#include <string>

#include "grammar/gbnf.h"

namespace foresay::grammar {
namespace {

/// low..high have the same length in UTF-8. Cut until only the last n bytes vary, and these over their whole span.
void append_same_length(uint32_t low, uint32_t high, std::vector<ByteSequence>* out) {
    for (uint32_t n = 1; n < 4; ++n) {
        const uint32_t mask = (1U << (6 * n)) - 1;
        if ((low & ~mask) == (high & ~mask)) {
            continue;
        }
        if ((low & mask) != 0) {
            append_same_length(low, low | mask, out);
            append_same_length((low | mask) + 1, high, out);
            return;
        }
        if ((high & mask) != mask) {
            append_same_length(low, (high & ~mask) - 1, out);
            append_same_length(high & ~mask, high, out);
            return;
        }
    }
    std::string first;
    std::string last;
    append_utf8(&first, low);
    append_utf8(&last, high);
    ByteSequence sequence;
    sequence.size = first.size();
    for (size_t i = 0; i < first.size(); ++i) {
        sequence.bytes[i] = {static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i])};
    }
    out->push_back(sequence);
}

}  // namespace

void append_utf8_ranges(uint32_t low, uint32_t high, std::vector<ByteSequence>* out) {
    struct Span {
        uint32_t low;
        uint32_t high;
    };

    // One span per length in UTF-8, the surrogates left out.
    constexpr std::array<Span, 5> kSpans{
        {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}}};
    for (const Span& span : kSpans) {
        const uint32_t from = std::max(low, span.low);
        const uint32_t to = std::min(high, span.high);
        if (from <= to) {
            append_same_length(from, to, out);
        }
    }
}

}  // namespace foresay::grammar
