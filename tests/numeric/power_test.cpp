#include "lockstep/numeric/log.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lockstep/contract.hpp"
#include "numeric/measure.hpp"

namespace {

using lockstep::FloatEnvironment;
using lockstep::power;
using numeric_test::BitHash;
using numeric_test::error_ulp;
using numeric_test::Samples;

// The C library's function itself: under unsafe math flags a call by name may become inexact inline code.
long double (*const volatile reference_pow)(long double, long double) = ::powl;

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Power, ErrorIsAtMostTheStatedUlpWhereTheResultIsNormal) {
  const FloatEnvironment environment;
  Samples samples;
  for (int i = 0; i < 200000; ++i) {
    const double range = i % 2 == 0 ? 1.0 : 700.0;
    const double base = i % 2 == 0 ? samples.positive_bits() : samples.uniform(0.5, 2.0);
    const double exponent = samples.uniform(-range, range);
    const long double exact = reference_pow(base, exponent);
    if (exact < 0x1p-1021L || exact > 0x1p+1023L) continue;
    ASSERT_LE(error_ulp(power(base, exponent), exact), lockstep::max_power_error_ulp) << base << ' ' << exponent;
  }
}

TEST(Power, HoldsTheStatedErrorOnInverseFrequencies) {
  for (const double base : {500.0, 1e4, 5e5, 1e6, 1e7}) {
    for (const int rotary_dim : {16, 32, 64, 80, 96, 128, 256}) {
      for (int i = 0; i < rotary_dim / 2; ++i) {
        const double exponent = -2.0 * i / rotary_dim;
        const long double exact = reference_pow(base, exponent);
        ASSERT_LE(error_ulp(power(base, exponent), exact), lockstep::max_power_error_ulp) << base << ' ' << exponent;
      }
    }
  }
}

TEST(Power, IsExactWhereBaseAndResultArePowersOfTwo) {
  const FloatEnvironment environment;
  for (int n = -1074; n < 1024; ++n) ASSERT_EQ(power(2.0, n), std::ldexp(1.0, n)) << n;
  for (int head = 1; head <= 8; ++head) EXPECT_EQ(power(2.0, -8.0 * head / 8.0), std::ldexp(1.0, -head));
  EXPECT_EQ(power(16.0, -0.25), 0.5);
  EXPECT_EQ(power(0x1p-1074, 0.5), 0x1p-537);
}

TEST(Power, IsOneForExponentZeroAndForBaseOne) {
  EXPECT_EQ(power(10000.0, 0.0), 1.0);
  EXPECT_EQ(power(10000.0, -0.0), 1.0);
  EXPECT_EQ(power(1.0, 12345.678), 1.0);
  EXPECT_EQ(power(1.0, -1e300), 1.0);
}

TEST(Power, SaturatesBeyondTheRange) {
  EXPECT_EQ(power(10.0, 309.0), infinity);
  EXPECT_EQ(power(2.0, 1024.0), infinity);
  EXPECT_EQ(power(2.0, 1e300), infinity);
  EXPECT_EQ(power(2.0, -1e300), 0.0);
  EXPECT_EQ(power(10.0, -400.0), 0.0);
}

TEST(Power, IsNanForABaseOrExponentItDoesNotTake) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double base : {0.0, -0.0, -2.0, infinity, nan}) EXPECT_TRUE(std::isnan(power(base, 1.5))) << base;
  EXPECT_TRUE(std::isnan(power(2.0, nan)));
}

TEST(Power, HasTheGoldenBits) {
  const FloatEnvironment environment;
  BitHash hash;
  Samples samples;
  for (int i = 0; i < 100000; ++i) {
    const double base = samples.positive_bits();
    hash.add(power(base, samples.uniform(-1.125, 1.125)));
    hash.add(power(10000.0, -0x1p-17 * i));
  }
  EXPECT_EQ(hash.value(), 0x92de0966007e2c97U);
}

}  // namespace
