#include "lockstep/numeric/exp.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lockstep/contract.hpp"
#include "numeric/measure.hpp"

namespace {

using lockstep::exp_nonpositive;
using lockstep::ExpConstants;
using lockstep::FloatEnvironment;
using numeric_test::BitHash;
using numeric_test::error_ulp;
using numeric_test::reference_exp;
using numeric_test::reference_exp_long;
using numeric_test::Samples;

constexpr float infinity = std::numeric_limits<float>::infinity();

/// n of the reduction is below the least exponent from here on: (least_exponent - 1/2) log 2.
constexpr double float_cut = -71.0475;
constexpr double double_cut = -672.0059;

float negative_float(std::uint32_t magnitude_bits) { return -std::bit_cast<float>(magnitude_bits); }

/// Rule 6 as the contract words it, by the standard library.
template <class C>
C rule_6(C x) {
  using K = ExpConstants<C>;
  const volatile C product = x * K::log2e;
  const C n = std::nearbyint(product);
  if (n < K::least_exponent) return C{0};
  const C r = std::fma(x, K::log2e, -n);
  C p = K::coefficient[K::degree];
  for (int i = K::degree - 1; i >= 0; --i) p = std::fma(p, r, K::coefficient[i]);
  return std::ldexp(p, static_cast<int>(n));
}

// Every float is the sweep's; the stride keeps builds without an FMA unit below seconds.
TEST(ExpNonpositive, ErrorIsAtMostTheStatedUlpOverEvery31stFloat) {
  const FloatEnvironment environment;
  using K = ExpConstants<float>;
  double worst_near_zero = 0;
  for (std::uint32_t bits = 0; negative_float(bits) > float_cut; bits += 31) {
    const float x = negative_float(bits);
    const double error = error_ulp(exp_nonpositive(x), reference_exp(x));
    ASSERT_LE(error, K::max_error_ulp - K::max_error_ulp_per_unit * static_cast<double>(x)) << x;
    if (x > -0.34F) worst_near_zero = std::fmax(worst_near_zero, error);
  }
  EXPECT_GT(worst_near_zero, 0.9 * K::max_error_ulp) << "the stated bound has become loose";
}

TEST(ExpNonpositive, ErrorInDoubleIsAtMostTheStatedUlp) {
  const FloatEnvironment environment;
  using K = ExpConstants<double>;
  Samples samples;
  for (int i = 0; i < 400000; ++i) {
    const double low = i % 4 == 0 ? double_cut : (i % 4 == 1 ? -20.0 : -1.0);
    const double x = samples.uniform(low, 0.0);
    const double error = error_ulp(exp_nonpositive(x), reference_exp_long(x));
    ASSERT_LE(error, K::max_error_ulp - K::max_error_ulp_per_unit * x) << x;
  }
}

TEST(ExpNonpositive, IsRule6OfTheContractBitForBit) {
  const FloatEnvironment environment;
  Samples samples;
  for (std::uint32_t bits = 0; bits < 0x42e00000U; bits += 10007) {
    const float x = negative_float(bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(exp_nonpositive(x)), std::bit_cast<std::uint32_t>(rule_6(x))) << x;
  }
  for (int i = 0; i < 100000; ++i) {
    const double x = samples.uniform(i % 2 == 0 ? -760.0 : -40.0, 0.0);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(exp_nonpositive(x)), std::bit_cast<std::uint64_t>(rule_6(x))) << x;
  }
}

TEST(ExpNonpositive, IsExactlyOneAtZero) {
  EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(0.0), 1.0);
  EXPECT_EQ(exp_nonpositive(-0.0), 1.0);
  EXPECT_EQ(exp_nonpositive(-0x1p-149F), 1.0F);
}

TEST(ExpNonpositive, IsPositiveZeroBelowTheLeastExponent) {
  for (const float x : {-71.06F, -88.0F, -104.0F, -1e4F, -1e10F, -std::numeric_limits<float>::max(), -infinity}) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(exp_nonpositive(x)), 0U) << x;
  }
  for (const double x : {-672.02, -746.0, -1e10, -1e20, -std::numeric_limits<double>::max(), -HUGE_VAL}) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(exp_nonpositive(x)), 0U) << x;
  }
}

TEST(ExpNonpositive, WeightsOfTheLeastExponentTimesValuesDownToOneRoundingAreNormal) {
  const FloatEnvironment environment;
  EXPECT_GE(exp_nonpositive(-71.04F) * 0x1p-23F, std::numeric_limits<float>::min());
  EXPECT_GE(exp_nonpositive(-672.0) * 0x1p-52, std::numeric_limits<double>::min());
}

TEST(ExpNonpositive, KeepsNan) {
  EXPECT_TRUE(std::isnan(exp_nonpositive(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp_nonpositive(-std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp_nonpositive(std::numeric_limits<double>::quiet_NaN())));
}

TEST(ExpNonpositive, NeverExceedsOne) {
  for (std::uint32_t bits = 0; bits < 0x3f800000U; bits += 4099) ASSERT_LE(exp_nonpositive(negative_float(bits)), 1.0F);
}

TEST(ExpNonpositive, HasTheGoldenBits) {
  const FloatEnvironment environment;
  BitHash floats;
  for (std::uint32_t bits = 0; bits <= 0x7f800000U; bits += 1021) floats.add(exp_nonpositive(negative_float(bits)));
  EXPECT_EQ(floats.value(), 0x2b3c0f93fbc90738U);
  BitHash doubles;
  Samples samples;
  for (int i = 0; i < 200000; ++i) doubles.add(exp_nonpositive(samples.uniform(i % 2 == 0 ? -760.0 : -2.0, 0.0)));
  EXPECT_EQ(doubles.value(), 0xd84c56efbb40f366U);
}

}  // namespace
