// Ranges of code points as ranges of UTF-8 bytes. Must not know grammars.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace foresay::grammar {

struct ByteRange {
    uint8_t low = 0;
    uint8_t high = 0;
};

/// Up to four byte ranges: one character is any choice of a byte from each, in order.
struct ByteSequence {
    std::array<ByteRange, 4> bytes{};
    size_t size = 0;
};

/// Appends sequences whose union is exactly the UTF-8 of low..high without surrogates. low <= high <= 0x10FFFF.
void append_utf8_ranges(uint32_t low, uint32_t high, std::vector<ByteSequence>* out);

}  // namespace foresay::grammar
