#include "tensor/dtype.h"

#include <array>

#include "base/assert.h"

namespace foresay {

namespace {

struct GgufType {
    std::string_view name;
    int64_t block = 0;
    size_t block_bytes = 0;
};

// Indexed by GGUF id. A block of 0 marks ids that once existed and were retired: their layouts are gone.
constexpr std::array<GgufType, 43> kGgufTypes{{
    {"F32", 1, 4},      {"F16", 1, 2},        {"Q4_0", 32, 18},     {"Q4_1", 32, 20},     {"Q4_2", 0, 0},
    {"Q4_3", 0, 0},     {"Q5_0", 32, 22},     {"Q5_1", 32, 24},     {"Q8_0", 32, 34},     {"Q8_1", 32, 36},
    {"Q2_K", 256, 84},  {"Q3_K", 256, 110},   {"Q4_K", 256, 144},   {"Q5_K", 256, 176},   {"Q6_K", 256, 210},
    {"Q8_K", 256, 292}, {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},  {"IQ3_XXS", 256, 98}, {"IQ1_S", 256, 50},
    {"IQ4_NL", 32, 18}, {"IQ3_S", 256, 110},  {"IQ2_S", 256, 82},   {"IQ4_XS", 256, 136}, {"I8", 1, 1},
    {"I16", 1, 2},      {"I32", 1, 4},        {"I64", 1, 8},        {"F64", 1, 8},        {"IQ1_M", 256, 56},
    {"BF16", 1, 2},     {"Q4_0_4_4", 0, 0},   {"Q4_0_4_8", 0, 0},   {"Q4_0_8_8", 0, 0},   {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66}, {"IQ4_NL_4_4", 0, 0}, {"IQ4_NL_4_8", 0, 0}, {"IQ4_NL_8_8", 0, 0}, {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},  {"Q1_0", 128, 18},    {"Q2_0", 64, 18},
}};

// The types that Foresay computes with.
constexpr std::array<DTypeInfo, 17> kSupported{{
    {DType::kF32, "F32", 1, 4, false, true},
    {DType::kF16, "F16", 1, 2, false, true},
    {DType::kBF16, "BF16", 1, 2, false, true},
    {DType::kQ4_0, "Q4_0", 32, 18, true, true},
    {DType::kQ4_1, "Q4_1", 32, 20, true, true},
    {DType::kQ5_0, "Q5_0", 32, 22, true, true},
    {DType::kQ5_1, "Q5_1", 32, 24, true, true},
    {DType::kQ8_0, "Q8_0", 32, 34, true, true},
    {DType::kQ2_K, "Q2_K", 256, 84, true, true},
    {DType::kQ3_K, "Q3_K", 256, 110, true, true},
    {DType::kQ4_K, "Q4_K", 256, 144, true, true},
    {DType::kQ5_K, "Q5_K", 256, 176, true, true},
    {DType::kQ6_K, "Q6_K", 256, 210, true, true},
    {DType::kIQ4_NL, "IQ4_NL", 32, 18, true, true},
    {DType::kIQ4_XS, "IQ4_XS", 256, 136, true, true},
    {DType::kMXFP4, "MXFP4", 32, 17, true, true},
    {DType::kI32, "I32", 1, 4, false, false},
}};

// Where in kSupported a GGUF id stands, or -1: dtype_info is called per row, so no search.
constexpr std::array<int8_t, kGgufTypes.size()> make_index() {
    std::array<int8_t, kGgufTypes.size()> index{};
    for (auto& slot : index) {
        slot = -1;
    }
    for (size_t i = 0; i < kSupported.size(); ++i) {
        index[static_cast<size_t>(kSupported[i].dtype)] = static_cast<int8_t>(i);
    }
    return index;
}

constexpr auto kIndex = make_index();

bool in_table(int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < kGgufTypes.size();
}

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
    const auto id = static_cast<int32_t>(dtype);
    FORESAY_ASSERT(in_table(id) && kIndex[static_cast<size_t>(id)] >= 0);
    return kSupported[static_cast<size_t>(kIndex[static_cast<size_t>(id)])];
}

std::optional<DType> dtype_from_gguf(int32_t id) {
    if (!in_table(id) || kIndex[static_cast<size_t>(id)] < 0) {
        return std::nullopt;
    }
    return static_cast<DType>(id);
}

std::string_view gguf_type_name(int32_t id) {
    return in_table(id) ? kGgufTypes[static_cast<size_t>(id)].name : std::string_view{};
}

bool gguf_type_size(int32_t id, int64_t* block, size_t* block_bytes) {
    if (!in_table(id) || kGgufTypes[static_cast<size_t>(id)].block == 0) {
        return false;
    }
    *block = kGgufTypes[static_cast<size_t>(id)].block;
    *block_bytes = kGgufTypes[static_cast<size_t>(id)].block_bytes;
    return true;
}

}  // namespace foresay
