// ngram-cache: counts of what followed each n-gram of 1 to 4 tokens, in this text (context) and in two optional files
// (dynamic, static). A token is drafted where the counts are clear enough. Context counts are per slot and request.
// Must not know the target or acceptance. Source: draft-models.md, section 11.4.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "spec/drafter.h"

namespace foresay::spec {

/// The last 1 to 4 tokens, padded with -1 at the end.
using Ngram = std::array<TokenId, 4>;

struct NgramHash {
    size_t operator()(const Ngram& ngram) const;
};

struct Follower {
    TokenId token = 0;
    int32_t count = 0;
};

/// n-gram -> what followed it, in the order of first sight.
using NgramCounts = std::unordered_map<Ngram, std::vector<Follower>, NgramHash>;

/// Parses a lookup file: records of 4 x i32 tokens, i32 n > 0, n x (i32 token, i32 count > 0), little endian, to the
/// end. The bytes are taken as hostile. Errors: bad_file naming the byte offset and what is wrong there: a cut record,
/// a token outside [0, n_vocab), a bad padding, a count that isn't above 0, an n-gram that comes twice.
Result<NgramCounts> parse_lookup(std::span<const std::byte> bytes, int32_t n_vocab);
/// Reads a file of at most 1 GiB. Errors: io, and those of parse_lookup, naming the file.
Result<NgramCounts> read_lookup(const std::string& path, int32_t n_vocab);

class NgramCache final : public Drafter {
  public:
    struct Options {
        std::shared_ptr<const NgramCounts> fixed;    ///< --lookup-cache-static; null: none
        std::shared_ptr<const NgramCounts> dynamic;  ///< --lookup-cache-dynamic; null: none
        bool as_reference = false;  ///< pairs that span two rounds aren't learnt (for comparing traces)
    };

    static constexpr int32_t kNMax = 8;

    explicit NgramCache(Options options) : options_(std::move(options)) {}

    std::string_view name() const override { return "ngram-cache"; }

    Status propose(std::span<const DraftRequest> requests, std::vector<Draft>& drafts) override;
    void begin(int slot, std::span<const TokenId> prompt) override;
    void shifted(int slot, int32_t keep, int32_t discard) override;
    void reset(int slot) override;
    size_t memory_bytes() const override;

  private:
    struct SlotState {
        NgramCounts counts;
        size_t n_seen = 0;
    };

    SlotState& state(int slot);
    void learn(SlotState& slot, std::span<const TokenId> tokens) const;
    TokenId next(const SlotState& slot, std::span<const TokenId> tokens) const;
    void propose_one(const DraftRequest& request, Draft& draft);

    Options options_;
    std::vector<SlotState> slots_;
    std::vector<TokenId> text_;  ///< the end of the context and the draft so far
};

}  // namespace foresay::spec
