// The element types: table, half-precision conversions, block decoding against the format's conformance vectors,
// encoding.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tensor/dequant.h"
#include "tensor/dtype.h"
#include "tensor/fp.h"
#include "tensor/quantize.h"

namespace foresay {
namespace {

constexpr std::array kWeightTypes{
    DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,   DType::kQ5_1,   DType::kQ8_0,
    DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4,
};

std::string type_label(const testing::TestParamInfo<DType>& param) {
    return std::string(dtype_name(param.param));
}

/// CRC-32 of zlib and IEEE 802.3, bit by bit: the vectors are a kilobyte.
uint32_t crc32(const std::vector<uint8_t>& data) {
    uint32_t crc = 0xffffffffu;
    for (const uint8_t byte : data) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
        }
    }
    return ~crc;
}

/// The block of shared/spec/gguf-and-quants.md, section 5: a fixed stream of bytes with the scales set to one.
std::vector<std::byte> conformance_block(DType dtype) {
    std::vector<std::byte> block(dtype_info(dtype).block_bytes);
    uint32_t s = 0x12345678u;
    for (std::byte& b : block) {
        s = 1664525u * s + 1013904223u;
        b = static_cast<std::byte>(s >> 24);
    }
    const auto set_one = [&](size_t at) {
        block[at] = std::byte{0x00};
        block[at + 1] = std::byte{0x3c};
    };
    switch (dtype) {
        case DType::kQ4_1:
        case DType::kQ5_1:
        case DType::kQ4_K:
        case DType::kQ5_K:
            set_one(0);
            set_one(2);
            break;
        case DType::kQ2_K:
            set_one(80);
            set_one(82);
            break;
        case DType::kQ3_K:
            set_one(108);
            break;
        case DType::kQ6_K:
            set_one(208);
            break;
        case DType::kMXFP4:
            block[0] = std::byte{128};
            break;
        default:
            set_one(0);
            break;
    }
    return block;
}

struct Vector {
    DType dtype;
    std::array<float, 6> first;
    int64_t sum8;
    uint32_t crc;
};

class Conformance : public testing::TestWithParam<Vector> {};

TEST_P(Conformance, DecodesTheBlockOfTheSpecification) {
    const Vector& want = GetParam();
    const std::vector<std::byte> block = conformance_block(want.dtype);
    const int64_t n = dtype_info(want.dtype).block;
    std::vector<float> x(static_cast<size_t>(n));
    dequantize_row(want.dtype, block.data(), x.data(), n);
    int64_t sum = 0;
    std::vector<uint8_t> bytes;
    for (size_t e = 0; e < x.size(); ++e) {
        if (e < want.first.size()) {
            EXPECT_EQ(x[e], want.first[e]) << "element " << e;
        }
        const auto eight = static_cast<int32_t>(x[e] * 8.0f);
        EXPECT_EQ(static_cast<float>(eight), x[e] * 8.0f) << "element " << e;
        sum += eight;
        for (int k = 0; k < 4; ++k) {
            bytes.push_back(static_cast<uint8_t>(static_cast<uint32_t>(eight) >> (8 * k)));
        }
    }
    EXPECT_EQ(sum, want.sum8);
    EXPECT_EQ(crc32(bytes), want.crc);
}

INSTANTIATE_TEST_SUITE_P(Spec, Conformance,
                         testing::Values(Vector{DType::kQ4_0, {-3, 3, -4, -6, 2, -6}, -376, 0x10f6d063},
                                         Vector{DType::kQ4_1, {5, 3, 11, 3, 7, 2}, 1968, 0x6b709e3b},
                                         Vector{DType::kQ5_0, {10, -14, 6, -15, -16, 7}, -760, 0xa36ecca3},
                                         Vector{DType::kQ5_1, {7, 2, 17, 8, 4, 5}, 3952, 0x65615aa2},
                                         Vector{DType::kQ8_0, {37, 75, -124, -30, -22, -14}, 152, 0x1fda99cc},
                                         Vector{DType::kQ2_K, {8, 3, -2, -7, 8, 3}, 2112, 0x4d738788},
                                         Vector{DType::kQ3_K, {-36, -12, -12, -24, 24, 48}, -11144, 0x6c9438a8},
                                         Vector{DType::kQ4_K, {6, -30, -2, -22, -26, -14}, 586880, 0xbf0aa14d},
                                         Vector{DType::kQ5_K, {82, 6, 66, -10, 46, -22}, 1323584, 0x9ed96c72},
                                         Vector{DType::kQ6_K, {1242, -1334, -230, 230, 552, 644}, 142664, 0x08db932f},
                                         Vector{DType::kIQ4_NL, {-35, 38, -49, -83, 25, -83}, -4640, 0x2a41da33},
                                         Vector{DType::kIQ4_XS, {264, 1248, 1524, 120, 780, 588}, -9464, 0xe60ba3e4},
                                         Vector{DType::kMXFP4, {-6, 6, -3, 4, 2, -2}, 160, 0x7f13c896}),
                         [](const auto& param) { return std::string(dtype_name(param.param.dtype)); });

