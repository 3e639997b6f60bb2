#include "lockstep/position/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace ls = lockstep;
using ls::Index;

namespace {

using Triples = std::vector<Index>;

ls::View<const Index, 2> view(const Triples& triples) {
  return ls::View<const Index, 2>::contiguous(triples.data(), {static_cast<Index>(triples.size()) / 3, 3});
}
std::vector<float> row_of(Index size) {
  std::vector<float> row(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i) + 1));
  return row;
}
template <class Position>
std::vector<float> rotated(const Position& position, std::vector<float> row, Index at) {
  position.rotate(row.data(), at);
  return row;
}

template <class Style>
class MultimodalRope : public testing::Test {};
using Styles = testing::Types<ls::HalfSplit, ls::Interleaved>;
struct StyleName {
  template <class Style>
  static std::string GetName(int) {
    return Style::adjacent ? "Interleaved" : "HalfSplit";
  }
};
TYPED_TEST_SUITE(MultimodalRope, Styles, StyleName);

TYPED_TEST(MultimodalRope, OfEqualPositionsHasTheBitsOfRope) {
  for (const ls::InstructionSet set : ls::all_instruction_sets) {
    if (!ls::cpu_has(set)) continue;
    const ls::InstructionSet before = ls::instruction_set();
    ls::force_instruction_set(set);
    for (const ls::RopeConfig& config : {ls::RopeConfig{.rotary_dim = 128, .base = 1e6, .positions = 3000},
                                         {.rotary_dim = 128, .base = 1e6, .positions = 3000, .proportional_to = 160}}) {
      const ls::RopeTable<float> table(config);
      const ls::Rope<TypeParam, float> rope(table);
      for (const auto& sections :
           {std::array<Index, 3>{16, 24, 24}, {64, 0, 0}, {0, 0, 64}, {1, 62, 1}, {21, 22, 21}, {7, 50, 7}}) {
        const Triples triples{0, 0, 0, 1, 1, 1, 40, 40, 40, 2999, 2999, 2999};
        const ls::MultimodalRope<TypeParam, float> multimodal(table, sections, view(triples));
        EXPECT_EQ(multimodal.rotary_dim(), rope.rotary_dim());
        for (Index token = 0; token < 4; ++token) {
          const auto row = row_of(170);
          EXPECT_EQ(
              std::memcmp(rotated(multimodal, row, token).data(),
                          rotated(rope, row, triples[static_cast<std::size_t>(3 * token)]).data(), 170 * sizeof(float)),
              0)
              << ls::name_of(set) << ", " << sections[0] << ", token " << token;
        }
      }
    }
    ls::force_instruction_set(before);
  }
}

// Qwen2-VL splits cosines by mrope_section and takes axis s for the s-th part.
TYPED_TEST(MultimodalRope, TurnsEachSectionByItsAxis) {
  const ls::RopeTable<float> table({.rotary_dim = 24, .base = 1e6, .positions = 200});
  const Triples triples{5, 70, 199, 120, 3, 0};
  const std::array<Index, 3> sections{3, 4, 5};
  const ls::MultimodalRope<TypeParam, float> rope(table, sections, view(triples));
  for (Index token = 0; token < 2; ++token) {
    const auto row = row_of(30), turned = rotated(rope, row, token);
    for (Index i = 0; i < 12; ++i) {
      const std::size_t axis = i < 3 ? 0 : i < 7 ? 1 : 2;
      const double angle = static_cast<double>(triples[static_cast<std::size_t>(3 * token) + axis]) *
                           std::pow(1e6, -2.0 * static_cast<double>(i) / 24.0);
      const auto a = static_cast<std::size_t>(TypeParam::adjacent ? 2 * i : i),
                 b = static_cast<std::size_t>(TypeParam::adjacent ? 2 * i + 1 : i + 12);
      EXPECT_NEAR(turned[a], row[a] * std::cos(angle) - row[b] * std::sin(angle), 4e-7) << token << ", " << i;
      EXPECT_NEAR(turned[b], row[a] * std::sin(angle) + row[b] * std::cos(angle), 4e-7) << token << ", " << i;
    }
    EXPECT_EQ(std::memcmp(&turned[24], &row[24], 6 * sizeof(float)), 0);
  }
}

TYPED_TEST(MultimodalRope, ReadsTheListThroughItsStridesWhenItRotates) {
  const ls::RopeTable<float> table({.rotary_dim = 12, .positions = 50});
  Triples by_axis{1, 2, 3, 4, 5, 6};  // [3 axes][2 tokens]
  const ls::MultimodalRope<TypeParam, float> rope(table, {1, 2, 3}, {by_axis.data(), {2, 3}, {1, 2}});
  const Triples first{1, 3, 5, 2, 4, 6}, second{1, 3, 5, 40, 4, 6};
  const auto row = row_of(12);
  EXPECT_EQ(rotated(rope, row, 1),
            rotated(ls::MultimodalRope<TypeParam, float>(table, {1, 2, 3}, view(first)), row, 1));
  by_axis[1] = 40;
  EXPECT_EQ(rotated(rope, row, 1),
            rotated(ls::MultimodalRope<TypeParam, float>(table, {1, 2, 3}, view(second)), row, 1));
}

TYPED_TEST(MultimodalRope, KnowsWhichRowsTheTableCanServe) {
  const ls::RopeTable<float> table({.rotary_dim = 12, .positions = 50});
  const Triples triples{0, 49, 0, 0, 50, 0, 0, 0, -1};
  const ls::MultimodalRope<TypeParam, float> rope(table, {1, 2, 3}, view(triples));
  EXPECT_EQ(rope.positions(), 3);
  EXPECT_TRUE(rope.check_position(0).ok());
  EXPECT_STREQ(rope.check_position(1).message(), "lockstep: positions: given 50 on axis 1 of row 1, allowed 0 to 49");
  EXPECT_STREQ(rope.check_position(2).message(), "lockstep: positions: given -1 on axis 2 of row 2, allowed 0 to 49");
}

}  // namespace
