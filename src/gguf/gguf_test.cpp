// Reading: good files, typed access, and a table of hostile files with the error that each must give. Read next:
// writer_test.cpp.
#include "gguf/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gguf/test_bytes.h"
#include "tensor/dequant.h"

namespace foresay::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// One string key and two tensors; the base that hostile cases vary.
Raw good_file() {
    Raw raw;
    raw.head(2, 2);
    raw.key("general.architecture").i32(8).text("test");
    raw.key("general.alignment").i32(4).u32(32);
    raw.tensor("a", {4, 2}, 0, 0);
    raw.tensor("b", {32}, 8, 32);
    raw.pad(32).zeros(32 + 34);
    return raw;
}

/// One metadata record, written by `add`.
Raw with_record(const std::function<void(Raw*)>& add) {
    Raw raw;
    raw.head(0, 1);
    add(&raw);
    return raw;
}

/// One tensor record, written by `add`, and `data_bytes` of data.
Raw with_tensor(const std::function<void(Raw*)>& add, size_t data_bytes = 64) {
    Raw raw;
    raw.head(1, 0);
    add(&raw);
    raw.pad(32).zeros(data_bytes);
    return raw;
}

struct Hostile {
    const char* name;
    std::function<Raw()> make;
    Code code;
    const char* message;
};

void PrintTo(const Hostile& hostile, std::ostream* out) {
    *out << hostile.name;
}

class HostileFile : public testing::TestWithParam<Hostile> {};

TEST_P(HostileFile, IsRefusedWithItsReason) {
    const Raw raw = GetParam().make();
    const auto file = File::from_bytes(raw.bytes(), "evil.gguf");
    ASSERT_FALSE(file.has_value());
    EXPECT_EQ(file.error().code, GetParam().code) << file.error().to_string();
    EXPECT_THAT(file.error().to_string(), HasSubstr(GetParam().message));
    EXPECT_THAT(file.error().where, HasSubstr("evil.gguf"));
}

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
constexpr Code kBad = Code::kBadFile;
constexpr Code kNo = Code::kUnsupported;