TEST(Half, EveryF16ValueSurvivesTheRoundTrip) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const auto h = static_cast<uint16_t>(bits);
        const float f = f16_to_f32(h);
        const bool is_nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff) != 0;
        EXPECT_EQ(std::isnan(f), is_nan);
        ASSERT_EQ(f32_to_f16(f), is_nan ? (h | 0x200) : h) << "bits " << bits;
        if (!is_nan && (h & 0x7c00) != 0x7c00) {
            const int exponent = (h >> 10) & 31;
            const double value =
                exponent == 0 ? std::ldexp(h & 0x3ff, -24) : std::ldexp(1024 + (h & 0x3ff), exponent - 25);
            ASSERT_EQ(f, static_cast<float>((h & 0x8000) != 0 ? -value : value)) << "bits " << bits;
        }
    }
}

TEST(Half, EveryBf16ValueSurvivesTheRoundTrip) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const auto b = static_cast<uint16_t>(bits);
        const float f = bf16_to_f32(b);
        ASSERT_EQ(std::bit_cast<uint32_t>(f), bits << 16);
        ASSERT_EQ(f32_to_bf16(f), std::isnan(f) ? (b | 0x40) : b) << "bits " << bits;
    }
}

TEST(Half, MidpointsRoundToEvenAndNeighboursToTheNearest) {
    for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
        const float low = f16_to_f32(static_cast<uint16_t>(bits));
        // The last step goes to the value where infinity begins.
        const float high = bits == 0x7bff ? 65536.0f : f16_to_f32(static_cast<uint16_t>(bits + 1));
        const float middle = low + (high - low) / 2;
        const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
        ASSERT_EQ(f32_to_f16(middle), even) << "bits " << bits;
        ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits);
        ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9f)), bits + 1);
        ASSERT_EQ(f32_to_f16(-middle), 0x8000u | even);
    }
    EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::max()), 0x7c00);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
    EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Mxfp4, ScalesArePowersOfTwoDownToTheSubnormals) {
    for (int e = 0; e < 255; ++e) {
        ASSERT_EQ(mxfp4_half_scale(static_cast<uint8_t>(e)), static_cast<float>(std::ldexp(1.0, e - 128))) << e;
    }
}

TEST(DTypeTable, KnowsEveryIdOfTheFormat) {
    int supported = 0;
    for (int32_t id = -2; id < 100; ++id) {
        int64_t block = 0;
        size_t bytes = 0;
        const bool has_size = gguf_type_size(id, &block, &bytes);
        const bool retired = id == 4 || id == 5 || (id >= 31 && id <= 33) || (id >= 36 && id <= 38);
        EXPECT_EQ(gguf_type_name(id).empty(), id < 0 || id > 42) << id;
        EXPECT_EQ(has_size, id >= 0 && id <= 42 && !retired) << id;
        if (const auto dtype = dtype_from_gguf(id)) {
            ++supported;
            EXPECT_EQ(dtype_info(*dtype).dtype, *dtype);
            EXPECT_EQ(dtype_info(*dtype).name, gguf_type_name(id));
            EXPECT_EQ(dtype_info(*dtype).block, block);
            EXPECT_EQ(dtype_info(*dtype).block_bytes, bytes);
        }
    }
    EXPECT_EQ(supported, 17);
    EXPECT_EQ(gguf_type_name(16), "IQ2_XXS");
    EXPECT_EQ(row_bytes(DType::kQ6_K, 512), 420u);
}

class EveryType : public testing::TestWithParam<DType> {};

/// Worst error of one code step, as a share of the largest magnitude in the block, for values spread over +-1.
float tolerance(DType dtype) {
    switch (dtype) {
        case DType::kF32:
            return 0.0f;
        case DType::kF16:
            return 0x1p-11f;
        case DType::kBF16:
            return 0x1p-8f;
        case DType::kQ8_0:
            return 0.0045f;
        case DType::kQ6_K:
            return 0.04f;
        case DType::kQ5_1:
            return 0.035f;
        case DType::kQ5_0:
            return 0.065f;
        case DType::kQ5_K:
            return 0.06f;
        case DType::kQ4_1:
        case DType::kQ4_K:
            return 0.1f;
        case DType::kQ4_0:
            return 0.13f;
        case DType::kIQ4_NL:
        case DType::kIQ4_XS:
            return 0.16f;
        case DType::kMXFP4:
            return 0.26f;  // codes are 4 and 6 where the largest element may be just under 8
        case DType::kQ3_K:
            return 0.3f;
        case DType::kQ2_K:
            return 0.42f;
        case DType::kI32:
            break;
    }
    return 0.0f;
}

