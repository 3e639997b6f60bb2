#include "lockstep/mask/causal.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace ls = lockstep;
using ls::Index;

namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

TEST(CausalMask, IsTheTriangleForAWholePrompt) {
  const auto mask = ls::causal_mask(3, 3, 0);
  Eigen::Matrix<float, 3, 3> expected;
  expected << 0, hidden, hidden, 0, 0, hidden, 0, 0, 0;
  EXPECT_TRUE((mask.array() == expected.array()).all());
}

TEST(CausalMask, IsAlignedToTheBottomRightWithACache) {
  const auto mask = ls::causal_mask(2, 5, 3);
  Eigen::Matrix<float, 2, 5> expected;
  expected << 0, 0, 0, 0, hidden, 0, 0, 0, 0, 0;
  EXPECT_TRUE((mask.array() == expected.array()).all());
}

TEST(CausalMask, HidesEveryKeyFromRowsBeforeTheFirst) {
  const auto mask = ls::causal_mask(4, 3, -2);
  for (Index i = 0; i < 4; ++i)
    for (Index j = 0; j < 3; ++j) EXPECT_EQ(mask(i, j), j <= i - 2 ? 0.0F : hidden) << i << ", " << j;
}

TEST(CausalMask, HoldsOnlyPositiveZerosAndMinusInfinity) {
  const auto mask = ls::causal_mask<double>(17, 33, 16);
  for (Index i = 0; i < mask.rows(); ++i)
    for (Index j = 0; j < mask.cols(); ++j) {
      EXPECT_EQ(std::signbit(mask(i, j)), j > i + 16);
      EXPECT_TRUE(mask(i, j) == 0 || std::isinf(mask(i, j)));
    }
}

TEST(CausalMask, ComesInEveryElementType) {
  EXPECT_TRUE((Eigen::numext::isinf)(ls::causal_mask<Eigen::half>(1, 2, 0)(0, 1)));
  EXPECT_TRUE((Eigen::numext::isinf)(ls::causal_mask<Eigen::bfloat16>(1, 2, 0)(0, 1)));
}

TEST(CausalMask, MayHaveNoRowsOrKeys) {
  EXPECT_EQ(ls::causal_mask(0, 5, 0).rows(), 0);
  EXPECT_EQ(ls::causal_mask(5, 0, 0).cols(), 0);
}

TEST(CausalMask, AgreesWithThePolicy) {
  const auto mask = ls::causal_mask(20, 40, 11);
  for (Index i = 0; i < 20; ++i) {
    const ls::QueryRow row{.row = i, .place = i + 11};
    const ls::KeyRange range = ls::Causal{}.range(row, 40);
    for (Index j = 0; j < 40; ++j)
      EXPECT_EQ(mask(i, j) == 0, range.first <= j && j < range.last && ls::Causal{}.visible(row, j));
  }
}

TEST(Causal, NeedsTheKeysUpToItsOwn) {
  EXPECT_EQ(ls::Causal{}.keys_needed({.row = 0, .place = 0}), 1);
  EXPECT_EQ(ls::Causal{}.keys_needed({.row = 3, .place = 1000}), 1001);
}

TEST(Causal, ARowBeforeTheFirstKeyHasAnEmptyRange) {
  EXPECT_TRUE(ls::Causal{}.range({.row = 0, .place = -1}, 10).empty());
  EXPECT_TRUE(ls::Causal{}.range({.row = 0, .place = -100}, 10).empty());
  EXPECT_TRUE(ls::Causal{}.range({.row = 0, .place = 5}, 0).empty());
}

}  // namespace
