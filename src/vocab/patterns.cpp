// The patterns as specified, in PCRE2's spelling. Three changes, none of which changes a result:
// - the reference replaces non-ASCII blanks by U+000B before matching, so they never match a literal range: the ranges
// that hold
//   some (U+0800-4E00, U+3000-3002) leave them out here, and the text needs no replacement;
// - `(?=\p{L})([^a-z])` is written as the one class [^\P{L}a-z]: a group repeated once per character would fill the JIT
// stack;
// - what has no linear regex is a step of its own kind.
#include "vocab/patterns.h"

#include <algorithm>
#include <array>

namespace foresay::vocab {

namespace {

#define CON "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define TAIL R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define WORD R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define MARKS R"( ?[^\s\p{L}\p{N}]+[\r\n]*)"
#define GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"
#define LLAMA3_HEAD CON "|" WORD R"(|\p{N}{1,3}|)" MARKS "|"
#define QWEN2_TAIL WORD R"(|\p{N}|)" MARKS "|" TAIL
#define QWEN2 CON "|" QWEN2_TAIL
#define DSV3_CJK R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)"
#define DSV3_HEAD                                         \
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)" \
    R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+)"
#define DSV3 DSV3_HEAD R"([\r\n]*|)" TAIL
#define DS_CJK                                                                                                   \
    R"([\x{4E00}-\x{9FA5}\x{0800}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E})" \
    R"(\x{2060}-\x{2FFF}\x{3001}-\x{4E00}\x{AC00}-\x{D7FF}]+)"
#define BLOOM R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+)"
// Letters that aren't a-z and letters that aren't A-Z: the only case distinction that the reference makes.
#define UPPERISH R"([^\P{L}a-z])"
#define LOWERISH R"([^\P{L}A-Z])"
// The same with marks: all that's neither N, P, S, Z nor C.
#define UPPERISH_M R"([^\p{N}\p{P}\p{S}\p{Z}\p{C}a-z])"
#define LOWERISH_M R"([^\p{N}\p{P}\p{S}\p{Z}\p{C}A-Z])"
#define CASED_WORDS(upper, lower, suffix) \
    R"([^\r\n\p{L}\p{N}]?)" upper "*" lower "+" suffix R"(|[^\r\n\p{L}\p{N}]?)" upper "+" lower "*" suffix
#define SLASH_MARKS R"( ?[^\s\p{L}\p{N}]+[\r\n/]*)"
#define YOUTU_WORDS \
    R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]*[\p{L}\p{M}]+)" CON R"(?|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+[\p{L}\p{M}]*)" CON "?|"
#define HAN \
    R"(\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2EBEF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F})"
