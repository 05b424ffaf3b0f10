#include "spec/pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "model/model.h"
#include "spec/drafters/draft_assistant.h"

namespace foresay::spec {
namespace {

constexpr vocab::TokenId kFirstComparedId = 5;  // the first ids are special tokens that families name differently
constexpr int32_t kMaxPadding = 128;            // embeddings of one family are padded by up to this
constexpr size_t kShown = 3;

bool has_nextn(const gguf::File& file) {
    const auto arch = file.string("general.architecture");
    if (!arch.has_value()) {
        return false;
    }
    const auto blocks = file.u32_or(std::string(*arch) + ".block_count", 0);
    return blocks.has_value() && *blocks > 0 &&
           file.tensor(fmt::format("blk.{}.nextn.eh_proj.weight", *blocks - 1)) != nullptr;
}

std::string architecture(const gguf::File& file) {
    const auto arch = file.string("general.architecture");
    return arch.has_value() ? std::string(*arch) : "unknown";
}

/// Hyper-parameters of a file whose architecture and tensors can be computed; else the reasons go to problems.
/// nextn: of a drafter, only its NextN block is computed.
std::optional<model::Hparams> readable(const gguf::File& file, std::string_view who, bool nextn, PairReport& report) {
    for (const std::string& reason : model::unsupported_reasons(file, nextn)) {
        report.problems.push_back(fmt::format("the {}: {}", who, reason));
    }
    const model::Architecture* arch = model::find_architecture(architecture(file));
    if (arch == nullptr) {
        return std::nullopt;
    }
    const auto hparams = arch->read_hparams(file);
    return hparams.has_value() ? std::optional(*hparams) : std::nullopt;
}

void check_type(const gguf::File& draft, std::string_view type, PairReport& report) {
    const std::string detected = detect_type(draft);
    report.type = type.empty() ? detected : std::string(type);
    if (report.type == detected) {
        return;
    }
    if (report.type == "draft-simple" && detected == "draft-mtp" && architecture(draft) != "gemma4-assistant") {
        return;  // a whole model that carries layers of its own for drafting may also draft as it is
    }
    report.problems.push_back(fmt::format("the drafter's file (architecture {}) is made for {}, not for {}",
                                          architecture(draft), detected, report.type));
}

void check_rows(const model::Hparams& target, const model::Hparams& draft, PairReport& report) {
    const model::DrafterHparams& d = draft.drafter;
    if (d.n_embd_target != target.n_embd) {
        report.problems.push_back(
            fmt::format("the drafter takes rows {} wide, the target's are {} wide", d.n_embd_target, target.n_embd));
    }
    for (const int32_t layer : d.target_layers) {
        if (layer > target.n_layer) {
            report.problems.push_back(
                fmt::format("the drafter taps layer {}, the target has {}", layer, target.n_layer));
            break;
        }
    }
}

/// A NextN block is a layer of its target.
void check_nextn(const model::Hparams& target, const model::Hparams& draft, PairReport& report) {
    if (draft.arch != target.arch) {
        report.problems.push_back(
            fmt::format("the drafter's NextN block is of a {} model, the target is {}", draft.arch, target.arch));
    } else if (draft.n_embd != target.n_embd) {
        report.problems.push_back(fmt::format("the drafter's NextN block takes rows {} wide, the target's are {} wide",
                                              draft.n_embd, target.n_embd));
    } else if (draft.n_vocab != target.n_vocab) {
        report.problems.push_back(
            fmt::format("the drafter's NextN block has {} tokens, the target {}: it uses the "
                        "target's embedding, so they must be equal",
                        draft.n_vocab, target.n_vocab));
    }
    const model::Architecture* arch = model::find_architecture(target.arch);
    if (arch != nullptr && arch->build_layer == nullptr) {
        report.problems.push_back(fmt::format("draft-mtp is not supported for {} models", target.arch));
    }
}

void check_vocabs(const gguf::File& target, const gguf::File& draft, PairReport& report) {
    const auto target_vocab = vocab::Vocab::load(target);
    const auto draft_vocab = vocab::Vocab::load(draft);
    for (const auto* loaded : {&target_vocab, &draft_vocab}) {
        if (!loaded->has_value()) {
            report.problems.push_back(fmt::format("the {}'s vocabulary: {}",
                                                  loaded == &target_vocab ? "target" : "drafter",
                                                  loaded->error().to_string()));
            return;
        }
    }
    report.vocab = compare_vocabs(**target_vocab, **draft_vocab);
    const VocabDifference& v = report.vocab;
    if (!v.other.empty()) {
        report.problems.push_back(v.other);
    }
    std::string shown;
    for (const auto& entry : v.first) {
        shown += fmt::format("{}id {}: '{}' in the target, '{}' in the drafter", shown.empty() ? "" : "; ", entry.id,
                             entry.target, entry.draft);
    }
    if (v.n_different > v.n_different_special) {
        report.problems.push_back(fmt::format("{} token texts differ ({})", v.n_different, shown));
    } else if (v.n_different > 0) {
        report.notes.push_back(
            fmt::format("{} of the first {} token texts differ ({})", v.n_different_special, kFirstComparedId, shown));
    }
    if (std::abs(v.n_target - v.n_draft) > kMaxPadding) {
        report.problems.push_back(fmt::format("the drafter has {} tokens, the target {}: more than {} apart", v.n_draft,
                                              v.n_target, kMaxPadding));
    } else if (v.n_target != v.n_draft) {
        report.notes.push_back(
            fmt::format("the drafter has {} tokens, the target {}: padding, those that only one of them has are never "
                        "drafted",
                        v.n_draft, v.n_target));
    }
}

/// Where to start; what pays depends on the machine (foresay bench).
void propose_flags(const std::optional<model::Hparams>& draft, const gguf::File& file, PairReport& report) {
    report.flags.push_back(fmt::format("--spec-type {}", report.type));
    int32_t n_max = 4;
    if (report.type == "draft-dflash" && draft) {
        n_max = std::min(8, draft->drafter.block_size - 1);
    } else if (report.type == "draft-dspark" && draft) {
        n_max = std::min(8, draft->drafter.block_size - (draft->drafter.sample_from_anchor ? 0 : 1));
        if (file.tensor("conf_proj.weight") != nullptr) {
            report.flags.emplace_back("--spec-draft-p-min 0.5");
            report.notes.emplace_back("p_min is this drafter's confidence floor");
        } else {
            report.notes.emplace_back("it has no confidence head: p_min must stay 0");
        }
    } else if (report.type == "draft-mtp") {
        n_max = 3;
    }
    report.flags.push_back(fmt::format("--spec-draft-n-max {}", n_max));
    if (draft && draft->drafter.n_vocab_draft > 0 && draft->drafter.n_vocab_draft < draft->n_vocab) {
        report.notes.push_back(fmt::format("it drafts {} of the {} tokens (reduced vocabulary)",
                                           draft->drafter.n_vocab_draft, draft->n_vocab));
    }
}

}  // namespace

VocabDifference compare_vocabs(const vocab::Vocab& target, const vocab::Vocab& draft) {
    VocabDifference v;
    v.n_target = target.n_tokens();
    v.n_draft = draft.n_tokens();
    if (target.kind() != draft.kind()) {
        v.other = "the drafter's tokenizer is of another kind than the target's";
    } else if (target.adds_bos() != draft.adds_bos() || (target.adds_bos() && target.bos() != draft.bos())) {
        v.other = fmt::format("the drafter's BOS (id {}, added: {}) differs from the target's (id {}, added: {})",
                              draft.bos(), draft.adds_bos(), target.bos(), target.adds_bos());
    } else if (target.adds_eos() != draft.adds_eos() || (target.adds_eos() && target.eos() != draft.eos())) {
        v.other = fmt::format("the drafter's EOS (id {}, added: {}) differs from the target's (id {}, added: {})",
                              draft.eos(), draft.adds_eos(), target.eos(), target.adds_eos());
    }
    for (vocab::TokenId id = 0; id < std::min(v.n_target, v.n_draft); ++id) {
        if (target.text(id) == draft.text(id)) {
            continue;
        }
        ++v.n_different;
        v.n_different_special += id < kFirstComparedId ? 1 : 0;
        if (v.first.size() < kShown) {
            v.first.push_back({id, std::string(target.text(id)), std::string(draft.text(id))});
        }
    }
    return v;
}

std::string detect_type(const gguf::File& draft) {
    const std::string arch = architecture(draft);
    if (arch == "eagle3") {
        return "draft-eagle3";
    }
    if (arch == "dflash") {
        return draft.tensor("markov_w1.weight") != nullptr ? "draft-dspark" : "draft-dflash";
    }
    return arch == "gemma4-assistant" || has_nextn(draft) ? "draft-mtp" : "draft-simple";
}

PairReport check_pair(const gguf::File& target, const gguf::File& draft, std::string_view type) {
    PairReport report;
    const bool inside = &target == &draft;
    check_type(draft, type, report);
    if (inside && report.type == "draft-mtp" && !has_nextn(target)) {
        report.problems = {"the target's file holds no NextN block to draft with"};
    }
    const auto target_hparams = readable(target, "target", false, report);
    report.nextn = report.type == "draft-mtp" && has_nextn(draft);
    const bool assistant = report.type == "draft-mtp" && architecture(draft) == "gemma4-assistant";
    const auto draft_hparams = inside && !report.nextn
                                   ? target_hparams
                                   : readable(draft, inside ? "target's NextN block" : "drafter", report.nextn, report);
    const model::Architecture* arch = model::find_architecture(architecture(target));
    if (arch != nullptr && arch->build == nullptr) {
        report.problems.push_back(
            fmt::format("the target's architecture '{}' only drafts for another model", arch->name));
    }
    const bool feeds_on_rows = report.type != "draft-simple" && report.type != "draft-mtp";
    if (target_hparams && draft_hparams && feeds_on_rows && draft_hparams->drafter.n_embd_target > 0) {
        check_rows(*target_hparams, *draft_hparams, report);
    }
    if (target_hparams && draft_hparams && report.nextn) {
        check_nextn(*target_hparams, *draft_hparams, report);
    }
    if (target_hparams && draft_hparams && assistant) {
        if (const auto layers = match_assistant(*target_hparams, *draft_hparams); !layers.has_value()) {
            report.problems.push_back(layers.error().message);
        }
    }
    if (!inside) {
        check_vocabs(target, draft, report);
    }
    propose_flags(draft_hparams, draft, report);
    return report;
}

}  // namespace foresay::spec