TEST_P(EveryType, EncodingLosesNoMoreThanOneStep) {
    const DType dtype = GetParam();
    const int64_t n = 4096;
    std::mt19937 random(7);  // fixed seed: the bounds are those of this data
    // Not smaller: a scale that is subnormal as f16 has fewer bits, and the bounds below assume all of them.
    for (const float scale : {1.0f, 0.05f, 100.0f}) {
        std::uniform_real_distribution<float> uniform(-scale, scale);
        std::vector<float> v(static_cast<size_t>(n));
        for (float& x : v) {
            x = uniform(random);
        }
        std::vector<std::byte> row(row_bytes(dtype, n));
        ASSERT_TRUE(quantize_row(dtype, v.data(), row.data(), n).has_value());
        std::vector<float> back(v.size());
        dequantize_row(dtype, row.data(), back.data(), n);
        for (size_t i = 0; i < v.size(); ++i) {
            ASSERT_LE(std::fabs(v[i] - back[i]), tolerance(dtype) * scale) << "element " << i << " of scale " << scale;
        }
    }
}

TEST_P(EveryType, ZeroStaysZeroAndTinyValuesStayFinite) {
    const DType dtype = GetParam();
    for (const float value : {0.0f, -0.0f, 1e-40f, -3e-39f, std::numeric_limits<float>::denorm_min()}) {
        const std::vector<float> v(256, value);
        std::vector<std::byte> row(row_bytes(dtype, 256), std::byte{0xff});
        ASSERT_TRUE(quantize_row(dtype, v.data(), row.data(), 256).has_value());
        std::vector<float> back(256);
        dequantize_row(dtype, row.data(), back.data(), 256);
        for (const float x : back) {
            ASSERT_LE(std::fabs(x), 2 * std::fabs(value));
        }
    }
}

TEST_P(EveryType, RowsDecodeAtAnyByteAddress) {
    const DType dtype = GetParam();
    std::vector<float> v(512);
    for (size_t i = 0; i < v.size(); ++i) {
        v[i] = std::sin(static_cast<float>(i));
    }
    std::vector<std::byte> row(row_bytes(dtype, 512) + 1);
    ASSERT_TRUE(quantize_row(dtype, v.data(), row.data(), 512).has_value());
    std::vector<float> aligned(512);
    dequantize_row(dtype, row.data(), aligned.data(), 512);
    ASSERT_TRUE(quantize_row(dtype, v.data(), row.data() + 1, 512).has_value());
    std::vector<float> shifted(512);
    dequantize_row(dtype, row.data() + 1, shifted.data(), 512);
    EXPECT_EQ(aligned, shifted);
}

TEST_P(EveryType, RefusesWhatItCannotStore) {
    const DType dtype = GetParam();
    const int64_t block = dtype_info(dtype).block;
    std::vector<float> v(256, 1.0f);
    std::vector<std::byte> row(row_bytes(dtype, 256));
    if (block > 1) {
        const Status partial = quantize_row(dtype, v.data(), row.data(), block - 1);
        ASSERT_FALSE(partial.has_value());
        EXPECT_EQ(partial.error().code, Code::kInvalidArgument);
        v[3] = std::numeric_limits<float>::quiet_NaN();
        const Status nan = quantize_row(dtype, v.data(), row.data(), 256);
        ASSERT_FALSE(nan.has_value());
        EXPECT_NE(nan.error().message.find("element 3"), std::string::npos);
    }
    if (block > 1 && dtype != DType::kMXFP4) {
        v[3] = 3e38f;
        EXPECT_FALSE(quantize_row(dtype, v.data(), row.data(), 256).has_value());
    }
}

INSTANTIATE_TEST_SUITE_P(Types, EveryType, testing::ValuesIn(kWeightTypes), type_label);

TEST(Quantize, RefusesIntegers) {
    const float v = 1.0f;
    std::byte out[4];
    EXPECT_FALSE(quantize_row(DType::kI32, &v, out, 1).has_value());
}

TEST(Quantize, PlainTypesFollowTheReferenceRule) {
    // 4.4: the largest magnitude keeps its sign and maps to code 0; halves are cut after adding 8.5.
    std::vector<float> v(32, 0.0f);
    v[0] = -8.0f;
    v[1] = 7.0f;
    v[16] = 0.5f;
    std::vector<std::byte> row(18);
    ASSERT_TRUE(quantize_row(DType::kQ4_0, v.data(), row.data(), 32).has_value());
    EXPECT_EQ(std::to_integer<int>(row[2]), 0x90);  // 0.5 + 8.5 = 9
    EXPECT_EQ(std::to_integer<int>(row[3]), 0x8f);
    EXPECT_EQ(std::to_integer<int>(row[1]), 0x3c);
}

}  // namespace
}  // namespace foresay
