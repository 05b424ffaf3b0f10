// The map: printable Latin-1 stands for itself, the other 68 bytes get U+0100.. in order.
#include "vocab/byte_map.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "vocab/utf8.h"

namespace foresay::vocab {

namespace {

constexpr uint32_t kFirstMoved = 0x100;
constexpr size_t kMoved = 68;

bool stands_for_itself(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Maps {
    std::array<std::string, 256> symbols;
    std::array<unsigned char, kFirstMoved + kMoved> bytes{};  ///< by code point
    std::array<bool, kFirstMoved + kMoved> known{};

    Maps() {
        uint32_t moved = kFirstMoved;
        for (uint32_t byte = 0; byte < 256; ++byte) {
            const uint32_t cp = stands_for_itself(byte) ? byte : moved++;
            append_utf8(cp, &symbols[byte]);
            bytes[cp] = static_cast<unsigned char>(byte);
            known[cp] = true;
        }
    }
};

const Maps& maps() {
    static const Maps instance;
    return instance;
}

}  // namespace

std::string_view byte_map_symbol(unsigned char byte) {
    return maps().symbols[byte];
}

std::string byte_map_encode(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size() * 2);
    for (const char c : bytes) {
        out += byte_map_symbol(static_cast<unsigned char>(c));
    }
    return out;
}

std::string byte_map_decode(std::string_view text) {
    const Maps& map = maps();
    std::string out;
    out.reserve(text.size());
    for (size_t pos = 0; pos < text.size();) {
        const Decoded decoded = decode_utf8(text, pos);
        if (decoded.valid && decoded.cp < map.known.size() && map.known[decoded.cp]) {
            out.push_back(static_cast<char>(map.bytes[decoded.cp]));
        } else {
            out.append(text.substr(pos, decoded.bytes));
        }
        pos += decoded.bytes;
    }
    return out;
}

}  // namespace foresay::vocab
