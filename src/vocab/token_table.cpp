// Reading and indexing the token list.
#include "vocab/token_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "gguf/gguf.h"

namespace foresay::vocab {

namespace {

// The largest vocabularies in use have 262,144 tokens and 4 MB of text; the limits leave a factor of 16 and keep every
// index in 32 bits.
constexpr size_t kMaxTokens = size_t{1} << 24;
constexpr size_t kMaxTextBytes = size_t{64} << 20;

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";

uint8_t attributes_of_type(int64_t type) {
    switch (type) {
        case 1:
            return kNormal;
        case 2:
            return kUnknown;
        case 3:
            return kControl;
        case 4:
            return kUserDefined;
        case 5:
            return kUnused;
        case 6:
            return kByte;
        default:
            return 0;
    }
}

Result<std::vector<float>> read_scores(const gguf::File& file) {
    const gguf::Value* value = file.find(kScoresKey);
    if (value->type == gguf::ValueType::kArray && value->element != gguf::ValueType::kF32) {
        FORESAY_TRY(const std::vector<int64_t> integers, file.i64_array(kScoresKey));
        std::vector<float> scores;
        scores.reserve(integers.size());
        for (const int64_t score : integers) {
            scores.push_back(static_cast<float>(score));
        }
        return scores;
    }
    return file.f32_array(kScoresKey);
}

Error too_short(std::string_view key, size_t n, size_t n_tokens) {
    return error(Code::kBadFile, fmt::format("{} entries for {} tokens", n, n_tokens), std::string(key));
}

int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

Result<TokenTable> TokenTable::read(const gguf::File& file) {
    FORESAY_TRY(const std::vector<std::string_view> stored, file.string_array(kTokensKey));
    if (stored.empty() || stored.size() > kMaxTokens) {
        return error(Code::kBadFile, fmt::format("{} tokens; 1 to {} are possible", stored.size(), kMaxTokens),
                     std::string(kTokensKey));
    }
    TokenTable table;
    std::vector<size_t> ends;
    ends.reserve(stored.size());
    table.arena_ = std::make_unique<std::string>();
    for (const std::string_view whole : stored) {
        // The reference reads texts as C strings: what follows a NUL doesn't count.
        const std::string_view text = whole.substr(0, whole.find('\0'));
        if (text.size() > kMaxTextBytes - table.arena_->size()) {
            return error(Code::kBadFile, fmt::format("token texts of over {} bytes", kMaxTextBytes),
                         std::string(kTokensKey));
        }
        table.arena_->append(text.empty() ? fmt::format("[EMPTY_{}]", ends.size()) : text);
        ends.push_back(table.arena_->size());
    }
    size_t begin = 0;
    for (const size_t end : ends) {
        table.texts_.push_back(std::string_view(*table.arena_).substr(begin, end - begin));
        table.max_text_bytes_ = std::max(table.max_text_bytes_, end - begin);
        begin = end;
    }
    if (file.find(kScoresKey) != nullptr) {
        FORESAY_TRY(table.scores_, read_scores(file));
        if (table.scores_.size() < stored.size()) {
            return too_short(kScoresKey, table.scores_.size(), stored.size());
        }
    }
    table.attributes_.assign(stored.size(), kNormal);
    if (file.find(kTypesKey) != nullptr) {
        FORESAY_TRY(const std::vector<int64_t> types, file.i64_array(kTypesKey));
        if (types.size() < stored.size()) {
            return too_short(kTypesKey, types.size(), stored.size());
        }
        std::transform(types.begin(), types.begin() + static_cast<std::ptrdiff_t>(stored.size()),
                       table.attributes_.begin(), attributes_of_type);
    }
    FORESAY_CHECK_OK(table.index_texts());
    return table;
}

Status TokenTable::index_texts() {
    slots_.assign(std::bit_ceil(texts_.size() * 2), kNoToken);
    const size_t mask = slots_.size() - 1;
    for (TokenId id = 0; id < size(); ++id) {
        size_t slot = std::hash<std::string_view>{}(text(id)) & mask;
        for (; slots_[slot] != kNoToken; slot = (slot + 1) & mask) {
            if (text(slots_[slot]) == text(id)) {
                return error(Code::kBadFile,
                             fmt::format("tokens {} and {} have the same text '{}'", slots_[slot], id, text(id)),
                             std::string(kTokensKey), "a text must have one id");
            }
        }
        slots_[slot] = id;
    }
    return ok();
}

TokenId TokenTable::find(std::string_view wanted) const {
    if (wanted.size() > max_text_bytes_) {
        return kNoToken;
    }
    const size_t mask = slots_.size() - 1;
    for (size_t slot = std::hash<std::string_view>{}(wanted)&mask; slots_[slot] != kNoToken; slot = (slot + 1) & mask) {
        if (texts_[static_cast<size_t>(slots_[slot])] == wanted) {
            return slots_[slot];
        }
    }
    return kNoToken;
}

int TokenTable::parse_byte_text(std::string_view text) {
    if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') {
        return -1;
    }
    const int high = hex_digit(text[3]);
    const int low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::array<TokenId, 256> TokenTable::byte_tokens() const {
    std::array<TokenId, 256> ids{};
    for (size_t byte = 0; byte < ids.size(); ++byte) {
        ids[byte] = find(fmt::format("<0x{:02X}>", byte));
    }
    return ids;
}

}  // namespace foresay::vocab
