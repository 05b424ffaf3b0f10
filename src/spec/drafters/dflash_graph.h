// The passes of draft-dflash and draft-dspark: injection of the target's features, the block, the Markov head.
// Source: shared/spec/draft-models.md, 9.3, 9.4, 9.6, 10.3.
#pragma once

#include "spec/drafters/net.h"

namespace foresay::spec {

enum DflashPass : uint32_t { kDflashInject = 1, kDflashBlock = 2, kDflashMarkov = 3 };

/// Inputs of the block pass. Behind them: the rows `tau` before each row for the convolutions, tau = 1 .. kernel - 1.
enum DflashBlockInput : size_t {
    kBlockTokens = 0,
    kBlockPos = 1,
    kBlockCells = 2,
    kBlockBase = 3,         ///< first cell of the slot
    kBlockLast = 4,         ///< last visible position
    kBlockOutRows = 5,      ///< the rows that predict
    kBlockSlidingBase = 6,  ///< with sliding layers: first visible cell
    kBlockSlidingLast = 7,  ///< and the last visible one, counted from it
};

bool has_sliding_layers(const model::Hparams& hparams);
/// Index of the first input of the convolutions.
size_t first_shift_input(const model::Hparams& hparams);

/// The convolutions' fixed factors, loaded as weights of the net: blk.<l>.<part>_conv_base.<tau>.<side>, and the ones
/// that spread a group's factor over its channels. Does nothing without DFlash2's keys. Errors: bad_file.
Status load_conv_bases(Net& net);

/// Inputs: rows F32 [taps, n], pos, cells. Writes K and V of every layer; no output.
void build_injection(NetGraph& g, int32_t n);
/// Outputs: logits [n_vocab_draft, n_outputs]; with_hidden: the normed rows; with DFlash2's selector: its gates.
void build_block(NetGraph& g, int32_t n, int32_t n_outputs, bool with_hidden);
/// Input: the tokens before. Outputs: what each adds to the logits [n_vocab_draft, n], its own row [rank, n].
void build_markov(NetGraph& g, int32_t n);

}  // namespace foresay::spec