const Hostile kHostile[] = {
    {"empty", [] { return Raw(); }, kBad, "ends inside the magic"},
    {"three_bytes", [] { return Raw().literal("GGU"); }, kBad, "ends inside the magic"},
    {"bad_magic", [] { return Raw().literal("GGML").zeros(40); }, kBad, "not a GGUF file"},
    {"swapped_magic", [] { return Raw().literal("FUGG").zeros(40); }, kBad, "not a GGUF file"},
    {"version_0", [] { return Raw().head(0, 0, 0); }, kNo, "version 0"},
    {"version_1", [] { return Raw().head(0, 0, 1); }, kNo, "version 1"},
    {"version_4", [] { return Raw().head(0, 0, 4); }, kNo, "version 4"},
    {"big_endian", [] { return Raw().head(0, 0, 0x03000000); }, kNo, "big-endian"},
    {"no_counts", [] { return Raw().literal("GGUF").u32(3); }, kBad, "ends inside the counts"},
    {"negative_tensor_count", [] { return Raw().head(-1, 0).zeros(100); }, kBad, "-1 tensors"},
    {"negative_value_count", [] { return Raw().head(0, -1).zeros(100); }, kBad, "-1 metadata"},
    {"huge_tensor_count", [] { return Raw().head(kHuge, 0).zeros(100); }, kBad, "can't fit in 100 bytes"},
    {"huge_value_count", [] { return Raw().head(0, kHuge).zeros(100); }, kBad, "can't fit in 100 bytes"},
    {"one_record_too_many", [] { return good_file().patch(16, int64_t{3}); }, kBad, "evil.gguf: "},
    {"huge_key", [] { return with_record([](Raw* r) { r->u64(~0ull).zeros(20); }); }, kBad, "more than 65535"},
    {"key_past_end", [] { return with_record([](Raw* r) { r->u64(60000).zeros(20); }); }, kBad, "ends inside the key"},
    {"empty_key", [] { return with_record([](Raw* r) { r->key("").i32(0).zeros(9); }); }, kBad, "key is empty"},
    {"nul_in_key", [] { return with_record([](Raw* r) { r->key(std::string("a\0b", 3)).i32(0).zeros(9); }); }, kBad,
     "'a\\x00b': the key holds a NUL"},
    {"value_type_13", [] { return with_record([](Raw* r) { r->key("k").i32(13).zeros(9); }); }, kBad, "type 13"},
    {"value_type_negative", [] { return with_record([](Raw* r) { r->key("k").i32(-1).zeros(9); }); }, kBad, "type -1"},
    {"value_cut", [] { return with_record([](Raw* r) { r->key("kkkk").i32(10).zeros(7); }); }, kBad,
     "ends inside the value"},
    {"bool_2", [] { return with_record([](Raw* r) { r->key("k").i32(7).zeros(1).patch(37, uint8_t{2}); }); }, kBad,
     "bool is 2"},
    {"string_past_end", [] { return with_record([](Raw* r) { r->key("k").i32(8).u64(1000).zeros(9); }); }, kBad,
     "ends inside the string of 1000"},
    {"string_over_limit", [] { return with_record([](Raw* r) { r->key("k").i32(8).u64(1ull << 31); }); }, kBad,
     "more than 1073741824"},
    {"string_wraps", [] { return with_record([](Raw* r) { r->key("k").i32(8).u64(~0ull - 8); }); }, kBad, "more than"},
    {"nested_array", [] { return with_record([](Raw* r) { r->key("k").i32(9).i32(9).u64(1).zeros(12); }); }, kBad,
     "arrays of arrays"},
    {"array_type_13", [] { return with_record([](Raw* r) { r->key("k").i32(9).i32(13).u64(0); }); }, kBad,
     "element type 13"},
    {"array_head_cut", [] { return with_record([](Raw* r) { r->key("kk").i32(9).i32(0); }); }, kBad, "array's head"},
    {"array_too_long", [] { return with_record([](Raw* r) { r->key("k").i32(9).i32(0).u64((1ull << 30) + 1); }); },
     kBad, "too long"},
    {"array_wraps", [] { return with_record([](Raw* r) { r->key("k").i32(9).i32(10).u64(1ull << 61).zeros(9); }); },
     kBad, "too long"},
    {"array_past_end", [] { return with_record([](Raw* r) { r->key("k").i32(9).i32(4).u64(3).zeros(11); }); }, kBad,
     "3 elements can't fit in 11"},
    {"string_array_past_end", [] { return with_record([](Raw* r) { r->key("k").i32(9).i32(8).u64(3).zeros(23); }); },
     kBad, "3 elements can't fit in 23"},
    {"string_in_array_past_end",
     [] { return with_record([](Raw* r) { r->key("k").i32(9).i32(8).u64(2).text("a").u64(99); }); }, kBad,
     "string 1 of the array, of 99"},
    {"string_in_array_over_limit",
     [] { return with_record([](Raw* r) { r->key("k").i32(9).i32(8).u64(1).u64(~0ull); }); }, kBad,
     "string 0 of the array has"},
    {"string_array_cut", [] { return with_record([](Raw* r) { r->key("k").i32(9).i32(8).u64(2).text("aaaaaaaa"); }); },
     kBad, "ends inside string 1"},
    {"bool_array_2",
     [] { return with_record([](Raw* r) { r->key("k").i32(9).i32(7).u64(2).zeros(1).literal("\x02"); }); }, kBad,
     "neither 0 nor 1"},
    {"duplicate_key", [] { return Raw().head(0, 3).u8_record("x").u8_record("y").u8_record("x"); }, kBad,
     "key 'x': the key occurs twice"},
    {"alignment_0", [] { return with_record([](Raw* r) { r->key("general.alignment").i32(4).u32(0); }); }, kBad,
     "not a power of two"},
    {"alignment_24", [] { return with_record([](Raw* r) { r->key("general.alignment").i32(4).u32(24); }); }, kBad,
     "24, not a power of two"},
    {"alignment_huge", [] { return with_record([](Raw* r) { r->key("general.alignment").i32(4).u32(1u << 31); }); },
     kBad, "more than 1048576"},
    {"alignment_u64", [] { return with_record([](Raw* r) { r->key("general.alignment").i32(10).u64(32); }); }, kBad,
     "type uint64, not uint32"},
    {"tensor_name_empty", [] { return with_tensor([](Raw* r) { r->tensor("", {4}, 0, 0); }); }, kBad, "name is empty"},
    {"tensor_name_64", [] { return with_tensor([](Raw* r) { r->tensor(std::string(64, 'x'), {4}, 0, 0); }); }, kBad,
     "64 bytes, more than 63"},
    {"tensor_name_nul", [] { return with_tensor([](Raw* r) { r->tensor(std::string("a\0", 2), {4}, 0, 0); }); }, kBad,
     "NUL"},
    {"tensor_name_huge", [] { return with_tensor([](Raw* r) { r->u64(~0ull).zeros(40); }); }, kBad, "more than 63"},
    {"n_dims_0", [] { return with_tensor([](Raw* r) { r->tensor("t", {}, 0, 0); }); }, kBad, "0 dimensions"},
    {"n_dims_5", [] { return with_tensor([](Raw* r) {
                          r->tensor("t", {1, 1, 1, 1, 1}, 0, 0);
                      }); }, kBad,
     "tensor 't': 5 dimensions"},
    {"n_dims_max", [] { return with_tensor([](Raw* r) { r->text("t").u32(~0u).zeros(40); }); }, kBad,
     "4294967295 dimensions"},
    {"dim_0", [] { return with_tensor([](Raw* r) {
                       r->tensor("t", {4, 0}, 0, 0);
                   }); }, kBad, "dimension 1 is 0"},
    {"dim_negative", [] { return with_tensor([](Raw* r) { r->tensor("t", {-4}, 0, 0); }); }, kBad, "dimension 0 is -4"},
    {"dims_overflow", [] { return with_tensor([](Raw* r) {
                               r->tensor("t", {kHuge, 2}, 0, 0);
                           }); }, kBad, "2^63"},
    {"dims_overflow_to_zero",
     [] { return with_tensor([](Raw* r) {
              r->tensor("t", {1ll << 32, 1ll << 32, 1}, 0, 0);
          }); }, kBad, "2^63"},
    {"bytes_overflow", [] { return with_tensor([](Raw* r) { r->tensor("t", {kHuge}, 28, 0); }); }, kBad,
     "exceeds 64 bits"},
    {"bytes_wrap_padding", [] { return with_tensor([](Raw* r) { r->tensor("t", {kHuge}, 1, 0); }); }, kBad,
     "exceeds 64 bits"},
    {"partial_block", [] { return with_tensor([](Raw* r) { r->tensor("t", {33}, 8, 0); }); }, kBad,
     "33 elements are not a multiple of the block of 32 of type Q8_0"},
    {"partial_row_whole_tensor", [] { return with_tensor([](Raw* r) {
                                          r->tensor("t", {16, 2}, 8, 0);
                                      }); }, kBad,
     "not a multiple"},
    {"type_retired", [] { return with_tensor([](Raw* r) { r->tensor("t", {32}, 4, 0); }); }, kNo,
     "type 4 (Q4_2) is retired"},
    {"type_retired_repacked", [] { return with_tensor([](Raw* r) { r->tensor("t", {32}, 31, 0); }); }, kNo,
     "retired (quantise the model again)"},
    {"type_unknown", [] { return with_tensor([](Raw* r) { r->tensor("t", {32}, 77, 0); }); }, kNo,
     "type 77 is unknown"},
    {"type_negative", [] { return with_tensor([](Raw* r) { r->tensor("t", {32}, -1, 0); }); }, kNo,
     "type -1 is unknown"},
    {"offset_misaligned", [] { return with_tensor([](Raw* r) { r->tensor("t", {4}, 0, 16); }); }, kBad,
     "offset 16 is not a multiple"},
    {"offset_past_end", [] { return with_tensor([](Raw* r) { r->tensor("t", {4}, 0, 96); }); }, kBad, "reach past"},
    {"offset_wraps", [] { return with_tensor([](Raw* r) { r->tensor("t", {4}, 0, ~0ull - 31); }); }, kBad,
     "reach past"},
    {"data_cut", [] { return with_tensor([](Raw* r) { r->tensor("t", {4}, 0, 0); }, 15); }, kBad,
     "16 bytes at offset 0 reach past the end of the tensor data (15 bytes)"},
    {"no_padding", [] { return Raw().head(1, 0).tensor("t", {4}, 0, 0); }, kBad, "padding before the tensor data"},
    {"alignment_beyond_file",
     [] { return Raw().head(1, 1).key("general.alignment").i32(4).u32(1 << 20).tensor("t", {4}, 0, 0).zeros(64); },
     kBad, "padding before the tensor data"},
    {"overlap", [] { return Raw().head(2, 0).tensor("a", {16}, 0, 0).tensor("b", {4}, 0, 32).pad(32).zeros(64); }, kBad,
     "tensor 'b': its data overlaps that of tensor 'a'"},
    {"overlap_reversed",
     [] { return Raw().head(2, 0).tensor("a", {4}, 0, 32).tensor("b", {16}, 0, 0).pad(32).zeros(64); }, kBad,
     "tensor 'a': its data overlaps that of tensor 'b'"},
    {"same_place", [] { return Raw().head(2, 0).tensor("a", {4}, 0, 0).tensor("b", {4}, 0, 0).pad(32).zeros(64); },
     kBad, "overlaps"},
    {"duplicate_tensor",
     [] { return Raw().head(2, 0).tensor("a", {4}, 0, 0).tensor("a", {4}, 0, 32).pad(32).zeros(64); }, kBad,
     "tensor 'a': a tensor of this name occurs twice"},
    {"terminal_escape_in_name", [] { return with_record([](Raw* r) { r->key("\x1b[2J").i32(99).zeros(9); }); }, kBad,
     "'\\x1b[2J'"},
    {"shard_in_memory",
     [] {
         return Raw()
             .head(0, 3)
             .key("split.count")
             .i32(2)
             .u16(2)
             .key("split.no")
             .i32(2)
             .u16(0)
             .key("split.tensors.count")
             .i32(5)
             .u32(0);
     },
     kNo, "split model can't be read from memory"},
    {"split_without_number", [] { return with_record([](Raw* r) { r->key("split.count").i32(2).u16(2); }); }, kBad,
     "key 'split.no': a shard of a split model lacks this key"},
    {"split_count_float", [] { return with_record([](Raw* r) { r->key("split.count").i32(6).u32(0x40000000); }); },
     kBad, "float32, expected an integer"},
    {"split_count_huge", [] { return with_record([](Raw* r) { r->key("split.count").i32(4).u32(70000); }); }, kBad,
     "70000 shards are too many"},
};

