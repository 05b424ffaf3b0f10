#include "base/text.h"

#include <gtest/gtest.h>

namespace foresay {
namespace {

TEST(Text, FindsTheLongestBeginningOfAMarkAtTheEnd) {
    EXPECT_EQ(begun_at_end("so </thi", "</think>"), 5U);
    EXPECT_EQ(begun_at_end("aa", "aab"), 2U);
    EXPECT_EQ(begun_at_end("abab", "abac"), 2U);
    EXPECT_EQ(begun_at_end("a mark </think>", "</think>"), 0U) << "a whole mark is no beginning";
    EXPECT_EQ(begun_at_end("aaa", "aaa"), 2U);
    EXPECT_EQ(begun_at_end("x", "</think>"), 0U);
    EXPECT_EQ(begun_at_end("", "mark"), 0U);
    EXPECT_EQ(begun_at_end("text", ""), 0U);
}

}  // namespace
}  // namespace foresay
