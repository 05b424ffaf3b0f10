// Utf8Stream: never cuts a character, never stalls on garbage.
#include <algorithm>

#include "vocab/utf8.h"
#include "vocab/utf8_scan.h"
#include "vocab/vocab.h"

namespace foresay::vocab {

Scan scan_utf8(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) {
        return {Scan::kComplete, 1};
    }
    if (lead < 0xC2 || lead > 0xF4) {
        return {Scan::kInvalid, 1};
    }
    // The second byte's range rules out overlong forms, surrogates and code points above U+10FFFF.
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    const size_t length = utf8_length_by_lead(lead);
    for (size_t i = 1; i < length; ++i) {
        if (i == text.size()) {
            return {Scan::kIncomplete, i};
        }
        if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF)) {
            return {Scan::kInvalid, i};
        }
    }
    return {Scan::kComplete, length};
}

std::string Utf8Stream::push(std::string_view bytes) {
    const std::string text = std::move(pending_) + std::string(bytes);
    pending_.clear();
    std::string out;
    out.reserve(text.size());
    for (size_t pos = 0; pos < text.size();) {
        const std::string_view rest = std::string_view(text).substr(pos);
        const Scan scan = scan_utf8(rest);
        if (scan.state == Scan::kIncomplete) {
            pending_ = rest;
            break;
        }
        out.append(scan.state == Scan::kComplete ? rest.substr(0, scan.bytes) : kReplacement);
        pos += scan.bytes;
    }
    return out;
}

std::string Utf8Stream::finish() {
    const bool cut = has_pending();
    pending_.clear();
    return cut ? std::string(kReplacement) : std::string();
}

}  // namespace foresay::vocab