INSTANTIATE_TEST_SUITE_P(Table, HostileFile, testing::ValuesIn(kHostile),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(GgufFile, IsRefusedWhenCutAtAnyByte) {
    const Raw raw = good_file();
    ASSERT_TRUE(File::from_bytes(raw.bytes()).has_value());
    for (size_t n = 0; n < raw.bytes().size(); ++n) {
        // A copy of the exact size: reading one byte too far is then an error that the sanitisers see.
        const std::vector<std::byte> cut(raw.bytes().begin(), raw.bytes().begin() + static_cast<ptrdiff_t>(n));
        const auto file = File::from_bytes(cut);
        ASSERT_FALSE(file.has_value()) << n << " bytes";
        EXPECT_EQ(file.error().code, Code::kBadFile) << n << " bytes: " << file.error().to_string();
    }
}

TEST(GgufFile, SurvivesEveryByteValueAtEveryPlace) {
    const Raw raw = good_file();
    std::vector<std::byte> bytes = raw.bytes();
    for (std::byte& b : bytes) {
        const std::byte before = b;
        for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
            b = static_cast<std::byte>(value);
            if (const auto file = File::from_bytes(bytes)) {
                for (const TensorInfo& tensor : (*file)->tensors()) {
                    EXPECT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size());
                }
            }
        }
        b = before;
    }
}

