// UTF-8 decoding and repair; the streaming gate of vocab.h is in utf8_stream.cpp.
#include "vocab/utf8.h"

#include <cstring>

#include "vocab/utf8_scan.h"

namespace foresay::vocab {

Decoded decode_utf8(std::string_view text, size_t pos) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[pos + i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) {
        return {lead, 1, true};
    }
    if (lead < 0xC0 || lead > 0xF7) {
        return {};
    }
    const size_t length = utf8_length_by_lead(lead);
    if (length > text.size() - pos) {
        return {};
    }
    uint32_t cp = lead & (0xFFU >> (length + 1));
    for (size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0) != 0x80) {
            return {};
        }
        cp = (cp << 6) | (byte(i) & 0x3FU);
    }
    if (cp > 0x10FFFF) {
        return {};
    }
    return {cp, length, true};
}

void append_utf8(uint32_t cp, std::string* out) {
    const auto tail = [&](int shift) { out->push_back(static_cast<char>(0x80U | ((cp >> shift) & 0x3FU))); };
    if (cp < 0x80) {
        out->push_back(static_cast<char>(cp));
    } else if (cp < 0x800) {
        out->push_back(static_cast<char>(0xC0U | (cp >> 6)));
        tail(0);
    } else if (cp < 0x10000) {
        out->push_back(static_cast<char>(0xE0U | (cp >> 12)));
        tail(6);
        tail(0);
    } else {
        out->push_back(static_cast<char>(0xF0U | (cp >> 18)));
        tail(12);
        tail(6);
        tail(0);
    }
}

bool is_valid_utf8(std::string_view text) {
    size_t pos = 0;
    while (pos < text.size()) {
        // Most text is ASCII: eight bytes at a time.
        uint64_t word = 0;
        while (text.size() - pos >= sizeof(word)) {
            std::memcpy(&word, text.data() + pos, sizeof(word));
            if ((word & 0x8080808080808080ULL) != 0) {
                break;
            }
            pos += sizeof(word);
        }
        if (pos == text.size()) {
            break;
        }
        const Scan scan = scan_utf8(text.substr(pos));
        if (scan.state != Scan::kComplete) {
            return false;
        }
        pos += scan.bytes;
    }
    return true;
}

Repaired repair_utf8(std::string_view text) {
    Repaired repaired;
    repaired.text.reserve(text.size());
    for (size_t pos = 0; pos < text.size();) {
        const Decoded decoded = decode_utf8(text, pos);
        repaired.has_surrogates |= decoded.cp >= 0xD800 && decoded.cp < 0xE000;
        append_utf8(decoded.cp, &repaired.text);
        pos += decoded.bytes;
    }
    return repaired;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
    std::string out;
    out.reserve(text.size());
    size_t pos = 0;
    for (size_t hit = text.find(from); hit != std::string_view::npos; hit = text.find(from, pos)) {
        out.append(text.substr(pos, hit - pos)).append(to);
        pos = hit + from.size();
    }
    return out.append(text.substr(pos));
}

}  // namespace foresay::vocab
