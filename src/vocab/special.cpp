// The fix-ups, step by step in the order of section 8: later steps undo parts of earlier ones.
#include "vocab/special.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <set>
#include <string>

#include "base/log.h"
#include "gguf/gguf.h"

namespace foresay::vocab {

namespace {

struct IdKey {
    std::string_view name;
    TokenId SpecialIds::*id;
};

// The order matters: the deprecated names at the end win over the current ones.
constexpr std::array<IdKey, 17> kIdKeys{{
    {"bos_token_id", &SpecialIds::bos},
    {"eos_token_id", &SpecialIds::eos},
    {"eot_token_id", &SpecialIds::eot},
    {"eom_token_id", &SpecialIds::eom},
    {"unknown_token_id", &SpecialIds::unk},
    {"seperator_token_id", &SpecialIds::sep},  // misspelt in the format itself
    {"padding_token_id", &SpecialIds::pad},
    {"mask_token_id", &SpecialIds::mask},
    {"fim_pre_token_id", &SpecialIds::fim_pre},
    {"fim_suf_token_id", &SpecialIds::fim_suf},
    {"fim_mid_token_id", &SpecialIds::fim_mid},
    {"fim_pad_token_id", &SpecialIds::fim_pad},
    {"fim_rep_token_id", &SpecialIds::fim_rep},
    {"fim_sep_token_id", &SpecialIds::fim_sep},
    {"prefix_token_id", &SpecialIds::fim_pre},
    {"suffix_token_id", &SpecialIds::fim_suf},
    {"middle_token_id", &SpecialIds::fim_mid},
}};

struct TextRule {
    TokenId SpecialIds::*id;
    std::initializer_list<std::string_view> texts;
};

#define FW_BAR "\xEF\xBD\x9C"  // U+FF5C
#define META "\xE2\x96\x81"    // U+2581

/// Step 1: the first text in the vocabulary gives the id, when no key has.
const std::array<TextRule, 8>& text_rules() {
    static const std::array<TextRule, 8> rules{{
        {&SpecialIds::eot,
         {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>",
          "[EOT]", "<" FW_BAR "end" META "of" META "sentence" FW_BAR ">", "<end_of_utterance>"}},
        {&SpecialIds::eom, {"<|eom_id|>"}},
        {&SpecialIds::fim_pre,
         {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<" FW_BAR "fim" META "begin" FW_BAR ">", "<PRE>",
          META "<PRE>", "<|code_prefix|>", "<|prefix|>"}},
        {&SpecialIds::fim_suf,
         {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<" FW_BAR "fim" META "hole" FW_BAR ">", "<SUF>",
          META "<SUF>", "<|code_suffix|>", "<|suffix|>"}},
        {&SpecialIds::fim_mid,
         {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<" FW_BAR "fim" META "end" FW_BAR ">", "<MID>",
          META "<MID>", "<|code_middle|>", "<|middle|>"}},
        {&SpecialIds::fim_pad, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
        {&SpecialIds::fim_rep, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
        {&SpecialIds::fim_sep, {"<|file_sep|>"}},
    }};
    return rules;
}

/// Step 4: texts that always end a generation.
constexpr std::array<std::string_view, 22> kEogTexts{
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<" FW_BAR "end" META "of" META "sentence" FW_BAR ">",
    "[e~[",
};

/// Step 5: markers of the "harmony" format that chat parsers need to see.
constexpr std::array<std::string_view, 4> kVisibleMarkers{"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

#undef FW_BAR
#undef META

void make_control(TokenTable* tokens, TokenId id) {
    if (!tokens->has(id, kControl)) {
        // Common in files in use (`</s>` in Qwen 2), so no warning.
        log::debug("vocabulary: token {} '{}' isn't marked as control; treated as control", id, tokens->text(id));
        tokens->add_attributes(id, kControl);
    }
}

void detect_by_text(TokenTable* tokens, SpecialIds* ids) {
    for (const TextRule& rule : text_rules()) {
        if (ids->*rule.id != kNoToken) {
            continue;
        }
        for (const std::string_view text : rule.texts) {
            const TokenId id = tokens->find(text);
            if (id == kNoToken) {
                continue;
            }
            // The id is the first hit, as documented; the attributes of the rest are settled in step 4.
            ids->*rule.id = id;
            make_control(tokens, id);
            break;
        }
    }
}

/// Steps 6 (second half) and 7: end texts that in the presence of others are ordinary ones.
void drop_false_ends(TokenTable* tokens, std::set<TokenId>* eog) {
    const auto in_eog = [&](std::string_view text) {
        const TokenId id = tokens->find(text);
        return id != kNoToken && eog->count(id) != 0;
    };
    const bool has_call = in_eog("<|call|>") || in_eog("<|calls|>");
    if (in_eog("<|end|>") && has_call && (in_eog("<|return|>") || in_eog("<|flush|>"))) {
        const TokenId id = tokens->find("<|end|>");
        eog->erase(id);
        tokens->set_attributes(id, kUserDefined);
    }
    if ((in_eog("<|tool_response>") || in_eog("<|plamo:eos|>")) && in_eog("</s>")) {
        const TokenId id = tokens->find("</s>");
        eog->erase(id);
        tokens->set_attributes(id, kNormal);
    }
}

std::string lower_ascii(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return lower;
}

}  // namespace

Status read_special_ids(const gguf::File& file, int32_t n_tokens, SpecialIds* ids) {
    for (const IdKey& key : kIdKeys) {
        TokenId& id = ids->*key.id;
        if (id >= n_tokens) {
            id = kNoToken;
        }
        const std::string name = fmt::format("tokenizer.ggml.{}", key.name);
        if (file.find(name) == nullptr) {
            continue;
        }
        FORESAY_TRY(const int64_t value, file.i64(name));
        if (value < 0 || value >= n_tokens) {
            log::warn("vocabulary: {} = {} is outside the {} tokens; ignored", name, value, n_tokens);
            continue;
        }
        id = static_cast<TokenId>(value);
    }
    return ok();
}

std::vector<TokenId> apply_special_fixups(TokenTable* tokens, SpecialIds* ids) {
    detect_by_text(tokens, ids);
    for (TokenId id = 0; id < tokens->size(); ++id) {
        if (tokens->has(id, kControl) && tokens->text(id).find("unused") != std::string_view::npos) {
            tokens->add_attributes(id, kUnused);
        }
    }
    std::set<TokenId> eog{ids->fim_pad, ids->fim_rep, ids->fim_sep};
    for (const std::string_view text : kEogTexts) {
        const TokenId id = tokens->find(text);
        if (id != kNoToken) {
            eog.insert(id);
            make_control(tokens, id);
        }
    }
    for (const std::string_view text : kVisibleMarkers) {
        const TokenId id = tokens->find(text);
        if (id != kNoToken) {
            tokens->set_attributes(id, kUserDefined);
        }
    }
    eog.insert({ids->eos, ids->eot, ids->eom});
    eog.erase(kNoToken);
    drop_false_ends(tokens, &eog);
    return {eog.begin(), eog.end()};
}

std::vector<TokenId> partition_candidates(const TokenTable& tokens) {
    std::vector<TokenId> candidates;
    for (TokenId id = 0; id < tokens.size(); ++id) {
        if (tokens.has(id, kControl | kUserDefined | kUnknown)) {
            candidates.push_back(id);
        }
    }
    return candidates;
}

void apply_strip_rules(std::string_view pre, std::string_view architecture, std::string_view name, TokenTable* tokens) {
    const auto contains_any = [](std::string_view text, std::initializer_list<std::string_view> parts) {
        return std::any_of(parts.begin(), parts.end(),
                           [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
    };
    const auto add = [&](std::string_view text, uint8_t bit) {
        const TokenId id = tokens->find(text);
        if (id != kNoToken) {
            tokens->add_attributes(id, bit);
        }
    };
    if (contains_any(pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code", "mmbert"}) ||
        contains_any(architecture, {"nomic-bert-moe", "jina-bert-v3"})) {
        add("<mask>", kLstrip);
    } else if (contains_any(lower_ascii(name), {"phi-3", "phi3"})) {
        for (const TokenId id : partition_candidates(*tokens)) {
            tokens->add_attributes(id, kRstrip);
        }
        add("</s>", kRstrip);
        for (const std::string_view text : {"<unk>", "<s>", "<|endoftext|>"}) {
            const TokenId id = tokens->find(text);
            if (id != kNoToken) {
                tokens->clear_attributes(id, kRstrip);
            }
        }
    } else if (contains_any(name, {"modern-bert"})) {
        add("[MASK]", kLstrip);
    }
}

}  // namespace foresay::vocab
