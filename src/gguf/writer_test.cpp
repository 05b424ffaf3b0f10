// Writing, and reading back what was written.
#include "gguf/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tensor/dequant.h"

namespace foresay::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Writer full_writer(uint32_t alignment) {
    Writer writer(alignment);
    writer.set("u8", uint8_t{255});
    writer.set("i8", int8_t{-128});
    writer.set("u16", uint16_t{65535});
    writer.set("i16", int16_t{-32768});
    writer.set("u32", uint32_t{4294967295u});
    writer.set("i32", int32_t{-7});
    writer.set("u64", uint64_t{1} << 40);
    writer.set("i64", int64_t{-1} << 40);
    writer.set("f32", 0.5f);
    writer.set("f64", 0.25);
    writer.set("yes", true);
    writer.set("no", false);
    writer.set("literal", "text");
    writer.set("string", std::string("with\0nul", 8));
    writer.set("a.u32", std::vector<uint32_t>{1, 2, 3});
    writer.set("a.i8", std::vector<int8_t>{-1, 1});
    writer.set("a.f32", std::vector<float>{1.5f, -1.5f});
    writer.set("a.bool", std::vector<bool>{true, false, true});
    writer.set("a.string", std::vector<std::string>{"", "x", "yz"});
    writer.set("a.empty", std::vector<uint64_t>{});
    return writer;
}

class RoundTrip : public testing::TestWithParam<uint32_t> {};

TEST_P(RoundTrip, KeepsEveryValueAndTensor) {
    Writer writer = full_writer(GetParam());
    std::vector<float> values(256 * 3);
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i % 17) / 16.0f;
    }
    const int64_t ne[] = {256, 3};
    const std::vector<DType> types{DType::kF32,  DType::kF16,   DType::kQ4_0, DType::kQ6_K,
                                   DType::kQ8_0, DType::kMXFP4, DType::kBF16};
    for (const DType dtype : types) {
        const Status status = writer.add_tensor(dtype_name(dtype), dtype, ne, values);
        ASSERT_TRUE(status.has_value()) << status.error().to_string();
    }
    const int64_t scalar[] = {1};
    writer.add_tensor("int", 26, scalar, std::vector<std::byte>(4, std::byte{9}));
    const auto bytes = writer.to_bytes();
    const auto opened = File::from_bytes(bytes);
    ASSERT_TRUE(opened.has_value()) << opened.error().to_string();
    const File& file = **opened;
    EXPECT_EQ(file.alignment(), GetParam());
    EXPECT_EQ(file.u32("u8").value(), 255u);
    EXPECT_EQ(file.i64("i8").value(), -128);
    EXPECT_EQ(file.u32("u16").value(), 65535u);
    EXPECT_EQ(file.i64("i16").value(), -32768);
    EXPECT_EQ(file.u32("u32").value(), 4294967295u);
    EXPECT_EQ(file.i64("i32").value(), -7);
    EXPECT_EQ(file.i64("u64").value(), 1ll << 40);
    EXPECT_EQ(file.i64("i64").value(), -(1ll << 40));
    EXPECT_EQ(file.f32("f32").value(), 0.5f);
    EXPECT_EQ(file.f32("f64").value(), 0.25f);
    EXPECT_TRUE(file.boolean("yes").value());
    EXPECT_FALSE(file.boolean("no").value());
    EXPECT_EQ(file.string("literal").value(), "text");
    EXPECT_EQ(file.string("string").value(), std::string("with\0nul", 8));
    EXPECT_THAT(file.i64_array("a.u32").value(), ElementsAre(1, 2, 3));
    EXPECT_THAT(file.i64_array("a.i8").value(), ElementsAre(-1, 1));
    EXPECT_THAT(file.f32_array("a.f32").value(), ElementsAre(1.5f, -1.5f));
    EXPECT_THAT(file.i64_array("a.bool").value(), ElementsAre(1, 0, 1));
    EXPECT_THAT(file.string_array("a.string").value(), ElementsAre("", "x", "yz"));
    EXPECT_TRUE(file.i64_array("a.empty").value().empty());
    for (const DType dtype : types) {
        const TensorInfo* tensor = file.tensor(dtype_name(dtype));
        ASSERT_NE(tensor, nullptr);
        EXPECT_THAT(tensor->ne, ElementsAre(256, 3, 1, 1));
        EXPECT_EQ((tensor->data.data() - bytes.data()) % GetParam(), 0);
        std::vector<float> back(values.size());
        dequantize_row(dtype, tensor->data.data(), back.data(), static_cast<int64_t>(back.size()));
        for (size_t i = 0; i < values.size(); ++i) {
            ASSERT_NEAR(back[i], values[i], 0.27f) << dtype_name(dtype);
        }
    }
    EXPECT_EQ(file.tensor("int")->data[3], std::byte{9});
}

