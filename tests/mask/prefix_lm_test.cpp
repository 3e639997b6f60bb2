#include "lockstep/mask/causal.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ls = lockstep;
using ls::Index;
using ls::KeyRange;
using ls::PrefixLm;
using ls::QueryRow;

namespace {

QueryRow at(Index place, Index sequence = 0) { return {.sequence = sequence, .row = place, .place = place}; }

TEST(PrefixLm, EveryRowSeesThePrefix) {
  const PrefixLm mask(Index{5});
  EXPECT_EQ(mask.range(at(0), 9), (KeyRange{0, 5}));
  EXPECT_EQ(mask.range(at(4), 9), (KeyRange{0, 5}));
  EXPECT_EQ(mask.range(at(5), 9), (KeyRange{0, 6}));
  EXPECT_EQ(mask.range(at(5), 3), (KeyRange{0, 3}));
}

TEST(PrefixLm, NeedsTheWholePrefix) {
  const PrefixLm mask(Index{5});
  EXPECT_EQ(mask.keys_needed(at(0)), 5);
  EXPECT_EQ(mask.keys_needed(at(7)), 8);
}

TEST(PrefixLm, OfLengthZeroIsCausal) {
  for (Index place = -3; place < 30; ++place) {
    EXPECT_EQ(PrefixLm{}.range(at(place), 20).size(), ls::Causal{}.range(at(place < -1 ? -1 : place), 20).size());
    EXPECT_LE(PrefixLm{}.keys_needed(at(place)), place < 0 ? 0 : place + 1);
  }
}

TEST(PrefixLm, TakesOneLengthForEachSequence) {
  const std::array<Index, 2> prefixes{0, 4};
  const PrefixLm mask{std::span<const Index>(prefixes)};
  EXPECT_EQ(mask.range(at(1, 0), 9), (KeyRange{0, 2}));
  EXPECT_EQ(mask.range(at(1, 1), 9), (KeyRange{0, 4}));
  EXPECT_TRUE(mask.check().ok() && mask.check(2, 1, 9).ok());
  EXPECT_STREQ(mask.check(3, 1, 9).message(),
               "lockstep: mask: given 2 prefix lengths, allowed one for each of 3 sequences");
}

TEST(PrefixLm, RefusesNegativeLengths) {
  EXPECT_STREQ(PrefixLm(Index{-1}).check().message(), "lockstep: mask: given a prefix of -1 keys, allowed at least 0");
  const std::array<Index, 2> prefixes{0, -4};
  EXPECT_FALSE(PrefixLm(std::span<const Index>(prefixes)).check(2, 1, 9).ok());
  EXPECT_TRUE(PrefixLm(std::span<const Index>(prefixes)).check(1, 1, 9).ok());
}

}  // namespace
