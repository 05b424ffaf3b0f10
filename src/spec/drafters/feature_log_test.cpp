#include "spec/drafters/feature_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace foresay::spec {
namespace {

void add(FeatureLog& log, int32_t pos, std::vector<vocab::TokenId> tokens) {
    log.rewind_to(pos);
    for (const vocab::TokenId token : tokens) {
        const auto row = log.append(pos++, token);
        std::fill(row.begin(), row.end(), static_cast<float>(token));
    }
}

TEST(FeatureLog, RejectedRowsAreForgottenWhenTheirPositionsComeAgain) {
    FeatureLog log(2);
    add(log, 0, {10, 11, 12});
    add(log, 3, {13, 99, 98});  // 99 and 98 are rejected
    EXPECT_TRUE(log.leads_to(std::vector<vocab::TokenId>{10, 11, 12, 13, 14}));
    log.mark_stored(3);
    add(log, 4, {14, 15});
    EXPECT_EQ(log.n_known(), 6);
    EXPECT_EQ(log.n_pending(), 3);
    EXPECT_EQ(log.row(4)[1], 14.0F);
    EXPECT_FALSE(log.leads_to(std::vector<vocab::TokenId>{10, 11, 12, 13, 77, 15, 16})) << "another text";
    EXPECT_FALSE(log.leads_to(std::vector<vocab::TokenId>{10, 11, 12, 13, 14, 15, 16, 17})) << "a row is missing";
}

TEST(FeatureLog, GoingBackBehindWhatIsStoredKeepsThePrefix) {
    FeatureLog log(1);
    add(log, 0, {1, 2, 3, 4});
    log.mark_stored(4);
    add(log, 2, {7});
    EXPECT_EQ(log.n_stored(), 2);
    EXPECT_EQ(log.row(2)[0], 7.0F);
    EXPECT_TRUE(log.leads_to(std::vector<vocab::TokenId>{1, 2, 7, 8}));
}

TEST(FeatureLog, AGapStartsOverWhereTheNewRowsBegin) {
    FeatureLog log(1);
    add(log, 0, {1, 2});
    add(log, 10, {3, 4});
    EXPECT_EQ(log.base(), 10);
    EXPECT_EQ(log.n_known(), 2);
    std::vector<vocab::TokenId> text(10, 0);
    text.insert(text.end(), {3, 4, 5});
    EXPECT_TRUE(log.leads_to(text));
}

TEST(FeatureLog, ShiftMovesWhatIsStoredAndOtherwiseStartsOver) {
    FeatureLog log(1);
    add(log, 0, {1, 2, 3, 4, 5, 6});
    log.mark_stored(5);
    int32_t n = 0;
    int32_t keep = 0;
    int32_t discard = 0;
    ASSERT_TRUE(log.shift(1, 3, &n, &keep, &discard));
    EXPECT_EQ(n, 5);
    EXPECT_EQ(keep, 1);
    EXPECT_EQ(discard, 3);
    EXPECT_EQ(log.n_stored(), 2);
    EXPECT_TRUE(log.leads_to(std::vector<vocab::TokenId>{1, 5, 6, 7}));
    EXPECT_FALSE(log.shift(0, 3, &n, &keep, &discard)) << "reaches into unstored rows";
    EXPECT_EQ(log.n_known(), 0);

    FeatureLog late(1);
    add(late, 10, {1, 2, 3});
    EXPECT_FALSE(late.shift(2, 4, &n, &keep, &discard)) << "all of it lies before what is known";
    EXPECT_EQ(late.base(), 6);
    late.mark_stored(3);
    ASSERT_TRUE(late.shift(4, 3, &n, &keep, &discard));  // positions 4, 5, 6: the first known one goes
    EXPECT_EQ(keep, 0);
    EXPECT_EQ(discard, 1);
    EXPECT_EQ(late.base(), 4);
}

}  // namespace
}  // namespace foresay::spec