TEST(GgufFile, ReadsTheGoodFile) {
    const Raw raw = good_file();
    const auto file = File::from_bytes(raw.bytes(), "good");
    ASSERT_TRUE(file.has_value()) << file.error().to_string();
    const File& f = **file;
    EXPECT_EQ(f.path(), "good");
    EXPECT_EQ(f.version(), 3u);
    EXPECT_EQ(f.file_bytes(), raw.bytes().size());
    EXPECT_EQ(f.n_shards(), 1);
    EXPECT_EQ(f.alignment(), 32u);
    ASSERT_EQ(f.values().size(), 2u);
    EXPECT_EQ(f.values()[0].key, "general.architecture");
    EXPECT_EQ(f.find("nothing"), nullptr);
    ASSERT_EQ(f.tensors().size(), 2u);
    const TensorInfo* a = f.tensor("a");
    ASSERT_NE(a, nullptr);
    EXPECT_EQ(a->n_dims, 2);
    EXPECT_THAT(a->ne, ElementsAre(4, 2, 1, 1));
    EXPECT_EQ(a->bytes, 32u);
    const TensorInfo* b = f.tensor("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->data.data() - a->data.data(), 32);
    EXPECT_EQ(f.tensor("c"), nullptr);
    f.drop_pages(a->data);  // of memory that is no mapping: nothing happens
}

TEST(GgufFile, AcceptsWhatTheFormatAllows) {
    EXPECT_TRUE(File::from_bytes(Raw().head(0, 0).bytes()).has_value()) << "nothing in it";
    EXPECT_TRUE(File::from_bytes(Raw().head(0, 0, 2).bytes()).has_value()) << "version 2";
    const Raw other_order = Raw().head(2, 0).tensor("a", {4}, 0, 64).tensor("b", {4}, 0, 0).pad(32).zeros(64 + 16);
    EXPECT_TRUE(File::from_bytes(other_order.bytes()).has_value()) << "gaps and another order";
    const Raw unaligned = Raw().head(1, 1).key("general.alignment").i32(4).u32(1).tensor("a", {1}, 0, 0).zeros(4);
    EXPECT_TRUE(File::from_bytes(unaligned.bytes()).has_value()) << "alignment 1";
    const Raw unsupported_type = with_tensor([](Raw* r) { r->tensor("t", {256}, 16, 0); }, 66);
    const auto file = File::from_bytes(unsupported_type.bytes());
    ASSERT_TRUE(file.has_value()) << "types without kernels are the loader's business";
    EXPECT_EQ((*file)->tensors()[0].bytes, 66u);
    const Raw empty_array = with_record([](Raw* r) { r->key("k").i32(9).i32(8).u64(0); });
    EXPECT_TRUE(File::from_bytes(empty_array.bytes()).has_value());
    const Raw one_shard = with_record([](Raw* r) { r->key("split.count").i32(2).u16(1); });
    EXPECT_TRUE(File::from_bytes(one_shard.bytes()).has_value());
}

TEST(GgufFile, FilesThatAreNoneAreNamed) {
    const auto missing = File::open("/nonexistent/model.gguf");
    ASSERT_FALSE(missing.has_value());
    EXPECT_EQ(missing.error().code, Code::kNotFound);
    EXPECT_THAT(missing.error().to_string(), HasSubstr("/nonexistent/model.gguf"));
    const auto folder = File::open("/tmp");
    ASSERT_FALSE(folder.has_value());
    EXPECT_EQ(folder.error().code, Code::kIo);
    EXPECT_THAT(folder.error().message, HasSubstr("folder"));
    const auto device = File::open("/dev/zero");
    ASSERT_FALSE(device.has_value());
    EXPECT_EQ(device.error().code, Code::kIo);
    EXPECT_EQ(File::open("/proc/self/status").error().code, Code::kBadFile) << "its size is zero";
}

// --- shards ---

class Shards : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = std::filesystem::temp_directory_path() / ("foresay_gguf_test_" + std::to_string(getpid()));
        std::filesystem::create_directories(folder_);
    }

    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string path(int i, int n) const {
        char name[64];
        std::snprintf(name, sizeof(name), "m-%05d-of-%05d.gguf", i, n);
        return (folder_ / name).string();
    }

    void store(const std::string& file, const Raw& raw) const {
        std::ofstream(file, std::ios::binary)
            .write(reinterpret_cast<const char*>(raw.bytes().data()), static_cast<std::streamsize>(raw.bytes().size()));
    }

    static Raw shard(uint16_t no, uint16_t count, int32_t total, const std::string& tensor, uint32_t alignment = 32) {
        Raw raw;
        raw.head(1, 4).key("split.no").i32(2).u16(no).key("split.count").i32(2).u16(count);
        raw.key("split.tensors.count").i32(5).i32(total).key("general.alignment").i32(4).u32(alignment);
        raw.tensor(tensor, {4}, 0, 0)
            .pad(alignment)
            .zeros(12)
            .literal(std::string(1, static_cast<char>(no)) + "\0\0\0");
        return raw.zeros(3);
    }

    void refuses(const std::string& file, Code code, const std::string& message) const {
        const auto result = File::open(file);
        ASSERT_FALSE(result.has_value());
        EXPECT_EQ(result.error().code, code) << result.error().to_string();
        EXPECT_THAT(result.error().to_string(), HasSubstr(message));
    }

    std::filesystem::path folder_;
};

