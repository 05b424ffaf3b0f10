// From a GGUF file to a Vocab: kinds, defaults, checks. Source: shared/spec/tokenizers.md, section 1.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gguf/gguf.h"
#include "vocab/bpe.h"
#include "vocab/common.h"
#include "vocab/patterns.h"
#include "vocab/spm.h"

namespace foresay::vocab {

namespace {

// Special tokens are matched by an automaton of about 60 bytes per byte of text; the largest set in use has 80 kB.
constexpr size_t kMaxSpecialBytes = size_t{4} << 20;
// The largest merge list in use has 514,906 entries.
constexpr size_t kMaxMerges = size_t{1} << 24;

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";

/// The names that other kinds go by, for the error message.
std::string_view kind_name(std::string_view model) {
    return model == "bert"                          ? "WordPiece"
           : model == "t5"                          ? "Unigram"
           : model == "rwkv"                        ? "RWKV"
           : model == "plamo2"                      ? "PLaMo-2"
           : model == "hybriddna"                   ? "HybridDNA"
           : model == "whitespace"                  ? "whitespace BPE"
           : model == "no_vocab" || model == "none" ? "no vocabulary"
                                                    : "unknown";
}

Result<const PreType*> read_pre_type(const gguf::File& file, bool is_gemma4) {
    FORESAY_TRY(std::string_view name, file.string_or(kPreKey, ""));
    if (is_gemma4) {
        name = "gemma4";
    } else if (name.empty()) {
        log::warn(
            "vocabulary: no {}; using 'default', which may split words differently than the model was trained with",
            kPreKey);
        name = "default";
    }
    const PreType* pre = find_pre_type(name);
    if (pre == nullptr) {
        return error(Code::kUnsupported, fmt::format("unknown pre-tokenizer '{}'", name), std::string(kPreKey),
                     "a newer Foresay may know it");
    }
    return pre;
}

SpecialIds default_ids(std::string_view model, uint8_t pre_flags) {
    SpecialIds ids;
    if (model == "llama") {
        ids.bos = 1;
        ids.eos = 2;
        ids.unk = 0;
    } else if (model == "gpt2") {
        ids.bos = (pre_flags & kNoBosDefault) != 0 ? kNoToken : 11;
        ids.eos = 11;
    }
    return ids;
}

Settings default_settings(Kind kind, uint8_t pre_flags) {
    Settings settings;
    if (kind == Kind::kSpm) {
        settings.add_bos = true;
        settings.add_space_prefix = true;
        settings.escape_spaces = true;
        return settings;
    }
    settings.add_bos = (pre_flags & kAddBos) != 0;
    settings.clean_spaces = (pre_flags & kKeepSpaces) == 0;
    settings.escape_spaces = (pre_flags & kEscapeSpaces) != 0;
    settings.byte_level = !settings.escape_spaces;
    return settings;
}

Status read_settings(const gguf::File& file, uint8_t pre_flags, Settings* settings) {
    FORESAY_TRY(settings->add_bos, file.bool_or("tokenizer.ggml.add_bos_token", settings->add_bos));
    FORESAY_TRY(settings->add_eos, file.bool_or("tokenizer.ggml.add_eos_token", settings->add_eos));
    FORESAY_TRY(settings->add_space_prefix,
                file.bool_or("tokenizer.ggml.add_space_prefix", settings->add_space_prefix));
    settings->add_bos |= (pre_flags & kForceBos) != 0;
    return ok();
}

Result<std::vector<TokenId>> read_suppressed(const gguf::File& file, int32_t n_tokens) {
    constexpr std::string_view key = "tokenizer.ggml.suppress_tokens";
    std::vector<TokenId> ids;
    if (file.find(key) == nullptr) {
        return ids;
    }
    FORESAY_TRY(const std::vector<int64_t> stored, file.i64_array(key));
    for (const int64_t id : stored) {
        if (id >= 0 && id < n_tokens) {
            ids.push_back(static_cast<TokenId>(id));
        }
    }
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}

/// What is left to check once everything is read.
Status check(const Content& content) {
    if (content.settings.add_bos && content.special.bos == kNoToken) {
        return error(Code::kBadFile, "a BOS token is to be added, but the file names none",
                     "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id is missing");
    }
    if (content.settings.add_eos && content.special.eos == kNoToken) {
        return error(Code::kBadFile, "an EOS token is to be added, but the file names none",
                     "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id is missing");
    }
    size_t special_bytes = 0;
    for (const TokenId id : partition_candidates(content.tokens)) {
        special_bytes += content.tokens.text(id).size();
    }
    if (special_bytes > kMaxSpecialBytes) {
        return error(Code::kBadFile,
                     fmt::format("{} bytes of special token texts; {} are possible", special_bytes, kMaxSpecialBytes),
                     "tokenizer.ggml.token_type");
    }
    return ok();
}

/// tokenizer.chat_template.NAME
Status read_named_templates(const gguf::File& file, Content* content) {
    constexpr std::string_view kPrefix = "tokenizer.chat_template.";
    for (const gguf::Value& value : file.values()) {
        if (value.key.size() > kPrefix.size() && value.key.substr(0, kPrefix.size()) == kPrefix) {
            FORESAY_TRY(const std::string_view text, file.string(value.key));
            content->named_chat_templates.emplace_back(value.key.substr(kPrefix.size()), text);
        }
    }
    return ok();
}

Result<Content> read_content(const gguf::File& file, Kind kind, std::string_view model, const PreType* pre) {
    const uint8_t flags = pre == nullptr ? uint8_t{0} : pre->flags;
    FORESAY_TRY(TokenTable tokens, TokenTable::read(file));
    Content content{std::move(tokens), default_ids(model, flags), default_settings(kind, flags), {}, {}, {}, {}};
    FORESAY_CHECK_OK(read_settings(file, flags, &content.settings));
    FORESAY_CHECK_OK(read_special_ids(file, content.tokens.size(), &content.special));
    content.eog = apply_special_fixups(&content.tokens, &content.special);
    FORESAY_TRY(const std::string_view architecture, file.string_or("general.architecture", ""));
    FORESAY_TRY(const std::string_view name, file.string_or("general.name", ""));
    apply_strip_rules(pre == nullptr ? std::string_view() : pre->name, architecture, name, &content.tokens);
    FORESAY_TRY(content.suppressed, read_suppressed(file, content.tokens.size()));
    FORESAY_TRY(content.chat_template, file.string_or("tokenizer.chat_template", ""));
    FORESAY_CHECK_OK(read_named_templates(file, &content));
    FORESAY_CHECK_OK(check(content));
    return content;
}

Result<std::shared_ptr<const Vocab>> load_bpe(const gguf::File& file, std::string_view model) {
    FORESAY_TRY(const PreType* const pre, read_pre_type(file, model == "gemma4"));
    FORESAY_TRY(Content content, read_content(file, Kind::kBpe, model, pre));
    FORESAY_TRY(const std::vector<std::string_view> merge_texts, file.string_array("tokenizer.ggml.merges"));
    if (merge_texts.size() > kMaxMerges) {
        return error(Code::kBadFile, fmt::format("{} merges; {} are possible", merge_texts.size(), kMaxMerges),
                     "tokenizer.ggml.merges");
    }
    FORESAY_TRY(MergeTable merges, MergeTable::create(merge_texts, content.tokens));
    FORESAY_TRY(auto pre_tokenizer, PreTokenizer::create(pre->steps));
    return std::make_shared<const BpeVocab>(std::move(content), pre->flags, std::move(merges),
                                            std::move(pre_tokenizer));
}

}  // namespace

Result<std::shared_ptr<const Vocab>> Vocab::load(const gguf::File& file) {
    FORESAY_TRY(const std::string_view model, file.string(kModelKey));
    if (model == "llama") {
        FORESAY_TRY(Content content, read_content(file, Kind::kSpm, model, nullptr));
        return std::make_shared<const SpmVocab>(std::move(content));
    }
    if (model == "gpt2" || model == "gemma4") {
        return load_bpe(file, model);
    }
    return error(Code::kUnsupported, fmt::format("tokenizer '{}' ({}) isn't supported", model, kind_name(model)),
                 std::string(kModelKey), "supported: llama (SPM), gpt2 and gemma4 (BPE)");
}

}  // namespace foresay::vocab
