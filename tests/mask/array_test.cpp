#include "lockstep/mask/array.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lockstep/mask/causal.hpp"
#include "lockstep/mask/compose.hpp"

namespace ls = lockstep;
using ls::AdditiveMask;
using ls::BooleanMask;
using ls::Index;
using ls::KeyRange;
using ls::QueryRow;
using ls::View;
using ls::Visibility;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Flags [2, 2, 3, 4], true where the number of the element is no multiple of 5.
const auto flags = [] {
  std::array<bool, 48> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i % 5 != 0;
  return all;
}();
bool flag(Index b, Index h, Index row, Index key) { return (((b * 2 + h) * 3 + row) * 4 + key) % 5 != 0; }

TEST(BooleanMask, BroadcastsFromTheRight) {
  const BooleanMask whole(View<const bool, 4>::contiguous(flags.data(), {2, 2, 3, 4}));
  const BooleanMask heads(View<const bool, 3>::contiguous(flags.data(), {2, 3, 4}));
  const BooleanMask rows(View<const bool, 2>::contiguous(flags.data(), {3, 4}));
  const BooleanMask keys(View<const bool, 1>::contiguous(flags.data(), {4}));
  const BooleanMask sequences(View<const bool, 4>::contiguous(flags.data(), {2, 1, 1, 4}));
  for (Index b = 0; b < 2; ++b)
    for (Index h = 0; h < 2; ++h)
      for (Index row = 0; row < 3; ++row)
        for (Index key = 0; key < 4; ++key) {
          const QueryRow q{b, h, row, 70 + row};
          EXPECT_EQ(whole.visible(q, key), flag(b, h, row, key));
          EXPECT_EQ(heads.visible(q, key), flag(0, h, row, key));
          EXPECT_EQ(rows.visible(q, key), flag(0, 0, row, key));
          EXPECT_EQ(keys.visible(q, key), flag(0, 0, 0, key));
          EXPECT_EQ(sequences.visible(q, key), flag(0, 0, b, key));
        }
}

TEST(BooleanMask, HidesKeysBeyondTheLastAxis) {
  const std::array<bool, 3> all{true, true, true};
  const BooleanMask mask{View<const bool, 1>(all)};
  EXPECT_EQ(mask.range({}, 10), (KeyRange{0, 3}));
  EXPECT_FALSE(mask.visible({}, 3));
  const BooleanMask one(View<const bool, 2>::contiguous(all.data(), {3, 1}));
  EXPECT_EQ(one.range({}, 10), (KeyRange{0, 1})) << "an extent of 1 of the last axis stands for itself";
}

TEST(BooleanMask, NeedsTheLastVisibleKeyOfAnyHead) {
  bool two_heads[2][40] = {};
  two_heads[0][3] = two_heads[1][29] = true;
  EXPECT_EQ(BooleanMask(View<const bool, 4>::contiguous(&two_heads[0][0], {1, 2, 1, 40})).keys_needed({}), 30);
  EXPECT_EQ(BooleanMask(View<const bool, 4>::contiguous(&two_heads[0][0], {1, 1, 2, 40})).keys_needed({.row = 0}), 4);
  EXPECT_EQ(BooleanMask(View<const bool, 4>::contiguous(&two_heads[0][4], {1, 1, 1, 30})).keys_needed({}), 0);
}

TEST(BooleanMask, NarrowsABlockToWhatIsVisible) {
  std::array<bool, 256> row{};
  const BooleanMask mask{View<const bool, 1>(row)};
  EXPECT_TRUE(mask.narrowed({}, {0, 256}).empty());
  EXPECT_EQ(mask.block({}, {0, 256}), Visibility::none);
  for (Index key = 37; key < 201; ++key) row[static_cast<std::size_t>(key)] = true;
  EXPECT_EQ(mask.narrowed({}, {0, 256}), (KeyRange{37, 201}));
  EXPECT_EQ(mask.narrowed({}, {40, 50}), (KeyRange{40, 50}));
  EXPECT_EQ(mask.block({}, {37, 201}), Visibility::all);
  EXPECT_EQ(mask.block({}, {36, 201}), Visibility::some);
  row[150] = false;
  EXPECT_EQ(mask.block({}, {37, 201}), Visibility::some);
}

