#include "lockstep/numeric/trig.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "numeric/measure.hpp"

namespace {

using lockstep::sin_cos;
using lockstep::SinCos;
using numeric_test::BitHash;
using numeric_test::error_ulp;
using numeric_test::Samples;

// The C library's function itself: under unsafe math flags a call by name may become inexact inline code.
long double (*const volatile reference_sin)(long double) = ::sinl;
long double (*const volatile reference_cos)(long double) = ::cosl;

constexpr double half_pi = 0x1.921fb54442d18p+0;

/// Small, moderate and large angles, and the doubles next to multiples of pi/2, in turn.
double sample_angle(Samples& samples, int i) {
  switch (i % 4) {
    case 0:
      return samples.uniform(-1.0, 1.0);
    case 1:
      return samples.uniform(-300000.0, 300000.0);
    case 2:
      return samples.uniform(-lockstep::max_sin_cos_angle, lockstep::max_sin_cos_angle);
    default:
      return static_cast<double>(static_cast<std::int64_t>(samples.next() >> 34)) * half_pi;
  }
}

TEST(SinCos, ErrorIsAtMostTheStatedUlpAlsoNextToZeros) {
  Samples samples;
  for (int i = 0; i < 400000; ++i) {
    const double angle = sample_angle(samples, i);
    const SinCos result = sin_cos(angle);
    const long double exact_sin = reference_sin(angle);
    const long double exact_cos = reference_cos(angle);
    ASSERT_LE(error_ulp(result.sin, exact_sin), lockstep::max_sin_cos_error_ulp) << angle;
    ASSERT_LE(error_ulp(result.cos, exact_cos), lockstep::max_sin_cos_error_ulp) << angle;
    ASSERT_LE(std::fabs(result.sin - exact_sin), 0x1p-53L) << angle;
    ASSERT_LE(std::fabs(result.cos - exact_cos), 0x1p-53L) << angle;
  }
}

TEST(SinCos, HoldsTheStatedErrorOnIntegerPositions) {
  for (int position = 0; position < 200000; position += 3) {
    const double angle = position;
    const SinCos result = sin_cos(angle);
    ASSERT_LE(error_ulp(result.sin, reference_sin(angle)), lockstep::max_sin_cos_error_ulp) << angle;
    ASSERT_LE(error_ulp(result.cos, reference_cos(angle)), lockstep::max_sin_cos_error_ulp) << angle;
  }
}

TEST(SinCos, IsOddAndEven) {
  Samples samples;
  for (int i = 0; i < 10000; ++i) {
    const double angle = sample_angle(samples, i);
    const SinCos plus = sin_cos(angle);
    const SinCos minus = sin_cos(-angle);
    ASSERT_EQ(plus.sin, -minus.sin) << angle;
    ASSERT_EQ(plus.cos, minus.cos) << angle;
  }
}

TEST(SinCos, IsExactAtZeroAndKeepsItsSign) {
  EXPECT_EQ(std::bit_cast<std::uint64_t>(sin_cos(0.0).sin), 0U);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(sin_cos(-0.0).sin), std::uint64_t{1} << 63);
  EXPECT_EQ(sin_cos(0.0).cos, 1.0);
  EXPECT_EQ(sin_cos(-0.0).cos, 1.0);
}

TEST(SinCos, IsNanWhereThereIsNoAngle) {
  for (const double angle : {HUGE_VAL, -HUGE_VAL, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(sin_cos(angle).sin));
    EXPECT_TRUE(std::isnan(sin_cos(angle).cos));
  }
}

TEST(SinCos, HasTheGoldenBits) {
  BitHash hash;
  Samples samples;
  for (int i = 0; i < 200000; ++i) {
    const SinCos result = sin_cos(sample_angle(samples, i));
    hash.add(result.sin);
    hash.add(result.cos);
  }
  EXPECT_EQ(hash.value(), 0xe35e5e8a3a2b5a29U);
}

}  // namespace