TEST_F(Shards, AreReadTogetherEachWithItsOwnAlignment) {
    store(path(1, 3), shard(0, 3, 3, "a"));
    store(path(2, 3), shard(1, 3, 3, "b", 64));
    store(path(3, 3), shard(2, 3, 3, "c", 8));
    const auto file = File::open(path(1, 3));
    ASSERT_TRUE(file.has_value()) << file.error().to_string();
    EXPECT_EQ((*file)->n_shards(), 3);
    EXPECT_EQ((*file)->tensors().size(), 3u);
    size_t total = 0;
    for (int i = 0; i < 3; ++i) {
        const TensorInfo* tensor = (*file)->tensor(std::string(1, static_cast<char>('a' + i)));
        ASSERT_NE(tensor, nullptr);
        EXPECT_EQ(tensor->shard, i);
        EXPECT_EQ(std::to_integer<int>(tensor->data[12]), i) << "data of the right shard";
        total += std::filesystem::file_size(path(i + 1, 3));
        (*file)->drop_pages(tensor->data);
        EXPECT_EQ(std::to_integer<int>(tensor->data[12]), i) << "still readable after dropping";
    }
    EXPECT_EQ((*file)->file_bytes(), total);
}

TEST_F(Shards, RefuseWrongSets) {
    store(path(1, 2), shard(0, 2, 2, "a"));
    refuses(path(1, 2), Code::kNotFound, "shard 2 of 2 can't be read");
    store(path(2, 2), shard(2, 2, 2, "b"));
    refuses(path(1, 2), Code::kBadFile, "number is 2, by its name it should be 1");
    store(path(2, 2), shard(1, 3, 2, "b"));
    refuses(path(1, 2), Code::kBadFile, "one of 3, the first shard says 2");
    store(path(2, 2), shard(1, 2, 2, "a"));
    refuses(path(1, 2), Code::kBadFile, "00002-of-00002.gguf: tensor 'a': a tensor of this name occurs twice");
    store(path(2, 2), Raw().head(0, 0));
    refuses(path(1, 2), Code::kBadFile, "one of 1, the first shard says 2");
    store(path(2, 2), Raw().literal("GGUF"));
    refuses(path(1, 2), Code::kBadFile, "00002-of-00002.gguf: header");
    store(path(2, 2), shard(1, 2, 2, "b"));
    EXPECT_TRUE(File::open(path(1, 2)).has_value());
    refuses(path(2, 2), Code::kInvalidArgument, "shard 2 of 2, not the first");
    store(path(1, 2), shard(0, 2, 7, "a"));
    refuses(path(1, 2), Code::kBadFile, "7 tensors are announced, the shards hold 2");
}