TEST(BooleanMask, MustBroadcastToTheCall) {
  const auto with = [](std::array<Index, 4> shape) {
    return BooleanMask(View<const bool, 4>::contiguous(flags.data(), shape));
  };
  EXPECT_TRUE(with({2, 2, 3, 4}).check(2, 3, 4, 2).ok());
  EXPECT_TRUE(with({1, 1, 1, 4}).check(7, 9, 4, 5).ok());
  EXPECT_TRUE(with({2, 1, 3, 4}).check(2, 3, 100, 8).ok()) << "fewer keys: the rest is hidden";
  EXPECT_TRUE(with({2, 1, 3, 4}).check(2, 3, 2, 8).ok()) << "more keys";
  EXPECT_STREQ(
      with({2, 2, 3, 4}).check(2, 3, 4, 4).message(),
      "lockstep: mask: given an array [2, 2, 3, 4], allowed extents of [2, 4, 3] or 1, and any number of keys: "
      "it must broadcast to [batch, heads, q_len, kv_len]");
  EXPECT_FALSE(with({2, 2, 3, 4}).check(1, 3, 4, 2).ok());
  EXPECT_FALSE(with({2, 2, 3, 4}).check(2, 4, 4, 2).ok());
  EXPECT_FALSE(BooleanMask{}.check(1, 1, 1, 1).ok());
  const BooleanMask null(View<const bool, 4>::contiguous(nullptr, {1, 1, 1, 4}));
  EXPECT_NE(std::string(null.check(1, 1, 4, 1).message()).find("null"), std::string::npos);
  EXPECT_FALSE(with({1, 1, 1, -4}).check(1, 1, 4, 1).ok());
}

TEST(BooleanMask, IsCheckedInsideACompositionWithItsHeads) {
  const auto mask = ls::Causal{} & BooleanMask(View<const bool, 4>::contiguous(flags.data(), {1, 2, 3, 4}));
  EXPECT_TRUE(ls::detail::check_mask(mask, 1, 3, 4, 2).ok());
  EXPECT_FALSE(ls::detail::check_mask(mask, 1, 3, 4, 3).ok());
  EXPECT_FALSE(ls::detail::check_mask(mask | ls::Causal{}, 1, 3, 4, 3).ok());
}

TEST(AdditiveMask, AddsOnceAndHidesAtMinusInfinity) {
  const std::array<float, 4> addends{0.1F, -infinity, -1e30F, infinity};
  const AdditiveMask<> mask{View<const float, 1>(addends)};
  const bool visible[] = {true, false, true, true};
  for (Index key = 0; key < 4; ++key) EXPECT_EQ(mask.visible({}, key), visible[key]);
  EXPECT_EQ(mask.add(0.2F, {}, 0), 0.2F + 0.1F);
  EXPECT_EQ(mask.add(0.2, {}, 0), 0.2 + static_cast<double>(0.1F));
  EXPECT_EQ(mask.add(1e30F, {}, 2), 0.0F);
  EXPECT_EQ(mask.block({}, {0, 2}), Visibility::some);
  EXPECT_EQ(mask.block({}, {2, 4}), Visibility::all);
  EXPECT_EQ(mask.keys_needed({}), 4);
}

TEST(AdditiveMask, WidensStoredNumbersExactly) {
  const std::array<Eigen::half, 2> addends{Eigen::half(0.333F),
                                           -Eigen::numext::bit_cast<Eigen::half>(std::uint16_t{0x7c00})};
  const AdditiveMask<Eigen::half> mask{View<const Eigen::half, 1>(addends)};
  EXPECT_EQ(mask.add(0.0F, {}, 0), static_cast<float>(Eigen::half(0.333F)));
  EXPECT_FALSE(mask.visible({}, 1));
}

TEST(AdditiveMask, TakesOneNumberForAllKeysThroughAStrideOfZero) {
  const float addend = 2.5F;
  const AdditiveMask<> mask(View<const float, 4>(&addend, {1, 1, 1, 40}, {0, 0, 0, 0}));
  std::vector<float> logits(40, 1);
  mask.add(logits.data(), QueryRow{}, {0, 40});
  EXPECT_EQ(logits, std::vector<float>(40, 3.5F));
}

TEST(AdditiveMask, AddsOnBothSidesOfAnIntersection) {
  const std::array<float, 3> one{1, 2, -infinity}, two{16, -infinity, 32};
  auto mask = AdditiveMask<>(View<const float, 1>(one)) & (AdditiveMask<>(View<const float, 1>(two)) & ls::Causal{});
  static_assert(ls::AddingMask<decltype(mask), float> && ls::AddingMask<decltype(mask), double>);
  EXPECT_EQ(mask.add(0.5F, QueryRow{.place = 2}, 0), 17.5F);
  EXPECT_TRUE(mask.visible({.place = 2}, 0));
  EXPECT_FALSE(mask.visible({.place = 2}, 1) || mask.visible({.place = 2}, 2));
}

TEST(AdditiveMask, OfAWiderTypeAddsNothingInANarrowerOne) {
  using Doubles = AdditiveMask<double>;
  static_assert(!ls::AddingMask<Doubles, float> && ls::AddingMask<Doubles, double>);
  static_assert(!ls::AddingMask<ls::And<Doubles, AdditiveMask<float>>, float>, "not half of the addends");
  static_assert(ls::AddingMask<ls::And<Doubles, AdditiveMask<float>>, double>);
  static_assert(!ls::AddingMask<BooleanMask, float> && !ls::AddingMask<ls::And<ls::Causal, BooleanMask>, float>);
}

}  // namespace
