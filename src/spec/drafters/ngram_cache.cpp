#include "spec/drafters/ngram_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

namespace foresay::spec {
namespace {

constexpr size_t kLongest = 4;
constexpr size_t kStaticSize = 2;
constexpr uintmax_t kMostBytes = uintmax_t{1} << 30U;

/// How clear the counts of an n-gram of this size must be; index 0 is unused.
struct Limits {
    std::array<int64_t, kLongest + 1> samples;
    std::array<int64_t, kLongest + 1> percent;
};

constexpr Limits kLax{{0, 2, 2, 1, 1}, {0, 66, 50, 50, 50}};
constexpr Limits kStrict{{0, 4, 3, 2, 2}, {0, 75, 66, 66, 66}};

/// The n tokens in front of `end`.
Ngram ngram_before(std::span<const TokenId> tokens, size_t end, size_t n) {
    Ngram ngram{-1, -1, -1, -1};
    std::copy_n(tokens.begin() + static_cast<ptrdiff_t>(end - n), n, ngram.begin());
    return ngram;
}

const std::vector<Follower>* find(const NgramCounts* counts, const Ngram& ngram) {
    if (counts == nullptr) {
        return nullptr;
    }
    const auto it = counts->find(ngram);
    return it == counts->end() ? nullptr : &it->second;
}

int32_t count_of(const std::vector<Follower>* followers, TokenId token) {
    if (followers != nullptr) {
        for (const Follower& follower : *followers) {
            if (follower.token == token) {
                return follower.count;
            }
        }
    }
    return 0;
}

/// The best follower if it is clear enough, weighted by what the static file holds; else kNoToken. Among equals the one
/// seen first last, as the reference has it.
TokenId clear_follower(const std::vector<Follower>& followers, const std::vector<Follower>* weights, int64_t samples,
                       int64_t percent) {
    int64_t total = 0;
    const Follower* best = nullptr;
    double best_score = 0.0;
    for (auto it = followers.rbegin(); it != followers.rend(); ++it) {
        total += it->count;
        const int32_t weight = count_of(weights, it->token);
        const double score = static_cast<double>(it->count) * (weight > 0 ? 100.0 * weight : 1.0);
        if (score > best_score) {
            best_score = score;
            best = &*it;
        }
    }
    if (best == nullptr || total < samples || int64_t{100} * best->count < percent * total) {
        return vocab::kNoToken;
    }
    return best->token;
}

/// From the longest n-gram down to the shortest; kNoToken when none is clear.
TokenId draft_from(const NgramCounts* counts, std::span<const TokenId> tokens, const std::vector<Follower>* weights,
                   const Limits& limits) {
    if (counts == nullptr) {
        return vocab::kNoToken;
    }
    for (size_t n = std::min(kLongest, tokens.size()); n >= 1; --n) {
        const auto* followers = find(counts, ngram_before(tokens, tokens.size(), n));
        if (followers == nullptr) {
            continue;
        }
        const TokenId token = clear_follower(*followers, weights, limits.samples.at(n), limits.percent.at(n));
        if (token != vocab::kNoToken) {
            return token;
        }
    }
    return vocab::kNoToken;
}

class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    size_t offset() const { return at_; }

    size_t left() const { return bytes_.size() - at_; }

    /// The caller has checked left().
    int32_t i32() {
        uint32_t value = 0;
        for (unsigned i = 0; i < sizeof(value); ++i) {
            value |= std::to_integer<uint32_t>(bytes_[at_ + i]) << (8U * i);
        }
        at_ += sizeof(value);
        return static_cast<int32_t>(value);
    }

  private:
    std::span<const std::byte> bytes_;
    size_t at_ = 0;
};

}  // namespace