TEST_F(Shards, RefuseLoopsAndForeignNames) {
    store(path(1, 2), shard(0, 2, 2, "a"));
    std::filesystem::create_symlink(path(1, 2), path(2, 2));
    refuses(path(1, 2), Code::kBadFile, "number is 0, by its name it should be 1");
    std::filesystem::remove(path(2, 2));
    std::filesystem::create_symlink(path(2, 2), path(2, 2));
    refuses(path(1, 2), Code::kIo, "shard 2 of 2");
    std::filesystem::rename(path(1, 2), folder_ / "model.gguf");
    refuses((folder_ / "model.gguf").string(), Code::kBadFile,
            "must have a name that ends with '-00001-of-00002.gguf'");
}

// --- typed access ---

class Values : public testing::Test {
  protected:
    void SetUp() override {
        raw_.head(0, 14);
        raw_.key("u8").i32(0).u8(200).key("i8").i32(1).u8(0xff).key("u32").i32(4).u32(~0u).key("i32").i32(5).i32(-7);
        raw_.key("u64").i32(10).u64(~0ull).key("f32").i32(6).f32(0.5f).key("f64").i32(12).f64(0.25);
        raw_.key("bool").i32(7).u8(1).key("text").i32(8).text("hello").key("i64").i32(11).i64(1ll << 40);
        raw_.key("ints").i32(9).i32(3).u64(3).u16(1).u16(0xffff).u16(3);
        raw_.key("flags").i32(9).i32(7).u64(2).u8(0).u8(1);
        raw_.key("floats").i32(9).i32(12).u64(2).f64(1.5).f64(-2);
        raw_.key("words").i32(9).i32(8).u64(3).text("a").text("").text(std::string("b\0c", 3));
        auto file = File::from_bytes(raw_.bytes(), "v");
        ASSERT_TRUE(file.has_value()) << file.error().to_string();
        file_ = *file;
    }

