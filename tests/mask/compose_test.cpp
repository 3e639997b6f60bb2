#include "lockstep/mask/compose.hpp"

#include <gtest/gtest.h>

#include <type_traits>

#include "lockstep/mask/causal.hpp"
#include "lockstep/mask/array.hpp"

namespace ls = lockstep;
using ls::Index;
using ls::KeyRange;
using ls::QueryRow;
using ls::Visibility;

namespace {

constexpr bool flags[2][6] = {{false, false, true, true, true, true}, {true, true, true, true, true, true}};
const ls::KeyPadding padding(ls::View<const bool, 2>::contiguous(&flags[0][0], {2, 6}));

TEST(And, OperatorAndTypeAreTheSameMask) {
  static_assert(std::is_same_v<decltype(ls::Causal{} & padding), ls::And<ls::Causal, ls::KeyPadding>>);
  static_assert(std::is_same_v<decltype(ls::Causal{} | padding), ls::Or<ls::Causal, ls::KeyPadding>>);
  static_assert(ls::Mask<ls::And<ls::Causal, ls::Or<ls::NoMask, ls::KeyPadding>>>);
}

TEST(And, TakesNoSpaceForEmptyMasks) {
  static_assert(std::is_empty_v<ls::And<ls::Causal, ls::NoMask>>);
  static_assert(sizeof(ls::And<ls::Causal, ls::KeyPadding>) == sizeof(ls::KeyPadding));
}

TEST(And, SaysNoneOrAllOfABlockWhereOneMaskDecides) {
  const auto mask = ls::NoMask{} & padding;
  EXPECT_EQ(mask.block({.sequence = 0}, {0, 2}), Visibility::none);
  EXPECT_EQ(mask.block({.sequence = 0}, {2, 6}), Visibility::all);
  EXPECT_EQ(mask.block({.sequence = 0}, {1, 3}), Visibility::some);
}

TEST(And, OfDisjointRangesIsEmpty) {
  const auto mask = ls::Causal{} & ls::OffsetCausal(Index{-8});
  EXPECT_TRUE(mask.range({.row = 3, .place = 3}, 6).empty());
  EXPECT_EQ(mask.range({.row = 9, .place = 9}, 6), (KeyRange{0, 2}));
}

TEST(And, NeedsTheFewerKeysAndOrTheMore) {
  const QueryRow q{.row = 4, .place = 4};
  EXPECT_EQ((ls::Causal{} & padding).keys_needed(q), 5);
  EXPECT_EQ((ls::Causal{} | padding).keys_needed(q), ls::all_keys);
  EXPECT_EQ((ls::Causal{} | ls::OffsetCausal(Index{2})).keys_needed(q), 7);
}

TEST(Or, SpansBothRanges) {
  const auto mask = ls::Causal{} | padding;
  EXPECT_EQ(mask.range({.sequence = 0, .row = 0, .place = 0}, 6), (KeyRange{0, 6}));
  EXPECT_TRUE(mask.visible({.sequence = 0, .row = 0, .place = 0}, 0));
  EXPECT_FALSE(mask.visible({.sequence = 0, .row = 0, .place = 0}, 1));
  EXPECT_TRUE(mask.visible({.sequence = 0, .row = 0, .place = 0}, 2));
}

TEST(Or, WithAMaskThatSeesNothingIsTheOther) {
  const auto mask = ls::OffsetCausal(Index{-100}) | ls::Causal{};
  for (Index place = 0; place < 6; ++place)
    EXPECT_EQ(mask.range({.row = place, .place = place}, 6), (KeyRange{0, place + 1}));
}

TEST(And, PassesOnTheRefusalOfEitherSide) {
  EXPECT_TRUE((ls::Causal{} & padding).check(2, 1, 6, 1).ok());
  EXPECT_FALSE((ls::Causal{} & padding).check(2, 1, 7, 1).ok());
  EXPECT_FALSE((padding & ls::Causal{}).check(3, 1, 6, 1).ok());
  EXPECT_FALSE((ls::Causal{} | padding).check(3, 1, 6, 1).ok());
  static_assert(!ls::detail::holds_arrays<ls::And<ls::Causal, ls::NoMask>>);
}

}  // namespace
