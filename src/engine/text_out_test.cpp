#include "engine/text_out.h"

#include <gtest/gtest.h>

namespace foresay::engine {
namespace {

TEST(TextOut, WithoutStopsShowsEverythingAtOnce) {
    TextOut out({});
    EXPECT_EQ(out.push("Hello").text, "Hello");
    EXPECT_EQ(out.push(" world").text, " world");
    EXPECT_EQ(out.finish(), "");
}

TEST(TextOut, AStopAcrossPiecesEndsTheTextBeforeIt) {
    TextOut out({"\nUser:"});
    EXPECT_EQ(out.push("fine\n").text, "fine");  // the newline may begin the stop
    EXPECT_EQ(out.push("Us").text, "");
    const auto step = out.push("er: next");
    EXPECT_TRUE(step.stopped);
    EXPECT_EQ(step.text, "");
    EXPECT_EQ(step.stopping_word, "\nUser:");
}

TEST(TextOut, WithheldTextThatTurnsOutHarmlessIsShown) {
    TextOut out({"abc"});
    EXPECT_EQ(out.push("xab").text, "x");
    EXPECT_EQ(out.push("aby").text, "ababy");
    EXPECT_EQ(out.push("ab").text, "");
    EXPECT_EQ(out.finish(), "ab");
}

TEST(TextOut, TheEarliestStopWinsWhateverTheOrder) {
    for (const auto& stops : {std::vector<std::string>{"two", "one"}, {"one", "two"}}) {
        TextOut out(stops);
        const auto step = out.push("zero one two");
        EXPECT_TRUE(step.stopped);
        EXPECT_EQ(step.text, "zero ");
        EXPECT_EQ(step.stopping_word, "one");
    }
}

TEST(TextOut, EmptyStopStringsAreDropped) {
    TextOut out({"", "end"});
    const auto step = out.push("text");
    EXPECT_FALSE(step.stopped);
    EXPECT_EQ(step.text, "text");
}

TEST(TextOut, CharactersAreNeverCut) {
    TextOut out({});
    const std::string euro = "\xE2\x82\xAC";
    EXPECT_EQ(out.push(euro.substr(0, 1)).text, "");
    EXPECT_EQ(out.push(euro.substr(1, 1)).text, "");
    EXPECT_EQ(out.push(euro.substr(2)).text, euro);
    EXPECT_EQ(out.push(euro.substr(0, 2)).text, "");
    EXPECT_EQ(out.finish(), "\xEF\xBF\xBD");  // an incomplete character at the end becomes U+FFFD
}

}  // namespace
}  // namespace foresay::engine