#define CASED                                                                                                                    \
    R"(A-Za-z\xB5\xC0-\xD6\xD8-\xF6\xF8-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377})"      \
    R"(\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"         \
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"   \
    R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57})" \
    R"(\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"   \
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113})"  \
    R"(\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"            \
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})"            \
    R"(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})" \
    R"(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"            \
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"

constexpr SplitStep regex(const char* pattern) {
    return {SplitStep::kRegex, pattern};
}

constexpr SplitStep kDefault[] = {regex(R"([\p{P}\$\+<=>\^~\|]+)"), regex(GPT2), regex(R"(\p{N}+)"),
                                  regex("[0-9][0-9][0-9]")};
constexpr SplitStep kGpt2[] = {regex(GPT2)};
constexpr SplitStep kDigit1[] = {regex(R"(\p{N})"), regex(GPT2)};
constexpr SplitStep kFalcon[] = {regex(R"([\p{P}\$\+<=>\^~\|`]+)"), regex(GPT2), regex("[0-9][0-9][0-9]")};
constexpr SplitStep kLlama3[] = {regex(LLAMA3_HEAD TAIL)};
constexpr SplitStep kQwen2[] = {regex(QWEN2)};
constexpr SplitStep kQwen35[] = {
    regex(CON R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" TAIL)};
constexpr SplitStep kDsLlm[] = {
    regex(R"([\r\n])"),
    regex(R"(\s?[)" CASED "]+"),
    regex(R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}-\x{3002}]+)"),
    {SplitStep::kTrailingSpace, nullptr},
    regex(DS_CJK),
    regex(R"(\p{N}+)"),
};
constexpr SplitStep kDsCoder[] = {regex(R"([\r\n])"), regex(R"(\s?\p{L}+)"), regex(R"(\s?\p{P}+)"), regex(DS_CJK),
                                  regex(R"(\p{N})")};
constexpr SplitStep kDsV3[] = {regex(R"(\p{N}{1,3})"), regex(DSV3_CJK), regex(DSV3)};
constexpr SplitStep kTekken[] = {regex(CASED_WORDS(UPPERISH, LOWERISH, "") R"(|\p{N}|)" SLASH_MARKS "|" TAIL)};
constexpr SplitStep kGpt4o[] = {regex(CASED_WORDS(UPPERISH, LOWERISH, CON "?") R"(|\p{N}{1,3}|)" SLASH_MARKS "|" TAIL)};
constexpr SplitStep kGpt4oM[] = {
    regex(CASED_WORDS(UPPERISH_M, LOWERISH_M, CON "?") R"(|\p{N}{1,3}|)" SLASH_MARKS "|" TAIL)};
constexpr SplitStep kNewlines[] = {regex(R"([^\n]+|[\n]+)")};
constexpr SplitStep kBloom[] = {regex(BLOOM)};
constexpr SplitStep kViking[] = {regex(BLOOM), regex(R"(\p{N})")};
constexpr SplitStep kChameleon[] = {
    regex("<sentinel:[0-9]+>"), regex("(?:IMGIMG)(?:[A-I]{1,4})Z"), regex(R"([\t\n]|    |  )"),
    regex(R"(\p{N})"),          regex(R"([\p{P}!-/:-@\[-`{-~])"),   regex(GPT2),
};
// The chunks of 512 are matched as one and cut by the second step: one at a time, the first alternative would look for
// a newline through the whole run again for each of them.
constexpr SplitStep kJais2[] = {
    regex(LLAMA3_HEAD R"(\s*[\r\n]+|(?:\s{512}(?!\S))++|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|)"
                      R"(\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"),
    {SplitStep::kBlankChunks, nullptr},
};
constexpr SplitStep kSeed[] = {regex(CON "|" WORD R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|)" TAIL)};
constexpr SplitStep kBailing[] = {
    regex(R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|)" WORD R"(|\p{N}|)" MARKS R"(|\s*[\r\n]|\s+(?!\S)|\s+)")};
constexpr SplitStep kUfak[] = {regex(QWEN2_TAIL)};
constexpr SplitStep kLaguna[] = {regex(R"([^\n]+|[\n]+)"), regex(QWEN2)};
// Possessive: nothing follows the group, so there is nothing to give back, and no stack to keep per letter.
constexpr SplitStep kExMoe[] = {
    regex(CON R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|)"
              R"(\s*[\r\n]|\s+(?!\S)|\s+)")};
constexpr SplitStep kMiniCpm5[] = {regex(R"(\p{N}{1,3})"), regex(CON "|" WORD R"(|\p{N}+|)" MARKS "|" TAIL)};
constexpr SplitStep kYoutu[] = {
    regex(
        R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|)"
        R"([\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|)"
        R"([\x{3105}-\x{312F}]+|)" DSV3_CJK),
    regex(YOUTU_WORDS R"(\p{N}|)" SLASH_MARKS "|" TAIL),
};
constexpr SplitStep kSpark[] = {regex(R"(\p{N}{1,3})"), regex(DSV3_CJK), regex(DSV3_HEAD R"(|[\r\n]|\s+(?!\S)|\s+)"),
                                regex(R"(\p{N})")};
constexpr SplitStep kSuperBpe[] = {regex(R"(\p{N}+)"), {SplitStep::kAsciiDigitCuts, nullptr}};
constexpr SplitStep kTinyAya[] = {{SplitStep::kDigitsInThrees, nullptr},
                                  regex(YOUTU_WORDS R"(\p{N}{1,3}|)" SLASH_MARKS "|" TAIL)};
constexpr SplitStep kAfmoe[] = {
    {SplitStep::kDigitsInThrees, nullptr},
    regex(
        R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{D7FF}\x{E000}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}\x{FF65}-\x{FF9F})"
        R"(\x{2F00}-\x{2FDF}\x{0E40}-\x{0E7F}\x{0E80}-\x{0EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F})"
        R"(\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+)"),
    regex(DSV3),
};
constexpr SplitStep kKimi[] = {
    regex("[" HAN R"(]+|[^\r\n\p{L}\p{N}]?[^\P{L})" HAN "]+" CON R"(?|\p{N}{1,3}|)" MARKS "|" TAIL)};

