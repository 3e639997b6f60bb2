#include "lockstep/numeric/exp.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lockstep/contract.hpp"
#include "numeric/measure.hpp"

namespace {

using lockstep::FloatEnvironment;
using lockstep::TanhConstants;
using numeric_test::BitHash;
using numeric_test::error_ulp;
using numeric_test::Samples;

// The C library's function itself: under unsafe math flags a call by name may become inexact inline code.
double (*const volatile reference_tanh)(double) = ::tanh;
long double (*const volatile reference_tanh_long)(long double) = ::tanhl;

/// Of every magnitude: uniform in [0, 22] or next to 0.
double sample_argument(Samples& samples, int i) {
  return i % 2 == 0 ? samples.uniform(0.0, 22.0) : std::ldexp(samples.uniform(1.0, 2.0), -(i / 2 % 60));
}

TEST(Tanh, ErrorIsAtMostTheStatedUlpOverEvery101stFloat) {
  const FloatEnvironment environment;
  double worst = 0;
  for (std::uint32_t bits = 0; bits <= 0x41400000U; bits += 101) {
    const float x = std::bit_cast<float>(bits);
    const double error = error_ulp(lockstep::tanh(x), reference_tanh(x));
    ASSERT_LE(error, TanhConstants<float>::max_error_ulp) << x;
    worst = std::fmax(worst, error);
  }
  EXPECT_GT(worst, 0.9 * TanhConstants<float>::max_error_ulp) << "the stated bound has become loose";
}

TEST(Tanh, ErrorInDoubleIsAtMostTheStatedUlp) {
  Samples samples;
  for (int i = 0; i < 400000; ++i) {
    const double x = sample_argument(samples, i);
    const double error = error_ulp(lockstep::tanh(x), reference_tanh_long(x));
    ASSERT_LE(error, TanhConstants<double>::max_error_ulp) << x;
  }
}

TEST(Tanh, IsOddBitForBit) {
  Samples samples;
  for (int i = 0; i < 10000; ++i) {
    const double x = sample_argument(samples, i);
    const float f = static_cast<float>(x);
    ASSERT_EQ(lockstep::tanh(-x), -lockstep::tanh(x)) << x;
    ASSERT_EQ(lockstep::tanh(-f), -lockstep::tanh(f)) << x;
  }
}

TEST(Tanh, KeepsTheSignOfZero) {
  EXPECT_EQ(std::bit_cast<std::uint32_t>(lockstep::tanh(0.0F)), 0U);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(lockstep::tanh(-0.0F)), 0x80000000U);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(lockstep::tanh(0.0)), 0U);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(lockstep::tanh(-0.0)), std::uint64_t{1} << 63);
}

TEST(Tanh, SaturatesAtOneAndNeverExceedsIt) {
  for (const float x : {9.1F, 10.0F, 11.0F, 100.0F, std::numeric_limits<float>::max(), HUGE_VALF}) {
    EXPECT_EQ(lockstep::tanh(x), 1.0F) << x;
    EXPECT_EQ(lockstep::tanh(-x), -1.0F) << x;
  }
  for (const double x : {19.1, 20.0, 21.0, 1e4, std::numeric_limits<double>::max(), HUGE_VAL}) {
    EXPECT_EQ(lockstep::tanh(x), 1.0) << x;
    EXPECT_EQ(lockstep::tanh(-x), -1.0) << x;
  }
  for (float x = 7.0F; x < 9.5F; x += 0x1p-10F) ASSERT_LE(lockstep::tanh(x), 1.0F) << x;
}

TEST(Tanh, KeepsNan) {
  EXPECT_TRUE(std::isnan(lockstep::tanh(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(lockstep::tanh(-std::numeric_limits<double>::quiet_NaN())));
}

TEST(Tanh, HasTheGoldenBits) {
  const FloatEnvironment environment;
  BitHash floats;
  for (std::uint32_t bits = 0; bits <= 0x7f800000U; bits += 1021)
    floats.add(lockstep::tanh(std::bit_cast<float>(bits)));
  EXPECT_EQ(floats.value(), 0x3673b5e7cd307a5dU);
  BitHash doubles;
  Samples samples;
  for (int i = 0; i < 200000; ++i) doubles.add(lockstep::tanh(-sample_argument(samples, i)));
  EXPECT_EQ(doubles.value(), 0xfe4c43e1e1f0ab65U);
}

}  // namespace
