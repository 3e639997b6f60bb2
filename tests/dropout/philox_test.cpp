#include "lockstep/dropout/dropout.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace {

using lockstep::philox4x32_10;
using lockstep::PhiloxBlock;

// The known answers published with the generator: all zeros, all ones, the digits of pi.
static_assert(philox4x32_10({0, 0, 0, 0}, {0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});

TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32_10({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, MapsDistinctCountersToDistinctBlocks) {
  std::set<PhiloxBlock> seen;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    for (std::uint32_t word = 0; word < 4; ++word) {
      PhiloxBlock counter{};
      counter[word] = i + 1;
      seen.insert(philox4x32_10(counter, {7, 9}));
    }
  }
  EXPECT_EQ(seen.size(), 4000U);
}

TEST(Philox, EveryWordOfTheKeyCounts) {
  const PhiloxBlock counter{1, 2, 3, 4};
  EXPECT_NE(philox4x32_10(counter, {1, 0}), philox4x32_10(counter, {0, 0}));
  EXPECT_NE(philox4x32_10(counter, {0, 1}), philox4x32_10(counter, {0, 0}));
}

TEST(Philox, WordsAreUniformToFourStandardDeviations) {
  // 4 * 16384 words: the mean of a uniform word has the deviation 2^32 / sqrt(12 * 65536).
  double sum = 0;
  for (std::uint32_t i = 0; i < 16384; ++i) {
    for (const std::uint32_t word : philox4x32_10({0, i, 0, 0}, {3, 5})) sum += word;
  }
  EXPECT_NEAR(sum / 65536 * 0x1p-32, 0.5, 4.0 / 886.8);
}

}  // namespace
