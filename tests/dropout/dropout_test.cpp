#include "lockstep/dropout/dropout.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace ls = lockstep;
using ls::Index;

namespace {

std::uint32_t word(std::uint32_t seed, std::uint32_t stream, Index head, Index query, Index key) {
  const auto q = static_cast<std::uint64_t>(query), k = static_cast<std::uint64_t>(key / 4);
  return ls::philox4x32_10(
      {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(q), static_cast<std::uint32_t>(head),
       static_cast<std::uint32_t>(((k >> 32) << 16) | (q >> 32))},
      {seed, stream})[static_cast<std::size_t>(key % 4)];
}

std::vector<bool> pattern(const ls::Dropout& dropout, std::uint32_t stream, Index heads, Index queries, Index keys) {
  const auto bound = dropout.bind(stream);
  std::vector<bool> kept;
  for (Index h = 0; h < heads; ++h)
    for (Index q = 0; q < queries; ++q)
      for (Index k = 0; k < keys; ++k) kept.push_back(bound.kept(h, q, k));
  return kept;
}

TEST(Dropout, KeepsAKeyIffItsWordReachesTheProbability) {
  for (const double p : {0.0, 1e-3, 0.1, 0.5, 0.75, 0.999}) {
    const auto bound = ls::Dropout{p, 42}.bind(7);
    for (Index h = 0; h < 3; ++h)
      for (Index q = 0; q < 20; ++q)
        for (Index k = 0; k < 50; ++k)
          ASSERT_EQ(bound.kept(h, q, k), static_cast<double>(word(42, 7, h, q, k)) >= p * 0x1p32)
              << p << ", " << h << ", " << q << ", " << k;
  }
}

TEST(Dropout, ComparesExactlyAtTheThreshold) {
  // The word itself is kept at a probability of word 2^-32 and dropped at the next larger one.
  const std::uint32_t w = word(1, 2, 3, 4, 5);
  const double at = static_cast<double>(w) * 0x1p-32;
  EXPECT_TRUE((ls::Dropout{at, 1}.bind(2).kept(3, 4, 5)));
  EXPECT_FALSE((ls::Dropout{std::nextafter(at, 1.0), 1}.bind(2).kept(3, 4, 5)));
  EXPECT_TRUE((ls::Dropout{std::nextafter(at, 0.0), 1}.bind(2).kept(3, 4, 5)));
}

TEST(Dropout, PatternDependsOnSeedStreamHeadAndPlacesAlone) {
  const ls::Dropout dropout{0.5, 42};
  const auto once = pattern(dropout, 3, 2, 16, 33);
  EXPECT_EQ(pattern(dropout, 3, 2, 16, 33), once);
  EXPECT_NE(pattern(dropout, 4, 2, 16, 33), once);
  EXPECT_NE(pattern({0.5, 43}, 3, 2, 16, 33), once);
  // In any order, alone or among others.
  const auto bound = dropout.bind(3);
  EXPECT_EQ(bound.kept(1, 15, 32), once.back());
  EXPECT_EQ(bound.kept(0, 0, 0), once.front());
}

TEST(Dropout, DiffersBetweenHeadsQueriesAndKeys) {
  std::set<std::vector<bool>> rows;
  const auto bound = ls::Dropout{0.5, 9}.bind(0);
  for (Index h = 0; h < 8; ++h)
    for (Index q = 0; q < 64; ++q) {
      std::vector<bool> row;
      for (Index k = 0; k < 64; ++k) row.push_back(bound.kept(h, q, k));
      rows.insert(row);
    }
  EXPECT_EQ(rows.size(), 8U * 64U);
}

TEST(Dropout, TellsPlacesBeyondThirtyTwoBitsApart) {
  const auto bound = ls::Dropout{0.5, 9}.bind(0);
  const auto row = [&](Index query, Index key) {
    std::vector<bool> kept;
    for (Index k = 0; k < 64; ++k) kept.push_back(bound.kept(0, query, key + k));
    return kept;
  };
  const Index far = Index{1} << 34;
  const std::set<std::vector<bool>> rows{row(0, 0),     row(far, 0),     row(0, far),
                                         row(far, far), row(2 * far, 0), row(0, 2 * far)};
  EXPECT_EQ(rows.size(), 6U);
}

TEST(Dropout, DropsTheFractionAskedFor) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const auto kept = pattern({p, 5}, 1, 4, 100, 250);
    double dropped = 0;
    for (const bool k : kept) dropped += k ? 0 : 1;
    const double n = static_cast<double>(kept.size());
    EXPECT_NEAR(dropped / n, p, 4 * std::sqrt(p * (1 - p) / n));  // four standard deviations
  }
}

TEST(Dropout, ScalesWhatItKeeps) {
  EXPECT_EQ(ls::Dropout{}.bind(0).factor(), 1);
  EXPECT_EQ((ls::Dropout{0.5}.bind(0).factor()), 2);
  EXPECT_EQ((ls::Dropout{0.75}.bind(0).factor()), 4);
  EXPECT_EQ((ls::Dropout{0.1}.bind(0).factor()), 1 / 0.9);
}

TEST(Dropout, AtZeroKeepsEverything) {
  for (const bool kept : pattern({0, 77}, 3, 3, 30, 40)) EXPECT_TRUE(kept);
}

TEST(Dropout, TakesProbabilitiesBelowOneOnly) {
  EXPECT_TRUE(ls::Dropout{}.check().ok());
  EXPECT_TRUE((ls::Dropout{std::nextafter(1.0, 0.0)}.check().ok()));
  for (const double p :
       {1.0, 1.5, -0.1, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_FALSE((ls::Dropout{p}.check().ok())) << p;
  EXPECT_STREQ((ls::Dropout{1.5}.check().message()), "lockstep: dropout probability: given 1.5, allowed 0 <= p < 1");
}

TEST(NoDropout, KeepsEverythingAndIsNotActive) {
  static_assert(!ls::NoDropout::active && ls::Dropout::active);
  EXPECT_TRUE(ls::NoDropout{}.bind(3).kept(1, 2, 3));
  EXPECT_EQ(ls::NoDropout{}.bind(3).factor(), 1);
}

}  // namespace