    Raw raw_;
    std::shared_ptr<const File> file_;
};

template <typename T>
void refused(const Result<T>& result, const std::string& message) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Code::kBadFile);
    EXPECT_THAT(result.error().to_string(), HasSubstr(message));
}

TEST_F(Values, IntegersOfAnyWidthAreReadWhenTheyFit) {
    EXPECT_EQ(file_->u32("u8").value(), 200u);
    EXPECT_EQ(file_->u32("u32").value(), ~0u);
    EXPECT_EQ(file_->i64("i8").value(), -1);
    EXPECT_EQ(file_->i64("i32").value(), -7);
    EXPECT_EQ(file_->i64("i64").value(), 1ll << 40);
    refused(file_->u32("i32"), "key 'i32': the value -7 does not fit 32 bits");
    refused(file_->u32("i64"), "does not fit");
    refused(file_->i64("u64"), "does not fit");
    refused(file_->u32("f32"), "float32, expected an integer");
    refused(file_->u32("bool"), "bool, expected an integer");
    refused(file_->u32("ints"), "array of int16, expected an integer");
    refused(file_->u32("none"), "v: key 'none': the key is missing");
    EXPECT_EQ(file_->u32_or("none", 5).value(), 5u);
    refused(file_->u32_or("text", 5), "string");
}

TEST_F(Values, OtherScalarsAreReadByTheirType) {
    EXPECT_EQ(file_->f32("f32").value(), 0.5f);
    EXPECT_EQ(file_->f32("f64").value(), 0.25f);
    refused(file_->f32("u8"), "uint8, expected a float");
    EXPECT_EQ(file_->f32_or("none", 2.0f).value(), 2.0f);
    refused(file_->f32_or("text", 2.0f), "expected a float");
    EXPECT_TRUE(file_->boolean("bool").value());
    refused(file_->boolean("u8"), "expected a bool");
    EXPECT_TRUE(file_->bool_or("none", true).value());
    refused(file_->bool_or("u8", true), "expected a bool");
    EXPECT_EQ(file_->string("text").value(), "hello");
    refused(file_->string("words"), "array of string, expected a string");
    EXPECT_EQ(file_->string_or("none", "x").value(), "x");
    refused(file_->string_or("u8", "x"), "expected a string");
}

TEST_F(Values, ArraysAreReadByTheirElements) {
    EXPECT_THAT(file_->i64_array("ints").value(), ElementsAre(1, -1, 3));
    EXPECT_THAT(file_->i64_array("flags").value(), ElementsAre(0, 1));
    EXPECT_THAT(file_->f32_array("floats").value(), ElementsAre(1.5f, -2.0f));
    EXPECT_THAT(file_->string_array("words").value(), ElementsAre("a", "", std::string_view("b\0c", 3)));
    refused(file_->i64_array("floats"), "array of float64, expected an array of integers");
    refused(file_->f32_array("ints"), "expected an array of floats");
    refused(file_->f32_array("f32"), "expected an array of floats");
    refused(file_->string_array("text"), "expected an array of strings");
    refused(file_->string_array("none"), "missing");
}

