#include "lockstep/plain.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace ls = lockstep;

namespace {

TEST(Scaled, IsOneOverTheRootOfTheHeadSize) {
  EXPECT_EQ(ls::Scaled{}.scale(1), 1);
  EXPECT_EQ(ls::Scaled{}.scale(64), 0.125);
  EXPECT_EQ(ls::Scaled{}.scale(128), 1 / std::sqrt(128.0));
}

TEST(Scaled, TakesAScaleOfTheCallers) {
  EXPECT_EQ(ls::Scaled{0.5}.scale(64), 0.5);
  EXPECT_EQ(ls::Scaled{-2}.scale(64), -2);
}

TEST(Scaled, LeavesTheLogitAsItIs) {
  const float logits[] = {0.0F, -0.0F, 1.5F, -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::denorm_min()};
  float block[5];
  std::memcpy(block, logits, sizeof block);
  ls::Scaled{}.apply(block, {.place = 7}, ls::KeyRange{0, 5});
  EXPECT_EQ(std::memcmp(block, logits, sizeof block), 0);
  for (const float logit : logits) {
    const float applied = ls::Scaled{}.apply(logit, {.place = 7}, 3);
    EXPECT_EQ(std::memcmp(&applied, &logit, sizeof logit), 0);
  }
}

}  // namespace