INSTANTIATE_TEST_SUITE_P(Alignments, RoundTrip, testing::Values(1u, 8u, 32u, 64u, 4096u),
                         [](const auto& param) { return std::to_string(param.param); });

std::string temporary(const std::string& name) {
    return (std::filesystem::temp_directory_path() / ("foresay_writer_" + std::to_string(getpid()) + name)).string();
}

TEST(Writer, FileAndMemoryAreTheSame) {
    Writer writer = full_writer(32);
    const int64_t ne[] = {5};
    ASSERT_TRUE(writer.add_tensor("t", DType::kF32, ne, std::vector<float>{1, 2, 3, 4, 5}).has_value());
    const std::string path = temporary("same.gguf");
    for (int round = 0; round < 2; ++round) {  // the second time over an existing file
        const Status status = writer.write(path);
        ASSERT_TRUE(status.has_value()) << status.error().to_string();
        const auto bytes = writer.to_bytes();
        EXPECT_EQ(std::filesystem::file_size(path), bytes.size());
        EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
        const auto file = File::open(path);
        ASSERT_TRUE(file.has_value()) << file.error().to_string();
        float last = 0;
        std::memcpy(&last, (*file)->tensor("t")->data.data() + 16, 4);
        EXPECT_EQ(last, 5.0f);
    }
    std::filesystem::remove(path);
}

TEST(Writer, AFullDiskIsReported) {
    if (!std::filesystem::exists("/dev/full")) {
        GTEST_SKIP() << "no /dev/full";
    }
    const Status status = full_writer(32).write("/dev/full");
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, Code::kIo);
    EXPECT_THAT(status.error().to_string(), HasSubstr("/dev/full: the disk is full"));
}

TEST(Writer, AFolderThatIsMissingIsReported) {
    const Status status = full_writer(32).write("/nonexistent/x.gguf");
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, Code::kIo);
    EXPECT_THAT(status.error().to_string(), HasSubstr("can't create the file"));
}

TEST(Writer, ValuesThatATypeCannotHoldAreNamed) {
    Writer writer;
    const int64_t ne[] = {32, 2};
    std::vector<float> values(64, 1.0f);
    values[40] = std::numeric_limits<float>::infinity();
    const Status bad = writer.add_tensor("w", DType::kQ8_0, ne, values);
    ASSERT_FALSE(bad.has_value());
    EXPECT_THAT(bad.error().to_string(), HasSubstr("tensor 'w', row 1: element 8 is inf"));
    const int64_t odd[] = {33};
    const Status partial = writer.add_tensor("w", DType::kQ8_0, odd, std::vector<float>(33));
    ASSERT_FALSE(partial.has_value());
    EXPECT_EQ(partial.error().code, Code::kInvalidArgument);
    EXPECT_TRUE(File::from_bytes(writer.to_bytes()).has_value()) << "nothing half-added";
}

}  // namespace
}  // namespace foresay::gguf
