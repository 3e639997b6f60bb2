#include "lockstep/softmax_state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace ls = lockstep;

namespace {

template <class C>
class SoftmaxState : public testing::Test {
 protected:
  static constexpr C infinity = std::numeric_limits<C>::infinity();
  static constexpr C nan = std::numeric_limits<C>::quiet_NaN();
};
using Computes = testing::Types<float, double>;
TYPED_TEST_SUITE(SoftmaxState, Computes);

template <class C>
bool same_bits(C a, C b) {
  return std::memcmp(&a, &b, sizeof(C)) == 0;
}

TYPED_TEST(SoftmaxState, HasSeenNothingAtFirst) {
  const ls::SoftmaxState<TypeParam> state;
  EXPECT_EQ(state.m, -this->infinity);
  EXPECT_TRUE(same_bits(state.l, TypeParam(0)));
}

TYPED_TEST(SoftmaxState, OneSplitKeepsItsBits) {
  using C = TypeParam;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> logit(-50, 50), sum(1, 1000), number(-3, 3);
  for (int i = 0; i < 1000; ++i) {
    const ls::SoftmaxState<C> split{static_cast<C>(logit(random)), static_cast<C>(sum(random))};
    const C o = static_cast<C>(number(random));
    ls::SoftmaxState<C> total;
    const auto fold = total.join_split(split);
    const C weighted = ls::fma(C(0), fold.old_factor, ls::rounded(fold.new_factor * o));
    EXPECT_TRUE(same_bits(total.m, split.m) && same_bits(total.l, split.l) && same_bits(weighted, o))
        << split.m << ", " << split.l;
  }
}

TYPED_TEST(SoftmaxState, AnEmptySplitChangesNothing) {
  using C = TypeParam;
  ls::SoftmaxState<C> total{C(2.5), C(7.25)};
  const auto fold = total.join_split({});
  EXPECT_EQ(fold.old_factor, 1);
  EXPECT_TRUE(same_bits(fold.new_factor, C(0)));
  EXPECT_EQ(total.m, C(2.5));
  EXPECT_EQ(total.l, C(7.25));
}

TYPED_TEST(SoftmaxState, TwoEmptyStatesStayEmptyAndFreeOfNan) {
  using C = TypeParam;
  ls::SoftmaxState<C> total;
  const auto fold = total.join_split({});
  EXPECT_TRUE(same_bits(fold.old_factor, C(0)) && same_bits(fold.new_factor, C(0)));
  EXPECT_TRUE(same_bits(total.l, C(0)));
  EXPECT_EQ(total.m, -this->infinity);
  EXPECT_TRUE(same_bits(total.join_block(-this->infinity, C(0)), C(0)));
  EXPECT_TRUE(same_bits(total.l, C(0)));
}

TYPED_TEST(SoftmaxState, FoldsAnyPiecesToTheWholeSum) {
  using C = TypeParam;
  std::mt19937 random(5);
  std::normal_distribution<double> normal(0, 6);
  for (const std::size_t pieces : {1U, 2U, 3U, 7U, 50U}) {
    std::vector<double> logits;
    ls::SoftmaxState<C> total;
    C weighted = 0;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      ls::SoftmaxState<C> split;
      C o = 0;
      for (int block = 0; block < 4; ++block) {
        const C s = static_cast<C>(normal(random));
        logits.push_back(static_cast<double>(s));
        const C now = ls::SoftmaxState<C>::larger(split.m, s);
        const C p = ls::exp_nonpositive(ls::rounded(s - now));
        o = ls::fma(o, split.join_block(now, p), ls::rounded(p * C(3)));
      }
      const auto fold = total.join_split(split);
      weighted = ls::fma(weighted, fold.old_factor, ls::rounded(fold.new_factor * o));
    }
    double m = -std::numeric_limits<double>::infinity(), sum = 0;
    for (const double s : logits) m = std::max(m, s);
    for (const double s : logits) sum += std::exp(s - m);
    const double bound =
        8 * static_cast<double>(std::numeric_limits<C>::epsilon()) * static_cast<double>(logits.size());
    EXPECT_EQ(static_cast<double>(total.m), m);
    EXPECT_NEAR(static_cast<double>(total.l) / sum, 1, bound);
    EXPECT_NEAR(static_cast<double>(weighted) / (3 * sum), 1, bound);
  }
}

TYPED_TEST(SoftmaxState, FarSmallerPiecesVanishAndFarLargerOnesTakeOver) {
  using C = TypeParam;
  ls::SoftmaxState<C> total{C(1000), C(2)};
  EXPECT_TRUE(same_bits(total.join_split({C(-1000), C(5)}).new_factor, C(0)));
  EXPECT_EQ(total.l, 2);
  EXPECT_TRUE(same_bits(total.join_split({C(4000), C(3)}).old_factor, C(0)));
  EXPECT_EQ(total.m, 4000);
  EXPECT_EQ(total.l, 3);
}

TYPED_TEST(SoftmaxState, TheMaximumKeepsNanOut) {
  using State = ls::SoftmaxState<TypeParam>;
  EXPECT_EQ(State::larger(TypeParam(1), this->nan), 1);
  EXPECT_EQ(State::larger(-this->infinity, this->nan), -this->infinity);
  EXPECT_EQ(State::larger(TypeParam(1), TypeParam(2)), 2);
  EXPECT_TRUE(same_bits(State::larger(TypeParam(0), TypeParam(-0.0)), TypeParam(0)));
  EXPECT_EQ(State::larger(TypeParam(1), this->infinity), this->infinity);
}

TYPED_TEST(SoftmaxState, AnInfiniteMaximumGivesNanAndNeverAZero) {
  ls::SoftmaxState<TypeParam> total;
  total.join_split({this->infinity, this->nan});
  EXPECT_NE(total.l, total.l);
}

}  // namespace
