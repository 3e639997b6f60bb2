#include "lockstep/numeric/rounded.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "numeric/measure.hpp"

namespace {

using lockstep::detail::DoubleDouble;
using numeric_test::Samples;

__extension__ using Wide = __int128;

/// A random integer of 53 bits, either sign.
double random_integer(Samples& samples) {
  const auto value = static_cast<std::int64_t>(samples.next() >> 11);
  return static_cast<double>(samples.next() % 2 == 0 ? value : -value);
}

Wide exactly(DoubleDouble x) { return static_cast<Wide>(x.high) + static_cast<Wide>(x.low); }

void expect_normalised(DoubleDouble x) { EXPECT_EQ(x.high + x.low, x.high); }

TEST(DoubleDouble, SumsAreExact) {
  Samples samples;
  for (int i = 0; i < 10000; ++i) {
    const double a = std::ldexp(random_integer(samples), i % 60);
    const double b = random_integer(samples);
    const Wide sum = static_cast<Wide>(a) + static_cast<Wide>(b);
    const DoubleDouble any_order = lockstep::detail::two_sum(b, a);
    ASSERT_TRUE(exactly(any_order) == sum);
    expect_normalised(any_order);
    if (std::fabs(a) >= std::fabs(b)) {
      ASSERT_TRUE(exactly(lockstep::detail::fast_two_sum(a, b)) == sum);
    }
  }
}

TEST(DoubleDouble, ProductsAreExact) {
  Samples samples;
  for (int i = 0; i < 10000; ++i) {
    const double a = random_integer(samples);
    const double b = random_integer(samples);
    const DoubleDouble product = lockstep::detail::two_product(a, b);
    ASSERT_TRUE(exactly(product) == static_cast<Wide>(a) * static_cast<Wide>(b));
    expect_normalised(product);
  }
}

TEST(DoubleDouble, ProductOfPairsHoldsTheStatedRelativeError) {
  Samples samples;
  for (int i = 0; i < 10000; ++i) {
    // Pairs of 62 bits: their product has 124, known exactly.
    const DoubleDouble a = lockstep::detail::two_sum(std::ldexp(random_integer(samples), 9), i);
    const DoubleDouble b = lockstep::detail::two_sum(std::ldexp(random_integer(samples), 9), -i);
    const Wide difference = exactly(lockstep::detail::product(a, b)) - exactly(a) * exactly(b);
    const double magnitude = std::fabs(a.high * b.high);
    ASSERT_LE(std::fabs(static_cast<double>(difference)), magnitude * 0x1p-102 + 1);
  }
}

}  // namespace
