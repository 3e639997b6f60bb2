#include "lockstep/position/rope_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace ls = lockstep;
using ls::Index;

namespace {

// The distance of a rounded number from the exact one, in units in the last place of the rounded one.
template <class C>
long double ulps(C given, long double exact) {
  const C above = std::nextafter(std::abs(given), std::numeric_limits<C>::infinity());
  return std::abs(static_cast<long double>(given) - exact) /
         (static_cast<long double>(above) - static_cast<long double>(std::abs(given)));
}

long double angle(Index position, Index pair, Index rotary_dim, long double base) {
  return static_cast<long double>(position) *
         std::pow(base, -2.0L * static_cast<long double>(pair) / static_cast<long double>(rotary_dim));
}

TEST(RopeTable, IsTheExactValueRoundedToFloat) {
  // The angle carries the rounding of the frequency and of the product, in double: 2^-53 of the angle each, and
  // rounding the sine to float adds half a unit. Where the exact value is nearly half-way, either neighbour may come
  // out.
  const ls::RopeTable<float> table({.rotary_dim = 128, .base = 10000, .positions = 2048});
  for (Index p = 0; p < 2048; ++p)
    for (Index i = 0; i < 64; ++i) {
      const long double t = angle(p, i, 128, 10000);
      const long double slack = t * 0x1p-51L / static_cast<long double>(std::numeric_limits<float>::epsilon());
      const long double cosine = std::cos(t), sine = std::sin(t);
      ASSERT_LE(ulps(table.cos(p)[i], cosine), 0.5L + 0.001L + 2 * slack / std::abs(cosine)) << p << ", " << i;
      ASSERT_LE(ulps(table.sin(p)[i], sine), 0.5L + 0.001L + 2 * slack / std::max(std::abs(sine), 1e-30L))
          << p << ", " << i;
      if (std::abs(static_cast<long double>(static_cast<float>(cosine)) - cosine) <
          0.499L * 0x1p-24L * std::abs(cosine)) {
        ASSERT_EQ(table.cos(p)[i], static_cast<float>(cosine)) << p << ", " << i;
      }
    }
}

TEST(RopeTable, HoldsToTheMillionthPosition) {
  const Index positions = Index{1} << 20;
  const ls::RopeTable<double> table({.rotary_dim = 8, .base = 1e6, .positions = positions});
  ASSERT_EQ(table.positions(), positions);
  for (const Index p : {Index{1}, Index{65535}, Index{131071}, Index{524288}, Index{1048574}, Index{1048575}})
    for (Index i = 0; i < 4; ++i) {
      const long double t = angle(p, i, 8, 1e6);
      EXPECT_LE(std::abs(static_cast<long double>(table.cos(p)[i]) - std::cos(t)), 0x1p-52L * (1 + t))
          << p << ", " << i;
      EXPECT_LE(std::abs(static_cast<long double>(table.sin(p)[i]) - std::sin(t)), 0x1p-52L * (1 + t))
          << p << ", " << i;
    }
}

TEST(RopeTable, ReducesLargeAnglesExactly) {
  // A table whose angles are formed in float errs here by 0.01 and more.
  const ls::RopeTable<float> table({.rotary_dim = 128, .base = 1e6, .positions = 131072});
  EXPECT_NEAR(table.cos(131071)[3], -0.493971, 5e-7);
  EXPECT_EQ(table.cos(131071)[3], static_cast<float>(std::cos(angle(131071, 3, 128, 1e6L))));
}

TEST(RopeTable, IsShortestAtPositionOne) {
  const ls::RopeTable<double> table({.rotary_dim = 4, .base = 10000, .positions = 2});
  EXPECT_EQ(table.cos(0)[0], 1);
  EXPECT_EQ(table.sin(0)[0], 0);
  EXPECT_NEAR(table.cos(1)[0], std::cos(1.0), 1e-15);
  EXPECT_NEAR(table.sin(1)[0], std::sin(1.0), 1e-15);
  EXPECT_NEAR(table.cos(1)[1], std::cos(0.01), 1e-15);
  EXPECT_NEAR(table.sin(1)[1], std::sin(0.01), 1e-17);
}

TEST(RopeTable, CopiesShareTheMemory) {
  const ls::RopeTable<float> table({.rotary_dim = 16});
  const ls::RopeTable<float> copy = table;
  EXPECT_EQ(copy.cos(5), table.cos(5));
  EXPECT_EQ(copy.positions(), 4096);
}

TEST(RopeTable, TakesTheCallersOwnNumbersThroughStrides) {
  // [pairs][positions] in memory.
  const float cos[2][3] = {{1, 2, 3}, {4, 5, 6}}, sin[2][3] = {{-1, -2, -3}, {-4, -5, -6}};
  const ls::RopeTable<float> table(ls::View<const float, 2>(&cos[0][0], {3, 2}, {1, 3}),
                                   ls::View<const float, 2>(&sin[0][0], {3, 2}, {1, 3}));
  EXPECT_EQ(table.positions(), 3);
  EXPECT_EQ(table.rotary_dim(), 4);
  for (Index p = 0; p < 3; ++p)
    for (Index i = 0; i < 2; ++i) {
      EXPECT_EQ(table.cos(p)[i], cos[i][p]);
      EXPECT_EQ(table.sin(p)[i], sin[i][p]);
    }
}

TEST(RopeTable, BorrowsRowsThatComeLater) {
  std::vector<float> cos(6, 0), sin(8, 0);  // [3, 2] without gaps, [3, 2] in rows of 3
  const auto cos_view = ls::View<const float, 2>::contiguous(cos.data(), {3, 2});
  const ls::View<const float, 2> sin_view(sin.data(), {3, 2}, {3, 1});
  const auto table = ls::RopeTable<float>::borrowed(cos_view, sin_view);
  const ls::RopeTable<float> copied(cos_view, sin_view);
  EXPECT_EQ(table.positions(), 3);
  EXPECT_EQ(table.rotary_dim(), 4);
  EXPECT_TRUE(table.inverse_frequencies().empty());
  EXPECT_EQ(table.magnitude(), 1);
  EXPECT_NE(table.identity(), 0U);
  EXPECT_NE(table.identity(), copied.identity());
  cos[5] = 7;
  sin[7] = 8;
  const auto copy = table;
  EXPECT_EQ(copy.cos(2)[1], 7);
  EXPECT_EQ(copy.sin(2)[1], 8);
  EXPECT_EQ(copied.cos(2)[1], 0);
}

TEST(RopeTable, KnowsWhatItWasMadeOf) {
  const ls::RopeTable<float> made({.rotary_dim = 6, .base = 1000, .positions = 3});
  ASSERT_EQ(made.inverse_frequencies().size(), 3U);
  EXPECT_EQ(made.inverse_frequencies()[0], 1);
  EXPECT_NEAR(made.inverse_frequencies()[1], 0.1, 1e-16);
  EXPECT_NEAR(made.inverse_frequencies()[2], 0.01, 1e-17);
  EXPECT_EQ(made.magnitude(), 1);
  EXPECT_EQ(made.pair_dim(), 6);

  const float numbers[2] = {0.5F, 2};
  const auto view = ls::View<const float, 2>::contiguous(numbers, {1, 2});
  const ls::RopeTable<float> own(view, view), empty;
  EXPECT_TRUE(own.inverse_frequencies().empty());
  EXPECT_EQ(own.magnitude(), 1);
  EXPECT_EQ(own.pair_dim(), 4);
  EXPECT_TRUE(empty.inverse_frequencies().empty());
  EXPECT_EQ(empty.magnitude(), 1);
  EXPECT_EQ(empty.pair_dim(), 0);
}

TEST(RopeTable, ProportionalTakesItsExponentsFromTheHead) {
  const ls::RopeTable<double> whole({.rotary_dim = 64, .base = 1e6, .positions = 9}),
      part({.rotary_dim = 16, .base = 1e6, .positions = 9, .proportional_to = 64});
  EXPECT_EQ(part.rotary_dim(), 16);
  EXPECT_EQ(part.pair_dim(), 64);
  ASSERT_EQ(part.inverse_frequencies().size(), 8U);
  for (Index p = 0; p < 9; ++p)
    for (Index i = 0; i < 8; ++i) {
      EXPECT_EQ(part.cos(p)[i], whole.cos(p)[i]);
      EXPECT_EQ(part.sin(p)[i], whole.sin(p)[i]);
    }
}

#if defined(__x86_64__)
template <class C>
void expect_same_rows(double base, double magnitude, Index first) {
  const ls::RopeTable<C> table({.rotary_dim = 74, .base = base, .positions = 0});
  const double* frequencies = table.inverse_frequencies().data();
  const Index rows = 500, pairs = 37;
  std::vector<C> cos(static_cast<std::size_t>(rows * pairs)), sin = cos, other_cos = cos, other_sin = cos;
  ls::scalar::fill_rows(ls::scalar::Set{}, first, rows, frequencies, pairs, magnitude, cos.data(), sin.data());
  ls::scalar_fma::fill_rows(ls::scalar_fma::Set{}, first, rows, frequencies, pairs, magnitude, other_cos.data(),
                            other_sin.data());
  EXPECT_EQ(std::memcmp(cos.data(), other_cos.data(), cos.size() * sizeof(C)), 0) << base << " from " << first;
  EXPECT_EQ(std::memcmp(sin.data(), other_sin.data(), sin.size() * sizeof(C)), 0) << base << " from " << first;
}

TEST(RopeTable, HasTheSameBitsWithAndWithoutFmaInstructions) {
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "this CPU has no FMA instructions: nothing to compare with";
  for (const double base : {2.0, 1e4, 1e6})
    for (const double magnitude : {1.0, 1.4852030263919618, 0.3})
      for (const Index first : {Index{0}, Index{130800}, Index{1} << 20, -(Index{1} << 30)}) {
        expect_same_rows<float>(base, magnitude, first);
        expect_same_rows<double>(base, magnitude, first);
      }
}
#endif

TEST(RopeTable, DoesNotDependOnTheCallersFloatingPointModes) {
  const ls::RopeTable<float> plain({.rotary_dim = 32, .base = 12345, .positions = 300});
  const ls::RopeTable<double> wide({.rotary_dim = 32, .base = 12345, .positions = 300});
  std::fesetround(FE_UPWARD);
  const ls::RopeTable<float> other({.rotary_dim = 32, .base = 12345, .positions = 300});
  const ls::RopeTable<double> other_wide({.rotary_dim = 32, .base = 12345, .positions = 300});
  const int mode = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(mode, FE_UPWARD);
  EXPECT_EQ(std::memcmp(plain.cos(0), other.cos(0), 300 * 16 * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(plain.sin(0), other.sin(0), 300 * 16 * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(wide.cos(0), other_wide.cos(0), 300 * 16 * sizeof(double)), 0);
  EXPECT_EQ(std::memcmp(wide.sin(0), other_wide.sin(0), 300 * 16 * sizeof(double)), 0);
}

}  // namespace
