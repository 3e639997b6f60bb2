#include "lockstep/position/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "reference.hpp"

namespace ls = lockstep;
using ls::Index;

namespace {

template <class Style>
std::vector<float> turned(std::vector<float> row, Index rotary_dim, Index position, double base = 10000) {
  const ls::Rope<Style, float> rope{
      ls::RopeTable<float>({.rotary_dim = rotary_dim, .base = base, .positions = position + 1})};
  rope.rotate(row.data(), position);
  return row;
}

const float c = static_cast<float>(std::cos(1.0)), s = static_cast<float>(std::sin(1.0));
const float c2 = static_cast<float>(std::cos(0.01)), s2 = static_cast<float>(std::sin(0.01));

TEST(Rope, HalfSplitPairsTheHalves) {
  EXPECT_EQ(turned<ls::HalfSplit>({1, 0, 0, 0}, 4, 1), (std::vector<float>{c, 0, s, 0}));
  EXPECT_EQ(turned<ls::HalfSplit>({0, 1, 0, 0}, 4, 1), (std::vector<float>{0, c2, 0, s2}));
  EXPECT_EQ(turned<ls::HalfSplit>({0, 0, 1, 0}, 4, 1), (std::vector<float>{-s, 0, c, 0}));
  EXPECT_EQ(turned<ls::HalfSplit>({0, 0, 0, 1}, 4, 1), (std::vector<float>{0, -s2, 0, c2}));
}

TEST(Rope, InterleavedPairsNeighbours) {
  EXPECT_EQ(turned<ls::Interleaved>({1, 0, 0, 0}, 4, 1), (std::vector<float>{c, s, 0, 0}));
  EXPECT_EQ(turned<ls::Interleaved>({0, 1, 0, 0}, 4, 1), (std::vector<float>{-s, c, 0, 0}));
  EXPECT_EQ(turned<ls::Interleaved>({0, 0, 1, 0}, 4, 1), (std::vector<float>{0, 0, c2, s2}));
  EXPECT_EQ(turned<ls::Interleaved>({0, 0, 0, 1}, 4, 1), (std::vector<float>{0, 0, -s2, c2}));
}

TEST(Rope, IsOneFusedMultiplyAddOnARoundedProduct) {
  const ls::RopeTable<float> table({.rotary_dim = 2, .positions = 100});
  const ls::Rope<ls::HalfSplit, float> rope{table};
  for (Index p = 0; p < 100; ++p) {
    const float a = 1.1F + 0.01F * static_cast<float>(p), b = -2.3F;
    float row[2] = {a, b};
    rope.rotate(row, p);
    const volatile float product = b * table.sin(p)[0], other = b * table.cos(p)[0];
    EXPECT_EQ(row[0], std::fma(a, table.cos(p)[0], -product));
    EXPECT_EQ(row[1], std::fma(a, table.sin(p)[0], other));
  }
}

TEST(Rope, PartialRotaryPairsWithinItsOwnWidth) {
  const float rest = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> row{1, 2, 3, 4, 5, rest, -0.0F, 1e-42F};
  const std::vector<float> half = turned<ls::HalfSplit>(row, 4, 3), neighbours = turned<ls::Interleaved>(row, 4, 3);
  EXPECT_EQ(std::memcmp(half.data() + 4, row.data() + 4, 4 * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(neighbours.data() + 4, row.data() + 4, 4 * sizeof(float)), 0);
  EXPECT_NEAR(half[0], std::cos(3.0) * 1 - std::sin(3.0) * 3, 1e-6);  // paired with number 2, not with 4
  EXPECT_NEAR(neighbours[0], std::cos(3.0) * 1 - std::sin(3.0) * 2, 1e-6);
}

// Gemma 4: the pairs are those of the whole head, and only the first of them turn.
TEST(Rope, ProportionalRotaryPairsAcrossTheHead) {
  const float rest = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> row{1, 2, rest, -0.0F, 5, 6, 1e-42F, rest, -0.0F, rest};
  const ls::RopeTable<float> table({.rotary_dim = 4, .base = 10000, .positions = 4, .proportional_to = 8});
  const ls::Rope<ls::HalfSplit, float> half(table);
  EXPECT_EQ(half.rotary_dim(), 6);
  std::vector<float> turned = row;
  half.rotate(turned.data(), 3);
  const double second = 3 * std::pow(10000, -0.25);  // 2 pairs alone would give 0.03
  EXPECT_NEAR(turned[0], std::cos(3.0) * 1 - std::sin(3.0) * 5, 1e-6);
  EXPECT_NEAR(turned[4], std::sin(3.0) * 1 + std::cos(3.0) * 5, 1e-6);
  EXPECT_NEAR(turned[1], std::cos(second) * 2 - std::sin(second) * 6, 1e-6);
  EXPECT_NEAR(turned[5], std::sin(second) * 2 + std::cos(second) * 6, 1e-6);
  EXPECT_EQ(std::memcmp(&turned[2], &row[2], 2 * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(&turned[6], &row[6], 4 * sizeof(float)), 0);

  row = {1, 5, 2, 6, rest, -0.0F, 1e-42F, rest};
  const ls::Rope<ls::Interleaved, float> neighbours(table);
  EXPECT_EQ(neighbours.rotary_dim(), 4);
  std::vector<float> other = row;
  neighbours.rotate(other.data(), 3);
  EXPECT_EQ((std::vector<float>{other[0], other[2], other[1], other[3]}),
            (std::vector<float>{turned[0], turned[1], turned[4], turned[5]}));
  EXPECT_EQ(std::memcmp(&other[4], &row[4], 4 * sizeof(float)), 0);
}

TEST(Rope, ProportionalRotaryIsTheWholeHeadsWithAStillTail) {
  for (const Index rotary : {2, 34, 64, 100}) {
    const ls::Rope<ls::HalfSplit, float> part{
        ls::RopeTable<float>({.rotary_dim = rotary, .positions = 3000, .proportional_to = 128})},
        whole{ls::RopeTable<float>({.rotary_dim = 128, .positions = 3000})};
    std::vector<float> row(128);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(std::sin(static_cast<double>(3 * i + 1)));
    std::vector<float> some = row, all = row;
    part.rotate(some.data(), 2999);
    whole.rotate(all.data(), 2999);
    for (std::size_t i = 0; i < 128; ++i)
      EXPECT_EQ(some[i], static_cast<Index>(i % 64) < rotary / 2 ? all[i] : row[i]) << rotary << ", " << i;
  }
}

TEST(Rope, AgreesWithTheReferenceAtEveryPosition) {
  for (const Index rotary : {2, 8, 64, 128})
    for (const Index p : {0, 1, 2, 100, 4095, 32767}) {
      reference::Values row(128);
      std::vector<float> narrow(128);
      for (std::size_t i = 0; i < row.size(); ++i)
        row[i] = narrow[i] = static_cast<float>(std::sin(static_cast<double>(3 * i + 1)));
      const auto half = reference::rotate(row, reference::Pairing::half_split, 1, 128, rotary, 1e6, {p});
      const auto pairs = reference::rotate(row, reference::Pairing::interleaved, 1, 128, rotary, 1e6, {p});
      const auto got_half = turned<ls::HalfSplit>(narrow, rotary, p, 1e6),
                 got_pairs = turned<ls::Interleaved>(narrow, rotary, p, 1e6);
      // Two rounded factors, a rounded product and a rounded sum: at most 2 eps of the pair's norm.
      for (std::size_t i = 0; i < row.size(); ++i) {
        EXPECT_NEAR(got_half[i], half[i], 3e-7) << rotary << ", " << p << ", " << i;
        EXPECT_NEAR(got_pairs[i], pairs[i], 3e-7) << rotary << ", " << p << ", " << i;
      }
    }
}

TEST(Rope, BuildsATableOverTheHeadWhereNoneIsGiven) {
  ls::Rope<ls::HalfSplit, float> rope;
  EXPECT_EQ(rope.rotary_dim(), 0);
  rope.prepare(48);
  EXPECT_EQ(rope.rotary_dim(), 48);
  EXPECT_EQ(rope.positions(), 4096);
  const float* before = rope.table().cos(0);
  rope.prepare(64);
  EXPECT_EQ(rope.table().cos(0), before);
}

TEST(Rope, UsesTheCallersOwnNumbers) {
  const float cosines[2] = {0.5F, 0.25F}, sines[2] = {2, 4};  // no rotation at all: taken as they are
  const auto of = [](const float* numbers) { return ls::View<const float, 2>::contiguous(numbers, {2, 1}); };
  const ls::Rope<ls::HalfSplit, float> rope{ls::RopeTable<float>(of(cosines), of(sines))};
  float row[2] = {3, 5};
  rope.rotate(row, 1);
  EXPECT_EQ(row[0], 3 * 0.25F - 5 * 4);
  EXPECT_EQ(row[1], 3 * 4 + 5 * 0.25F);
}

}  // namespace