size_t NgramHash::operator()(const Ngram& ngram) const {
    uint64_t h = 0;
    for (const TokenId token : ngram) {
        h = (h ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15U;
        h ^= h >> 32U;
    }
    return h;
}

Result<NgramCounts> parse_lookup(std::span<const std::byte> bytes, int32_t n_vocab) {
    Reader in(bytes);
    NgramCounts counts;
    const auto bad = [&](size_t offset, const std::string& what) {
        return error(Code::kBadFile, fmt::format("at byte {}: {}", offset, what), "",
                     "it is no lookup cache, or one made with another model");
    };
    constexpr size_t kHead = (kLongest + 1) * sizeof(int32_t);
    constexpr size_t kPair = 2 * sizeof(int32_t);
    while (in.left() > 0) {
        const size_t start = in.offset();
        if (in.left() < kHead) {
            return bad(start, fmt::format("{} bytes are left, a record needs at least {}", in.left(), kHead));
        }
        Ngram ngram{};
        for (size_t i = 0; i < kLongest; ++i) {
            ngram.at(i) = in.i32();
            const bool is_padding = ngram.at(i) == -1 && i > 0;
            if (!is_padding && (ngram.at(i) < 0 || ngram.at(i) >= n_vocab)) {
                return bad(start, fmt::format("token {} is outside the vocabulary of {}", ngram.at(i), n_vocab));
            }
            if (!is_padding && i > 0 && ngram.at(i - 1) == -1) {
                return bad(start, "a token stands behind padding");
            }
        }
        const int32_t n = in.i32();
        if (n <= 0 || static_cast<size_t>(n) > in.left() / kPair) {
            return bad(start, fmt::format("{} followers, but {} bytes are left", n, in.left()));
        }
        auto [it, is_new] = counts.try_emplace(ngram);
        if (!is_new) {
            return bad(start, "an n-gram comes a second time");
        }
        it->second.reserve(static_cast<size_t>(n));
        for (int32_t i = 0; i < n; ++i) {
            const size_t at = in.offset();
            const TokenId token = in.i32();
            const int32_t count = in.i32();
            if (token < 0 || token >= n_vocab) {
                return bad(at, fmt::format("token {} is outside the vocabulary of {}", token, n_vocab));
            }
            if (count <= 0) {
                return bad(at, fmt::format("a count of {}", count));
            }
            it->second.push_back({token, count});
        }
    }
    return counts;
}

Result<NgramCounts> read_lookup(const std::string& path, int32_t n_vocab) {
    std::error_code failure;
    const bool is_file = std::filesystem::is_regular_file(path, failure);
    if (failure || !is_file) {
        return error(Code::kIo, failure ? failure.message() : "not a regular file", path);
    }
    const uintmax_t size = std::filesystem::file_size(path, failure);
    if (failure || size > kMostBytes) {
        return error(Code::kIo, failure ? failure.message() : fmt::format("{} bytes are more than 1 GiB", size), path);
    }
    std::vector<std::byte> bytes(static_cast<size_t>(size));
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (!file) {
        return error(Code::kIo, "can't be read", path);
    }
    auto counts = parse_lookup(bytes, n_vocab);
    if (!counts.has_value()) {
        return std::move(counts).error().context(path);
    }
    return counts;
}

NgramCache::SlotState& NgramCache::state(int slot) {
    const auto i = static_cast<size_t>(slot);
    if (slots_.size() <= i) {
        slots_.resize(i + 1);
    }
    return slots_[i];
}

void NgramCache::reset(int slot) {
    state(slot) = SlotState{};
}

void NgramCache::begin(int slot, std::span<const TokenId> /*prompt*/) {
    reset(slot);  // another request's text must not be drafted
}

void NgramCache::shifted(int slot, int32_t /*keep*/, int32_t /*discard*/) {
    reset(slot);  // counts what is left anew, so that memory follows the context's size
}

size_t NgramCache::memory_bytes() const {
    size_t bytes = 0;
    const auto add = [&](const NgramCounts& counts) {
        constexpr size_t kNode = sizeof(Ngram) + sizeof(std::vector<Follower>) + 2 * sizeof(void*);
        bytes += counts.bucket_count() * sizeof(void*) + counts.size() * (kNode + sizeof(Follower));
    };
    for (const SlotState& slot : slots_) {
        add(slot.counts);
    }
    for (const auto& file : {options_.fixed, options_.dynamic}) {
        if (file != nullptr) {
            add(*file);
        }
    }
    return bytes;
}

void NgramCache::learn(SlotState& slot, std::span<const TokenId> tokens) const {
    if (slot.n_seen > tokens.size()) {
        slot = SlotState{};  // another, shorter text
    }
    const size_t oldest = options_.as_reference ? slot.n_seen : 0;
    for (size_t i = std::max<size_t>(slot.n_seen, 1); i < tokens.size(); ++i) {
        for (size_t n = 1; n <= kLongest && i >= oldest + n; ++n) {
            auto& followers = slot.counts[ngram_before(tokens, i, n)];
            const auto it = std::find_if(followers.begin(), followers.end(),
                                         [&](const Follower& f) { return f.token == tokens[i]; });
            if (it == followers.end()) {
                followers.push_back({tokens[i], 1});
            } else if (it->count < std::numeric_limits<int32_t>::max()) {
                ++it->count;
            }
        }
    }
    slot.n_seen = tokens.size();
}

TokenId NgramCache::next(const SlotState& slot, std::span<const TokenId> tokens) const {
    const auto* weights = find(options_.fixed.get(), ngram_before(tokens, tokens.size(), kStaticSize));
    TokenId token = draft_from(&slot.counts, tokens, weights, kLax);
    if (token == vocab::kNoToken) {
        token = draft_from(options_.dynamic.get(), tokens, weights, kStrict);
    }
    if (token == vocab::kNoToken && weights != nullptr) {
        token = clear_follower(*weights, nullptr, kLax.samples[kStaticSize], kLax.percent[kStaticSize]);
    }
    return token;
}

void NgramCache::propose_one(const DraftRequest& request, Draft& draft) {
    if (request.tokens.empty() || request.n_max <= 0) {
        return;
    }
    SlotState& slot = state(request.slot);
    learn(slot, request.tokens);
    if (request.tokens.size() < 2) {
        return;
    }
    const size_t n_tail = std::min(kLongest, request.tokens.size());
    text_.assign(request.tokens.end() - static_cast<ptrdiff_t>(n_tail), request.tokens.end());
    while (static_cast<int32_t>(draft.tokens.size()) < std::min(request.n_max, kNMax)) {
        const TokenId token = next(slot, text_);
        if (token == vocab::kNoToken) {
            break;
        }
        draft.tokens.push_back(token);
        text_.push_back(token);
    }
    if (static_cast<int32_t>(draft.tokens.size()) < request.n_min) {
        draft.tokens.clear();
    }
}

Status NgramCache::propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) {
    drafts.assign(requests.size(), Draft{});
    for (size_t i = 0; i < requests.size(); ++i) {
        propose_one(requests[i], drafts[i]);
    }
    return ok();
}

}  // namespace foresay::spec
