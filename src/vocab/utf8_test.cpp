// Utf8Stream, validation and repair.
#include "vocab/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "vocab/byte_map.h"
#include "vocab/vocab.h"

namespace foresay::vocab {
namespace {

constexpr std::string_view kMixed = "a\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x99\x82\xE2\x80\x8D!\n\xCC\x81z";

std::string stream_all(std::string_view text) {
    Utf8Stream stream;
    std::string out = stream.push(text);
    return out + stream.finish();
}

TEST(Utf8Stream, EveryCutGivesTheSameValidText) {
    for (size_t first = 0; first <= kMixed.size(); ++first) {
        for (size_t second = first; second <= kMixed.size(); ++second) {
            Utf8Stream stream;
            std::string out;
            for (const auto part :
                 {kMixed.substr(0, first), kMixed.substr(first, second - first), kMixed.substr(second)}) {
                const std::string sent = stream.push(part);
                EXPECT_TRUE(is_valid_utf8(sent)) << first << " " << second;
                out += sent;
            }
            EXPECT_FALSE(stream.has_pending());
            EXPECT_EQ(out + stream.finish(), kMixed);
        }
    }
}

TEST(Utf8Stream, InvalidBytesBecomeReplacementsAndNeverStall) {
    const std::string r(kReplacement);
    EXPECT_EQ(stream_all("ab\xFF"), "ab" + r);
    EXPECT_EQ(stream_all("\x80z"), r + "z");
    EXPECT_EQ(stream_all("\xC3("), r + "(");
    EXPECT_EQ(stream_all("\xE2\x82 "), r + " ");
    EXPECT_EQ(stream_all("\xC0\x80"), r + r);          // overlong
    EXPECT_EQ(stream_all("\xED\xA0\x80"), r + r + r);  // surrogate
    EXPECT_EQ(stream_all("\xF4\x90\x80\x80"), r + r + r + r);
    EXPECT_EQ(stream_all("\xF0\x9F\x99"), r);  // incomplete at the end
    Utf8Stream stream;
    EXPECT_EQ(stream.push("\xF0\x9F"), "");
    EXPECT_TRUE(stream.has_pending());
    EXPECT_EQ(stream.push("x"), r + "x");
    EXPECT_FALSE(stream.has_pending());
    EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, RandomBytesGiveTheSameTextHoweverCut) {
    std::mt19937 random(7);  // fixed seed: a failure repeats
    for (int round = 0; round < 2000; ++round) {
        std::string bytes;
        for (int i = 0; i < 12; ++i) {
            constexpr std::string_view kNasty = "a\xC3\xA9\xE2\x82\xAC\xED\xA0\xF0\x9F\x90\x80\xF4\xFF\xC0";
            bytes.push_back(kNasty[random() % kNasty.size()]);
        }
        Utf8Stream stream;
        std::string out;
        for (const char c : bytes) {
            out += stream.push({&c, 1});
        }
        out += stream.finish();
        EXPECT_EQ(out, stream_all(bytes));
        EXPECT_TRUE(is_valid_utf8(out));
    }
}

TEST(Utf8, RepairFollowsTheReference) {
    const std::string r(kReplacement);
    // The example of the specification: one replacement per byte, not per maximal subpart.
    EXPECT_EQ(repair_utf8("ab\xFF\xC3(\xE2\x82 ").text, "ab" + r + r + "(" + r + r + " ");
    EXPECT_EQ(repair_utf8("\xC0\x80").text, std::string(1, '\0'));
    EXPECT_EQ(repair_utf8("\xF4\x90\x80\x80").text, r + r + r + r);
    EXPECT_EQ(repair_utf8("\xED\xA0\x80").text, "\xED\xA0\x80");
    EXPECT_TRUE(repair_utf8("\xED\xA0\x80").has_surrogates);
    EXPECT_EQ(repair_utf8(kMixed).text, kMixed);
    EXPECT_FALSE(repair_utf8(kMixed).has_surrogates);
}

TEST(Utf8, ValidationIsStrictAtEveryOffset) {
    for (size_t padding = 0; padding < 20; ++padding) {  // the fast path reads eight bytes at a time
        const std::string before(padding, 'x');
        EXPECT_TRUE(is_valid_utf8(before + std::string(kMixed) + before));
        for (const char* bad : {"\xFF", "\xC3", "\xE2\x82", "\xED\xA0\x80", "\xC0\x80", "\xF4\x90\x80\x80", "\x80"}) {
            EXPECT_FALSE(is_valid_utf8(before + bad + before));
        }
    }
}

TEST(ByteMap, IsABijectionAndKeepsWhatItDoesNotKnow) {
    std::string all;
    for (int byte = 0; byte < 256; ++byte) {
        all.push_back(static_cast<char>(byte));
    }
    EXPECT_EQ(byte_map_decode(byte_map_encode(all)), all);
    EXPECT_TRUE(is_valid_utf8(byte_map_encode(all)));
    EXPECT_EQ(byte_map_encode(" \n\t"), "\xC4\xA0\xC4\x8A\xC4\x89");
    EXPECT_EQ(byte_map_encode({"\0", 1}), "\xC4\x80");
    EXPECT_EQ(byte_map_decode("\xE4\xBD\xA0"), "\xE4\xBD\xA0");
    EXPECT_EQ(byte_map_decode("\xFF"), "\xFF");
}

TEST(Utf8, ReplaceAll) {
    EXPECT_EQ(replace_all(" a  b ", " ", kMetaspace),
              "\xE2\x96\x81"
              "a\xE2\x96\x81\xE2\x96\x81"
              "b\xE2\x96\x81");
    EXPECT_EQ(replace_all("", " ", "x"), "");
    EXPECT_EQ(replace_all("aaa", "aa", "b"), "ba");
}

}  // namespace
}  // namespace foresay::vocab
