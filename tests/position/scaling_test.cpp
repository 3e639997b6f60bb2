// Each scaling of frequencies against its formula, written down again in extended precision.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "lockstep/position/rope_table.hpp"
#include "lockstep/position/scaling.hpp"

namespace ls = lockstep;
using ls::Index;

namespace {

using Real = long double;
using Reals = std::vector<Real>;
constexpr Real pi = std::numbers::pi_v<Real>;

template <class F>
Reals each_pair(Index dim, F f) {
  Reals result;
  for (Index i = 0; i < dim / 2; ++i) result.push_back(f(i, 2.0L * static_cast<Real>(i) / static_cast<Real>(dim)));
  return result;
}

template <class S>
ls::RopeTable<double> table_of(Index dim, double base, const S& scaling, Index positions = 4) {
  return ls::RopeTable<double>({.rotary_dim = dim, .base = base, .positions = positions}, scaling);
}

// The rounding of the exponent costs up to 2^-53 ln(base), the rest a few units in the last place.
void expect_frequencies(const ls::RopeTable<double>& table, const Reals& expected, Real tolerance = 4e-15L) {
  ASSERT_EQ(table.inverse_frequencies().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(std::abs(static_cast<Real>(table.inverse_frequencies()[i]) - expected[i]), tolerance * expected[i])
        << "pair " << i;
}

// Cosines and sines are those of the frequencies, times the magnitude.
template <class S>
void expect_table(Index dim, double base, const S& scaling, Real magnitude) {
  const Index positions = 3000;
  const auto wide = table_of(dim, base, scaling, positions);
  const ls::RopeTable<float> narrow({.rotary_dim = dim, .base = base, .positions = positions}, scaling);
  EXPECT_NEAR(wide.magnitude(), static_cast<double>(magnitude), 4e-16 * static_cast<double>(magnitude));
  EXPECT_EQ(narrow.magnitude(), wide.magnitude());
  for (const Index p : {Index{0}, Index{1}, Index{2}, Index{40}, Index{1023}, positions - 1})
    for (Index i = 0; i < dim / 2; ++i) {
      const Real angle =
          static_cast<Real>(p) * static_cast<Real>(wide.inverse_frequencies()[static_cast<std::size_t>(i)]);
      const Real cos = magnitude * std::cos(angle), sin = magnitude * std::sin(angle);
      const Real of_double = magnitude * (0x1p-51L + angle * 0x1p-53L), of_float = magnitude * 0x1p-24L;
      EXPECT_LE(std::abs(static_cast<Real>(wide.cos(p)[i]) - cos), of_double) << p << ", " << i;
      EXPECT_LE(std::abs(static_cast<Real>(wide.sin(p)[i]) - sin), of_double) << p << ", " << i;
      EXPECT_LE(std::abs(static_cast<Real>(narrow.cos(p)[i]) - cos), of_float) << p << ", " << i;
      EXPECT_LE(std::abs(static_cast<Real>(narrow.sin(p)[i]) - sin), of_float) << p << ", " << i;
    }
}

TEST(Unscaled, HasTheFrequenciesOfThePaper) {
  for (const Index dim : {2, 4, 6, 64, 96, 128})
    for (const double base : {2.0, 1e4, 5e5, 1e6})
      expect_frequencies(table_of(dim, base, ls::Unscaled{}), each_pair(dim, [&](Index, Real exponent) {
                           return std::pow(static_cast<Real>(base), -exponent);
                         }));
  EXPECT_EQ(table_of(8, 1e4, ls::Unscaled{}).magnitude(), 1);
}

TEST(LinearScaling, DividesEveryFrequency) {
  for (const double factor : {1.0, 2.0, 3.7, 8.0}) {
    expect_frequencies(table_of(128, 1e4, ls::LinearScaling{.factor = factor}),
                       each_pair(128, [&](Index, Real exponent) { return std::pow(1e4L, -exponent) / factor; }));
    expect_table(20, 1e4, ls::LinearScaling{.factor = factor}, 1);
  }
}

TEST(LinearScaling, GivesPositionsTheAnglesOfTheirFraction) {
  const auto plain = table_of(64, 1e4, ls::Unscaled{}, 100),
             scaled = table_of(64, 1e4, ls::LinearScaling{.factor = 4}, 400);
  for (Index i = 0; i < 32; ++i) EXPECT_EQ(scaled.cos(396)[i], plain.cos(99)[i]);
}

TEST(DynamicNtkScaling, RaisesTheBase) {
  for (const Index dim : {4, 64, 128})
    for (const Index length : {2049, 4096, 16384, 100000})
      for (const double factor : {1.0, 2.0, 10.0}) {
        const Real growth =
            static_cast<Real>(factor) * static_cast<Real>(length) / 2048 - (static_cast<Real>(factor) - 1);
        const Real raised = 1e4L * std::pow(growth, static_cast<Real>(dim) / static_cast<Real>(dim - 2));
        expect_frequencies(
            table_of(dim, 1e4, ls::DynamicNtkScaling{.factor = factor, .original_length = 2048, .length = length}),
            each_pair(dim, [&](Index, Real exponent) { return std::pow(raised, -exponent); }), 8e-15L);
      }
  expect_table(64, 1e4, ls::DynamicNtkScaling{.factor = 10, .original_length = 2048, .length = 16384}, 1);
}

TEST(DynamicNtkScaling, IsPlainUpToTheOriginalLength) {
  const auto plain = table_of(128, 1e4, ls::Unscaled{}, 50);
  for (const Index length : {0, 1, 2047, 2048}) {
    const auto table =
        table_of(128, 1e4, ls::DynamicNtkScaling{.factor = 10, .original_length = 2048, .length = length}, 50);
    EXPECT_EQ(table.identity(), plain.identity()) << length;
    EXPECT_TRUE(std::equal(plain.cos(0), plain.cos(0) + 50 * 64, table.cos(0))) << length;
  }
  EXPECT_NE(table_of(128, 1e4, ls::DynamicNtkScaling{.factor = 10, .original_length = 2048, .length = 2049}).identity(),
            plain.identity());
  // One pair alone: nothing to raise.
  EXPECT_EQ(table_of(2, 1e4, ls::DynamicNtkScaling{.factor = 10, .original_length = 2048, .length = 9999})
                .inverse_frequencies()[0],
            1);
}

// As the paper's code has it: a mask of what is left alone, over pair numbers.
Reals yarn(Index dim, double base, const ls::YarnScaling& s) {
  const auto correction = [&](double turns) {
    return static_cast<Real>(dim) *
           std::log(static_cast<Real>(s.original_length) / (static_cast<Real>(turns) * 2 * pi)) /
           (2 * std::log(static_cast<Real>(base)));
  };
  Real low = correction(s.beta_fast), high = correction(s.beta_slow);
  if (s.ramp == ls::YarnRamp::whole_pairs) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0L);
  high = std::min(high, static_cast<Real>(dim - 1));
  if (low == high) high += 0.001L;
  return each_pair(dim, [&](Index i, Real exponent) {
    const Real mask = 1 - std::min(std::max((static_cast<Real>(i) - low) / (high - low), 0.0L), 1.0L);
    const Real wavelength = std::pow(static_cast<Real>(base), exponent);
    return 1 / (static_cast<Real>(s.factor) * wavelength) * (1 - mask) + 1 / wavelength * mask;
  });
}

TEST(YarnScaling, InterpolatesAlongTheRamp) {
  for (const ls::YarnRamp ramp : {ls::YarnRamp::whole_pairs, ls::YarnRamp::exact})
    for (const Index dim : {2, 64, 96, 128})
      for (const double factor : {1.0, 4.0, 32.0})
        for (const Index length : {4096, 32768}) {
          const ls::YarnScaling scaling{.factor = factor, .original_length = length, .ramp = ramp};
          for (const double base : {1e4, 1e6})
            expect_frequencies(table_of(dim, base, scaling), yarn(dim, base, scaling), 2e-14L);
        }
  const ls::YarnScaling other{.factor = 16, .original_length = 8192, .beta_fast = 20, .beta_slow = 2.5};
  expect_frequencies(table_of(128, 150000, other), yarn(128, 150000, other), 2e-14L);
  const ls::YarnScaling step{
      .factor = 16, .original_length = 8192, .beta_fast = 7, .beta_slow = 7, .ramp = ls::YarnRamp::exact};
  expect_frequencies(table_of(128, 1e4, step), yarn(128, 1e4, step), 2e-14L);
}

TEST(YarnScaling, LeavesFastPairsAndInterpolatesSlowOnes) {
  const ls::YarnScaling scaling{.factor = 4, .original_length = 32768};
  const auto plain = table_of(128, 1e6, ls::Unscaled{}), table = table_of(128, 1e6, scaling);
  // 32 turns are at pair 23.6, one at 39.6.
  for (std::size_t i = 0; i <= 23; ++i) EXPECT_EQ(table.inverse_frequencies()[i], plain.inverse_frequencies()[i]) << i;
  for (std::size_t i = 24; i < 40; ++i) {
    EXPECT_LT(table.inverse_frequencies()[i], plain.inverse_frequencies()[i]) << i;
    EXPECT_GT(table.inverse_frequencies()[i], plain.inverse_frequencies()[i] / 4) << i;
  }
  for (std::size_t i = 40; i < 64; ++i)
    EXPECT_EQ(table.inverse_frequencies()[i], plain.inverse_frequencies()[i] / 4) << i;
}

TEST(YarnScaling, RoundsTheRampOnlyWhereAsked) {
  ls::YarnScaling scaling{.factor = 4, .original_length = 32768};
  const auto whole = table_of(128, 1e6, scaling);
  scaling.ramp = ls::YarnRamp::exact;
  const auto exact = table_of(128, 1e6, scaling);
  EXPECT_GT(std::abs(exact.inverse_frequencies()[30] / whole.inverse_frequencies()[30] - 1), 1e-3);
}

// sgl-project/sglang#33558, turboderp-org/exllamav3#259, ml-explore/mlx-lm#1507, ggml-org/llama.cpp#17945: the
// magnitude was applied twice, or lost, or an explicit one taken for a further factor.
TEST(YarnScaling, HasItsMagnitudeOnce) {
  const ls::YarnScaling by_formula{.factor = 128, .original_length = 4096};
  const Real magnitude = 0.1L * std::log(128.0L) + 1;
  EXPECT_NEAR(static_cast<double>(magnitude), 1.485203, 1e-6);
  expect_table(2, 1e4, by_formula, magnitude);
  expect_table(64, 1e4, by_formula, magnitude);
  ls::YarnScaling given = by_formula;
  given.magnitude = 1.25;
  expect_table(64, 1e4, given, 1.25L);
  given.magnitude = 1;
  expect_table(64, 1e4, given, 1);
  EXPECT_EQ(table_of(64, 1e4, ls::YarnScaling{.factor = 1, .original_length = 4096}).magnitude(), 1);
}

TEST(YarnMagnitude, TakesDeepSeeksWeights) {
  EXPECT_EQ(ls::yarn_magnitude(1, 0.7), 1);
  EXPECT_NEAR(ls::yarn_magnitude(40, 0.707), 0.0707 * std::log(40.0) + 1, 4e-16);
  EXPECT_EQ(ls::yarn_magnitude(40, 1) / ls::yarn_magnitude(40, 1), 1);
}

TEST(Llama3Scaling, HasThreeBandsOfWavelengths) {
  for (const double base : {1e4, 5e5})
    for (const double factor : {1.0, 8.0, 32.0})
      for (const Index length : {2048, 8192}) {
        const ls::Llama3Scaling scaling{.factor = factor, .original_length = length};
        const Real original = static_cast<Real>(length);
        int bands[3] = {};
        expect_frequencies(table_of(128, base, scaling),
                           each_pair(128,
                                     [&](Index, Real exponent) {
                                       const Real f = std::pow(static_cast<Real>(base), -exponent),
                                                  wavelength = 2 * pi / f;
                                       if (wavelength > original / 1) return ++bands[0], f / static_cast<Real>(factor);
                                       if (wavelength < original / 4) return ++bands[1], f;
                                       ++bands[2];
                                       const Real smooth = (original / wavelength - 1) / (4 - 1);
                                       return (1 - smooth) * f / static_cast<Real>(factor) + smooth * f;
                                     }),
                           1e-14L);
        EXPECT_TRUE(bands[0] > 0 && bands[1] > 0 && bands[2] > 0);
      }
  expect_table(64, 5e5, ls::Llama3Scaling{.factor = 8, .original_length = 8192}, 1);
}

ls::LongRopeScaling long_rope(Index dim, Index length) {
  ls::LongRopeScaling scaling{.original_length = 4096, .extended_length = 131072, .length = length};
  for (Index i = 0; i < dim / 2; ++i) {
    scaling.short_factors.push_back(1 + 0.05 * static_cast<double>(i));
    scaling.long_factors.push_back(1.1 + 1.3 * static_cast<double>(i));
  }
  return scaling;
}

TEST(LongRopeScaling, ChoosesTheListByTheLength) {
  for (const Index length : {0, 1, 4095, 4096, 4097, 131072}) {
    const auto scaling = long_rope(96, length);
    expect_frequencies(
        table_of(96, 1e4, scaling), each_pair(96, [&](Index i, Real exponent) {
          const auto at = static_cast<std::size_t>(i);
          return 1 / (static_cast<Real>(length > 4096 ? scaling.long_factors[at] : scaling.short_factors[at]) *
                      std::pow(1e4L, exponent));
        }));
  }
}

TEST(LongRopeScaling, HasItsOwnMagnitudeOnce) {
  const Real magnitude = std::sqrt(1 + std::log(32.0L) / std::log(4096.0L));
  for (const Index length : {1, 131072}) {
    expect_table(64, 1e4, long_rope(64, length), magnitude);
    auto given = long_rope(64, length);
    given.magnitude = 0.5;
    given.extended_length = 0;  // of the formula only
    expect_table(64, 1e4, given, 0.5L);
  }
  auto unextended = long_rope(64, 1);
  unextended.extended_length = 4096;
  EXPECT_EQ(table_of(64, 1e4, unextended).magnitude(), 1);
}

// A scaling of a user's own: every second pair stands still.
struct EverySecond {
  ls::Status check(const ls::RopeConfig&) const noexcept { return {}; }
  double apply(const ls::RopeConfig&, std::span<double> frequencies) const noexcept {
    for (std::size_t i = 1; i < frequencies.size(); i += 2) frequencies[i] = 0;
    return 2;
  }
};

TEST(FrequencyScaling, MayBeAUsersOwn) {
  const auto table = table_of(8, 1e4, EverySecond{}, 10);
  EXPECT_EQ(table.magnitude(), 2);
  EXPECT_EQ(table.cos(9)[1], 2);
  EXPECT_EQ(table.sin(9)[1], 0);
  EXPECT_NEAR(table.cos(9)[2], 2 * std::cos(0.09), 1e-15);
}

}  // namespace
