// The log of acceptance decisions. The rules themselves are in rules/.
#include "spec/acceptance.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

namespace foresay::spec {
namespace {

/// One line and no terminal codes, whatever a token holds. Bytes of UTF-8 stay as they are.
std::string escaped(std::string_view piece) {
    std::string text;
    for (const char c : piece) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '\n') {
            text += "\\n";
        } else if (c == '\r') {
            text += "\\r";
        } else if (c == '\t') {
            text += "\\t";
        } else if (byte < 0x20 || byte == 0x7f) {
            text += fmt::format("\\x{:02x}", byte);
        } else {
            text += c;
        }
    }
    return text;
}

std::string_view verdict_text(Verdict verdict) {
    switch (verdict) {
        case Verdict::kExact:
            return "ACCEPT(exact)";
        case Verdict::kRelaxed:
            return "ACCEPT(relaxed)";
        case Verdict::kReject:
            break;
    }
    return "reject";
}

}  // namespace

bool relaxed_verify_log_enabled() {
    const char* value = std::getenv("RELAXED_VERIFY_LOG");
    return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

std::string format_relaxed_verify(int pos, int32_t n, const sampling::Draw& draw, vocab::TokenId drafted,
                                  const Decision& decision, const vocab::Vocab& vocab) {
    return fmt::format(
        "[RELAXED_VERIFY] pos={} relaxed_top_n={} cur_p.size={} cur_p.sorted={} draft='{}'(id={}) "
        "target_sample='{}'(id={}) -> {}",
        pos, n, draw.candidates.size(), draw.sorted ? 1 : 0, escaped(vocab.piece(drafted, true)), drafted,
        escaped(vocab.piece(draw.id, true)), draw.id, verdict_text(decision.verdict));
}

}  // namespace foresay::spec
