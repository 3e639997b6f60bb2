#include "lockstep/norm/qk_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "attend/contract_kernels.hpp"

namespace {

using namespace fixture;

template <class C>
class RmsNorm : public testing::Test {};
using Computes = testing::Types<float, double>;
TYPED_TEST_SUITE(RmsNorm, Computes);

TYPED_TEST(RmsNorm, IsCloseToTheExactFunction) {
  const double ulp = std::numeric_limits<TypeParam>::epsilon();
  for (const Index n : {1, 2, 7, 15, 16, 17, 64, 80, 128, 256}) {
    const auto x = normal_numbers<TypeParam>(n, static_cast<std::uint64_t>(n)), weight = numbers<TypeParam>(n, 2, 3);
    for (const double epsilon : {0.0, 1e-6, 0.5}) {
      long double squares = 0;
      for (const TypeParam value : x) squares += static_cast<long double>(value) * static_cast<long double>(value);
      const long double root = std::sqrt(squares / static_cast<long double>(n) + static_cast<TypeParam>(epsilon));
      auto got = x;
      ls::rms_norm(got.data(), weight.data(), n, static_cast<TypeParam>(epsilon));
      for (Index d = 0; d < n; ++d) {
        const long double exact = static_cast<long double>(x[at(d)]) / root * static_cast<long double>(weight[at(d)]);
        ASSERT_LE(std::abs(static_cast<long double>(got[at(d)]) - exact), 8 * ulp * std::abs(exact))
            << n << " numbers, number " << d;
      }
    }
  }
}

TYPED_TEST(RmsNorm, HasTheSameBitsOnEveryInstructionSetAndTheStatedOrder) {
  for (const Index n : {1, 3, 8, 15, 16, 17, 31, 33, 64, 100, 128}) {
    const auto x = normal_numbers<TypeParam>(n, 7), weight = numbers<TypeParam>(n, 8);
    TypeParam lane[ls::lanes] = {};
    for (Index d = 0; d < n; ++d) lane[d % ls::lanes] = std::fma(x[at(d)], x[at(d)], lane[d % ls::lanes]);
    for (Index half = ls::lanes / 2; half >= 1; half /= 2)
      for (Index i = 0; i < half; ++i) lane[i] = ls::rounded(lane[i] + lane[i + half]);
    const TypeParam mean = ls::rounded(lane[0] / static_cast<TypeParam>(n));
    const TypeParam r = ls::rounded(1 / ls::rounded(std::sqrt(ls::rounded(mean + TypeParam(1e-5)))));
    auto expected = x;
    for (Index d = 0; d < n; ++d) expected[at(d)] = ls::rounded(ls::rounded(x[at(d)] * r) * weight[at(d)]);
    for_each_instruction_set([&] {
      // One number more, which must stay.
      auto got = x;
      got.push_back(7);
      ls::rms_norm(got.data(), weight.data(), n, TypeParam(1e-5));
      EXPECT_EQ(got.back(), 7);
      got.pop_back();
      EXPECT_TRUE(same_bits(expected, got, n)) << n << " numbers";
    });
  }
}

template <class Scope>
ls::QkNorm<ls::BeforeRope, Scope, float> norm_of(Index query, Index key, double epsilon = 1e-6) {
  const std::vector<float> q = numbers<float>(query, 1), k = numbers<float>(key, 2);
  return {ls::View<const float, 1>(q), ls::View<const float, 1>(k), epsilon};
}

TEST(QkNorm, NormalisesEachHeadAloneOrAllTogether) {
  auto heads = normal_numbers<float>(3 * 8, 4), whole = heads;
  const auto expected_heads =
      reference::rms_norm(reference::widen(heads), reference::widen(numbers<float>(8, 1)), 1e-6);
  const auto expected_whole =
      reference::rms_norm(reference::widen(whole), reference::widen(numbers<float>(24, 1)), 1e-6);
  norm_of<ls::PerHead>(8, 8).query(heads.data(), 3, 8);
  norm_of<ls::WholeWidth>(24, 8).query(whole.data(), 3, 8);
  EXPECT_LE(largest_difference(expected_heads, heads), 1e-6);
  EXPECT_LE(largest_difference(expected_whole, whole), 1e-6);
  EXPECT_GT(largest_difference(heads, whole), 1e-2);
}

TEST(QkNorm, RefusesWeightsThatDoNotFit) {
  EXPECT_TRUE(norm_of<ls::PerHead>(8, 8).check(3, 1, 8).ok());
  EXPECT_FALSE(norm_of<ls::PerHead>(24, 8).check(3, 1, 8).ok());
  EXPECT_FALSE(norm_of<ls::PerHead>(8, 9).check(3, 1, 8).ok());
  EXPECT_TRUE(norm_of<ls::WholeWidth>(24, 8).check(3, 1, 8).ok());
  EXPECT_FALSE(norm_of<ls::WholeWidth>(8, 8).check(3, 1, 8).ok());
  EXPECT_FALSE((ls::QkNorm<ls::BeforeRope, ls::PerHead, float>{}.check(3, 1, 8).ok()));
  EXPECT_THROW(norm_of<ls::PerHead>(8, 8, -1), std::invalid_argument);
  EXPECT_THROW(norm_of<ls::PerHead>(8, 8, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
}

}  // namespace
