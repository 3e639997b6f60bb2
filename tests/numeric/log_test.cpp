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
using lockstep::log_positive;
using numeric_test::BitHash;
using numeric_test::error_ulp;
using numeric_test::Samples;

// The C library's function itself: under unsafe math flags a call by name may become inexact inline code.
long double (*const volatile reference_log)(long double) = ::logl;

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(LogPositive, ErrorIsAtMostTheStatedUlp) {
  const FloatEnvironment environment;
  Samples samples;
  for (int i = 0; i < 400000; ++i) {
    double x = samples.positive_bits();
    if (i % 4 == 1) x = samples.uniform(0.5, 2.0);
    if (i % 4 == 2) x = samples.uniform(1.0 - 0x1p-20, 1.0 + 0x1p-20);
    if (i % 4 == 3) x = samples.uniform(1.0, 4096.0);
    const double error = error_ulp(log_positive(x), reference_log(x));
    ASSERT_LE(error, lockstep::max_log_error_ulp) << x;
  }
}

TEST(LogPositive, HoldsTheStatedUlpOnDenormals) {
  const FloatEnvironment environment;
  Samples samples;
  for (int shift = 12; shift < 64; ++shift) {
    const double x = std::bit_cast<double>(samples.next() >> shift | 1U);
    ASSERT_LE(error_ulp(log_positive(x), reference_log(x)), lockstep::max_log_error_ulp) << x;
  }
}

TEST(LogPositive, IsZeroAtOne) { EXPECT_EQ(std::bit_cast<std::uint64_t>(log_positive(1.0)), 0U); }

TEST(LogPositive, HasTheUsualLimits) {
  EXPECT_EQ(log_positive(0.0), -infinity);
  EXPECT_EQ(log_positive(-0.0), -infinity);
  EXPECT_EQ(log_positive(infinity), infinity);
  EXPECT_TRUE(std::isnan(log_positive(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(log_positive(-1.0)));
}

TEST(LogPositive, HasTheGoldenBits) {
  const FloatEnvironment environment;
  BitHash hash;
  Samples samples;
  for (int i = 0; i < 200000; ++i) {
    hash.add(log_positive(i % 2 == 0 ? samples.positive_bits() : samples.uniform(0.25, 300.0)));
  }
  for (int i = 0; i < 64; ++i) hash.add(log_positive(std::bit_cast<double>(samples.next() >> (12 + i % 52))));
  EXPECT_EQ(hash.value(), 0xe61476a27d18c55cU);
}

}  // namespace