#undef CON
#undef TAIL
#undef WORD
#undef MARKS
#undef GPT2
#undef LLAMA3_HEAD
#undef QWEN2_TAIL
#undef QWEN2
#undef DSV3_CJK
#undef DSV3_HEAD
#undef DSV3
#undef DS_CJK
#undef BLOOM
#undef UPPERISH
#undef LOWERISH
#undef UPPERISH_M
#undef LOWERISH_M
#undef CASED_WORDS
#undef SLASH_MARKS
#undef YOUTU_WORDS
#undef HAN
#undef CASED

constexpr uint8_t kLlamaFlags = kIgnoreMerges | kAddBos;

constexpr PreType kPreTypes[] = {
    {"default", kDefault, 0},
    {"llama3", kLlama3, kLlamaFlags},
    {"llama-v3", kLlama3, kLlamaFlags},
    {"llama-bpe", kLlama3, kLlamaFlags},
    {"falcon3", kLlama3, kLlamaFlags},
    {"falcon-h1", kLlama3, kLlamaFlags},
    {"pixtral", kLlama3, kLlamaFlags},
    {"midm-2.0", kLlama3, kLlamaFlags},
    {"lfm2", kLlama3, kLlamaFlags},
    {"jina-v5-nano", kLlama3, kLlamaFlags},
    {"dbrx", kLlama3, 0},
    {"smaug-bpe", kLlama3, 0},
    {"chatglm-bpe", kLlama3, kNoBosDefault},
    {"glm4", kLlama3, kIgnoreMerges | kNoBosDefault},
    {"glm5", kLlama3, kIgnoreMerges | kNoBosDefault},
    {"qwen2", kQwen2, kKeepSpaces},
    {"deepseek-r1-qwen", kQwen2, kKeepSpaces},
    {"kormo", kQwen2, kKeepSpaces},
    {"f2llmv2", kQwen2, kKeepSpaces},
    {"hunyuan", kQwen2, kKeepSpaces},
    {"solar-open", kQwen2, kKeepSpaces},
    {"grok-2", kQwen2, kKeepSpaces},
    {"megrez", kQwen2, 0},
    {"stablelm2", kQwen2, 0},
    {"qwen35", kQwen35, kKeepSpaces},
    {"gpt-2", kGpt2, 0},
    {"phi-2", kGpt2, 0},
    {"jina-es", kGpt2, 0},
    {"jina-de", kGpt2, 0},
    {"jina-v2-es", kGpt2, 0},
    {"jina-v2-de", kGpt2, 0},
    {"gigachat", kGpt2, 0},
    {"a.x-4.0", kGpt2, 0},
    {"mellum", kGpt2, 0},
    {"modern-bert", kGpt2, 0},
    {"mpt", kGpt2, 0},
    {"olmo", kGpt2, 0},
    {"jais", kGpt2, 0},
    {"exaone4", kGpt2, 0},
    {"jina-v1-en", kGpt2, 0},
    {"jina-v2-code", kGpt2, 0},
    {"roberta-bpe", kGpt2, 0},
    {"trillion", kGpt2, kKeepSpaces},
    {"granite-docling", kGpt2, kKeepSpaces},
    {"smollm", kDigit1, kKeepSpaces},
    {"command-r", kDigit1, kKeepSpaces},
    {"starcoder", kDigit1, 0},
    {"refact", kDigit1, 0},
    {"codeshell", kDigit1, 0},
    {"exaone", kDigit1, 0},
    {"minerva-7b", kDigit1, 0},
    {"mellum2", kDigit1, 0},
    {"falcon", kFalcon, 0},
    {"deepseek-llm", kDsLlm, kKeepSpaces},
    {"deepseek-coder", kDsCoder, kKeepSpaces},
    {"deepseek-v3", kDsV3, kKeepSpaces},
    {"hunyuan-dense", kDsV3, kKeepSpaces},
    {"joyai-llm", kDsV3, kKeepSpaces},
    {"hy_v4", kDsV3, kKeepSpaces},
    {"tekken", kTekken, kIgnoreMerges | kAddBos | kKeepSpaces},
    {"gpt-4o", kGpt4o, kKeepSpaces},
    {"llama4", kGpt4o, kKeepSpaces},
    {"kanana2", kGpt4o, kKeepSpaces},
    {"talkie", kGpt4o, kKeepSpaces},
    {"minimax-m2", kGpt4o, kKeepSpaces},
    {"granite-embed-multi-97m", kGpt4oM, kIgnoreMerges | kKeepSpaces},
    {"gemma4", kNewlines, kEscapeSpaces | kForceBos | kNewlineWords},
    {"granite-embed-multi-311m", kNewlines, kEscapeSpaces | kForceBos | kNewlineWords},
    {"sarvam-moe", kNewlines, kEscapeSpaces | kKeepSpaces},
    {"mmbert", kNewlines, kEscapeSpaces | kNewlineWords | kMetaspaceWords},
    {"poro-chat", kBloom, kKeepSpaces},
    {"bloom", kBloom, 0},
    {"gpt3-finnish", kBloom, 0},
    {"viking", kViking, kKeepSpaces},
    {"chameleon", kChameleon, kAddBos | kKeepSpaces},
    {"jais-2", kJais2, 0},
    {"seed-coder", kSeed, kKeepSpaces},
    {"bailingmoe", kBailing, kKeepSpaces},
    {"bailingmoe2", kBailing, kKeepSpaces},
    {"llada-moe", kBailing, kKeepSpaces},
    {"ufakzeka", kUfak, kKeepSpaces},
    {"laguna", kLaguna, kKeepSpaces},
    {"exaone-moe", kExMoe, 0},
    {"minicpm5", kMiniCpm5, kIgnoreMerges},
    {"youtu", kYoutu, kIgnoreMerges | kKeepSpaces},
    {"spark2_5", kSpark, kKeepSpaces},
    {"superbpe", kSuperBpe, kKeepSpaces},
    {"tiny_aya", kTinyAya, kKeepSpaces},
    {"cohere2moe", kTinyAya, kKeepSpaces},
    {"afmoe", kAfmoe, kKeepSpaces},
    {"kimi-k2", kKimi, kKeepSpaces},
};

}  // namespace

std::span<const PreType> pre_types() {
    return kPreTypes;
}

const PreType* find_pre_type(std::string_view name) {
    const auto* found =
        std::find_if(std::begin(kPreTypes), std::end(kPreTypes), [&](const PreType& pre) { return pre.name == name; });
    return found == std::end(kPreTypes) ? nullptr : found;
}

}  // namespace foresay::vocab
