#include "lockstep/bias/distance.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace ls = lockstep;
using ls::Index;

namespace {

std::vector<double> slopes(Index heads) {
  const ls::Alibi<double> alibi(heads);
  std::vector<double> result;
  for (Index h = 0; h < heads; ++h) result.push_back(alibi.slope(h));
  return result;
}

// ml-explore/mlx#343, #3071; paiml/aprender#2143; vllm-project/vllm#945: slopes wrong for head counts that are no
// powers of two, or shifted by one.
TEST(AlibiSlopes, AreThoseOfThePaperForEveryHeadCount) {
  EXPECT_EQ(slopes(1), (std::vector<double>{0x1p-8}));
  EXPECT_EQ(slopes(2), (std::vector<double>{0x1p-4, 0x1p-8}));
  EXPECT_EQ(slopes(8), (std::vector<double>{0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8}));
  EXPECT_EQ(slopes(6), (std::vector<double>{.25, .0625, .015625, .00390625, .5, .125}));
  const std::vector<double> twelve = slopes(12);
  for (int h = 0; h < 8; ++h) EXPECT_EQ(twelve[static_cast<std::size_t>(h)], std::ldexp(1, -h - 1));
  const double rest[] = {.707107, .353553, .176777, .088388};
  for (std::size_t h = 0; h < 4; ++h) EXPECT_NEAR(twelve[8 + h], rest[h], 5e-7);
}

TEST(AlibiSlopes, FallWithinEachHalfAndErrByOneRounding) {
  for (const Index heads : {3, 5, 16, 20, 32, 40, 71, 112, 128}) {
    const std::vector<double> got = slopes(heads);
    Index n = 1;
    while (2 * n <= heads) n *= 2;
    for (Index h = 0; h < heads; ++h) {
      const long double steps = h < n ? 2 * (h + 1) : 2 * (h - n) + 1;
      const long double exact = std::exp2(-4 * steps / static_cast<long double>(n));
      EXPECT_LE(std::abs(got[static_cast<std::size_t>(h)] - exact), 0x1p-52L * exact) << heads << " heads, head " << h;
    }
  }
}

TEST(Alibi, AddsSlopeTimesDistanceInOneRounding) {
  const std::vector<float> own{0.1F, 3.0F};
  const ls::Alibi<float> alibi{ls::View<const float, 1>(own)};
  EXPECT_EQ(alibi.apply(0.7F, {.head = 0, .place = 10}, 3), std::fma(0.1F, -7.0F, 0.7F));
  EXPECT_EQ(alibi.apply(0.7F, {.head = 1, .place = 10}, 10), 0.7F);
  EXPECT_EQ(alibi.apply(0.5F, {.head = 1, .place = 10}, 12), 6.5F);
}

TEST(Alibi, RoundsDistancesBeyondTheMantissaOnce) {
  const ls::Alibi<float> alibi(1);
  const Index far = (Index{1} << 25) + 3;
  float block[3] = {0, 0, 0};
  alibi.apply(block, {.place = far}, {0, 3});
  for (Index key = 0; key < 3; ++key) EXPECT_EQ(block[key], 0x1p-8F * static_cast<float>(key - far));
  EXPECT_NE(block[0], block[2]);
}

TEST(Alibi, RefusesOtherHeadCountsAndSlopesThatAreNoNumbers) {
  EXPECT_TRUE(ls::Alibi<float>(6).check(6).ok());
  EXPECT_FALSE(ls::Alibi<float>(6).check(8).ok());
  EXPECT_FALSE(ls::Alibi<float>{}.check(1).ok());
  const std::vector<float> bad{0.5F, std::numeric_limits<float>::infinity()};
  EXPECT_THROW((ls::Alibi<float>{ls::View<const float, 1>(bad)}), std::invalid_argument);
}

}  // namespace