TEST_F(Values, AScalarStandsForEveryLayer) {
    EXPECT_THAT(file_->i64_scalar_or_array("u8", 2, 0).value(), ElementsAre(200, 200));
    EXPECT_THAT(file_->i64_scalar_or_array("bool", 2, 0).value(), ElementsAre(1, 1));
    EXPECT_THAT(file_->i64_scalar_or_array("none", 2, 9).value(), ElementsAre(9, 9));
    EXPECT_THAT(file_->i64_scalar_or_array("ints", 2, 0).value(), ElementsAre(1, -1));
    refused(file_->i64_scalar_or_array("ints", 4, 0), "3 elements, needed are 4");
    refused(file_->i64_scalar_or_array("text", 2, 0), "expected an integer");
    const auto absurd = file_->i64_scalar_or_array("none", std::numeric_limits<size_t>::max() / 2, 0);
    ASSERT_FALSE(absurd.has_value());
    EXPECT_EQ(absurd.error().code, Code::kOutOfMemory);
}

TEST(GgufFile, ALargeVocabularyIsReadInLinearTime) {
    constexpr uint64_t kWords = 262144;
    Raw raw;
    raw.head(0, 1).key("tokenizer.ggml.tokens").i32(9).i32(8).u64(kWords);
    for (uint64_t i = 0; i < kWords; ++i) {
        raw.text("token" + std::to_string(i));
    }
    const auto begin = std::chrono::steady_clock::now();
    const auto file = File::from_bytes(raw.bytes());
    ASSERT_TRUE(file.has_value());
    const auto words = (*file)->string_array("tokenizer.ggml.tokens");
    const auto spent = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(words.value().back(), "token262143");
    // Milliseconds when linear, minutes when quadratic: the bound has room for a busy machine and sanitisers.
    EXPECT_LT(spent, std::chrono::seconds(5));
}

// --- files of others ---

std::filesystem::path shared_folder() {
    const char* set = std::getenv("FORESAY_SHARED");
    return set != nullptr && *set != '\0' ? std::filesystem::path(set) : std::filesystem::path("../shared");
}

std::filesystem::path models_folder() {
    if (const char* set = std::getenv("FORESAY_MODELS"); set != nullptr && *set != '\0') {
        return set;
    }
    if (const char* set = std::getenv("XDG_CACHE_HOME"); set != nullptr && *set != '\0') {
        return std::filesystem::path(set) / "foresay" / "models";
    }
    const char* home = std::getenv("HOME");
    return std::filesystem::path(home != nullptr ? home : "/") / ".cache" / "foresay" / "models";
}

TEST(RealFiles, EverySyntheticModelOpens) {
    const auto folder = shared_folder() / "goldens" / "synthetic";
    if (!std::filesystem::exists(folder / "llama.gguf")) {
        GTEST_SKIP() << "no goldens in " << folder << "; set FORESAY_SHARED";
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".gguf") {
            continue;
        }
        const auto file = File::open(entry.path().string());
        ASSERT_TRUE(file.has_value()) << file.error().to_string();
        EXPECT_FALSE((*file)->tensors().empty()) << entry.path();
        EXPECT_TRUE((*file)->string("general.architecture").has_value()) << entry.path();
    }
    const auto llama = File::open((folder / "llama.gguf").string());
    EXPECT_EQ((*llama)->string("general.architecture").value(), "llama");
    EXPECT_GT((*llama)->u32("llama.block_count").value(), 0u);
    EXPECT_NE((*llama)->tensor("token_embd.weight"), nullptr);
}

TEST(RealFiles, EveryRealModelOpensAndItsRowsDecode) {
    int n_models = 0;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(models_folder(), none)) {
        if (entry.path().extension() != ".gguf") {
            continue;
        }
        ++n_models;
        const auto file = File::open(entry.path().string());
        ASSERT_TRUE(file.has_value()) << file.error().to_string();
        EXPECT_GT((*file)->string_array("tokenizer.ggml.tokens").value().size(), 1000u) << entry.path();
        for (const TensorInfo& tensor : (*file)->tensors()) {
            const auto dtype = dtype_from_gguf(tensor.type);
            ASSERT_TRUE(dtype.has_value()) << tensor.name;
            std::vector<float> row(static_cast<size_t>(tensor.ne[0]));
            dequantize_row(*dtype, tensor.data.data(), row.data(), tensor.ne[0]);
            for (const float v : row) {
                ASSERT_LT(std::abs(v), 1e4f) << tensor.name << " of " << entry.path();
            }
        }
    }
    if (n_models == 0) {
        GTEST_SKIP() << "no models in " << models_folder() << "; run tools/fetch_models.py";
    }
}

}  // namespace
}  // namespace foresay::gguf
