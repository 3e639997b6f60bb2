#include "lockstep/mask/causal.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ls = lockstep;
using ls::Index;
using ls::KeyRange;

namespace {

TEST(OffsetCausal, CountsFromTheGivenOffsetWhateverThePlace) {
  const ls::OffsetCausal mask(Index{3});
  EXPECT_EQ(mask.range({.row = 2, .place = 100}, 50), (KeyRange{0, 6}));
  EXPECT_TRUE(mask.visible({.row = 2, .place = 0}, 5));
  EXPECT_FALSE(mask.visible({.row = 2, .place = 100}, 6));
  EXPECT_EQ(mask.keys_needed({.row = 2, .place = 100}), 6);
}

TEST(OffsetCausal, RowsBeforeANegativeOffsetSeeNothing) {
  const ls::OffsetCausal mask(Index{-3});
  for (Index row = 0; row < 3; ++row) EXPECT_TRUE(mask.range({.row = row, .place = row}, 8).empty());
  EXPECT_EQ(mask.range({.row = 3, .place = 3}, 8), (KeyRange{0, 1}));
  EXPECT_LE(mask.keys_needed({.row = 0}), 0);
}

TEST(OffsetCausal, WithTheCacheLengthIsTheCausalMask) {
  const ls::OffsetCausal mask(Index{11});
  for (Index row = 0; row < 40; ++row) {
    const ls::QueryRow q{.row = row, .place = row + 11};
    EXPECT_EQ(mask.range(q, 30), ls::Causal{}.range(q, 30));
    EXPECT_EQ(mask.keys_needed(q), ls::Causal{}.keys_needed(q));
  }
}

TEST(OffsetCausal, TakesOneOffsetForEachSequence) {
  const std::array<Index, 2> offsets{-1, 5};
  const ls::OffsetCausal mask{std::span<const Index>(offsets)};
  EXPECT_TRUE(mask.range({.sequence = 0, .row = 0}, 9).empty());
  EXPECT_EQ(mask.range({.sequence = 1, .row = 0}, 9), (KeyRange{0, 6}));
  EXPECT_TRUE(mask.check(2, 1, 9).ok());
  EXPECT_STREQ(mask.check(3, 1, 9).message(), "lockstep: mask: given 2 offsets, allowed one for each of 3 sequences");
  EXPECT_FALSE(ls::OffsetCausal(std::span<const Index>{}).check(1, 1, 1).ok());
}

}  // namespace
