// Shifting rotated rows: the bits of the rest, the stated error, and the ways back.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/plain.hpp"
#include "lockstep/position/rope.hpp"
#include "lockstep/position/scaling.hpp"

namespace ls = lockstep;
using ls::Index;

namespace {

template <class C>
std::vector<C> random_row(Index size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<C> row(static_cast<std::size_t>(size));
  for (C& x : row) x = static_cast<C>(normal(random));
  return row;
}

template <class C>
long double epsilon() {
  return static_cast<long double>(std::numeric_limits<C>::epsilon());
}

// f(first, second of each pair, its number)
template <class Style, class C, class F>
void each_pair(const ls::RopeTable<C>& table, F f) {
  for (Index i = 0; i < table.rotary_dim() / 2; ++i)
    f(static_cast<std::size_t>(Style::first(i, table.pair_dim())),
      static_cast<std::size_t>(Style::second(i, table.pair_dim())), static_cast<std::size_t>(i));
}

template <class Style, class C>
void expect_stated_error(const ls::RopeTable<C>& table) {
  const ls::Rope<Style, C> rope(table);
  for (const Index delta : {1, -1, 2, -3, 64, 1000, -4095, 131072, -1048576})
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::vector<C> row = random_row<C>(rope.rotary_dim() + 5, seed);
      std::vector<C> shifted = row;
      ASSERT_TRUE(rope.check_shift(delta).ok());
      rope.shift(shifted.data(), delta);
      each_pair<Style>(table, [&](std::size_t a, std::size_t b, std::size_t i) {
        const long double angle =
            static_cast<long double>(delta) * static_cast<long double>(table.inverse_frequencies()[i]);
        const long double x = static_cast<long double>(row[a]), y = static_cast<long double>(row[b]);
        const long double allowed =
            std::hypot(x, y) *
            (static_cast<long double>(ls::max_shift_error_eps) * epsilon<C>() + std::abs(angle) * 0x1p-53L);
        EXPECT_LE(std::abs(static_cast<long double>(shifted[a]) - (x * std::cos(angle) - y * std::sin(angle))), allowed)
            << delta << ", pair " << i;
        EXPECT_LE(std::abs(static_cast<long double>(shifted[b]) - (x * std::sin(angle) + y * std::cos(angle))), allowed)
            << delta << ", pair " << i;
      });
    }
}

TEST(Shift, KeepsItsStatedError) {
  const ls::RopeConfig config{.rotary_dim = 64, .base = 10000, .positions = 1};
  expect_stated_error<ls::HalfSplit>(ls::RopeTable<float>(config));
  expect_stated_error<ls::Interleaved>(ls::RopeTable<float>(config));
  expect_stated_error<ls::HalfSplit>(ls::RopeTable<double>(config));
  // More pairs than are done at once, and a number of them that is no multiple of a vector.
  expect_stated_error<ls::HalfSplit>(ls::RopeTable<float>({.rotary_dim = 278, .base = 1e6, .positions = 1}));
  expect_stated_error<ls::Interleaved>(ls::RopeTable<double>({.rotary_dim = 130, .base = 1e6, .positions = 1}));
  expect_stated_error<ls::HalfSplit>(
      ls::RopeTable<float>({.rotary_dim = 32, .base = 1e6, .positions = 1, .proportional_to = 128}));
}

// ggml-org/llama.cpp#4889, #5653, #9743: the whole head was rotated although only part of it is rotary.
TEST(Shift, MovesAKeyOfAPartlyRotaryHead) {
  const ls::RopeTable<float> table({.rotary_dim = 4, .base = 10000, .positions = 6});
  const auto expect = [](auto rope) {
    std::vector<float> key = random_row<float>(8, 3);
    key[5] = -0.0F;
    key[6] = std::numeric_limits<float>::quiet_NaN();
    key[7] = std::numeric_limits<float>::denorm_min();
    std::vector<float> at_five = key, at_three = key;
    rope.rotate(at_five.data(), 5);
    rope.rotate(at_three.data(), 3);
    const std::vector<float> stored = at_five;
    rope.shift(at_five.data(), -2);
    for (std::size_t d = 0; d < 4; ++d) {
      EXPECT_NEAR(at_five[d], at_three[d], 6e-7);
      EXPECT_GT(std::abs(at_five[d] - stored[d]), 1e-3);
    }
    EXPECT_EQ(std::memcmp(&at_five[4], &key[4], 4 * sizeof(float)), 0);
    rope.shift(at_five.data(), 2);
    for (std::size_t d = 0; d < 4; ++d) EXPECT_NEAR(at_five[d], stored[d], 6e-7);
    EXPECT_EQ(std::memcmp(&at_five[4], &key[4], 4 * sizeof(float)), 0);
  };
  expect(ls::Rope<ls::HalfSplit, float>(table));
  expect(ls::Rope<ls::Interleaved, float>(table));
}

TEST(Shift, DoesNotRepeatTheMagnitude) {
  const ls::RopeTable<double> table({.rotary_dim = 64, .base = 10000, .positions = 4000},
                                    ls::YarnScaling{.factor = 128, .original_length = 4096});
  const ls::Rope<ls::HalfSplit, double> rope(table);
  const std::vector<double> key = random_row<double>(64, 9);
  std::vector<double> moved = key, direct = key;
  rope.rotate(moved.data(), 3999);
  rope.shift(moved.data(), -3000);
  rope.rotate(direct.data(), 999);
  for (std::size_t d = 0; d < 64; ++d) EXPECT_NEAR(moved[d], direct[d], 5e-12) << d;
}

TEST(Shift, ByNothingKeepsEveryBit) {
  const ls::Rope<ls::HalfSplit, float> rope{ls::RopeTable<float>({.rotary_dim = 4, .positions = 1})};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> key{-0.0F, 1, nan, -0.0F};
  std::vector<float> shifted = key;
  rope.shift(shifted.data(), 0);
  EXPECT_EQ(std::memcmp(shifted.data(), key.data(), 4 * sizeof(float)), 0);
}

TEST(Shift, OfManyRowsIsThatOfEach) {
  const ls::Rope<ls::Interleaved, float> rope{ls::RopeTable<float>({.rotary_dim = 20, .positions = 1})};
  const Index rows = 7, stride = 33;
  std::vector<float> all = random_row<float>(rows * stride, 4), each = all;
  rope.shift(ls::View<float, 2>(all.data(), {rows, 24}, {stride, 1}), -11);
  for (Index row = 0; row < rows; ++row) rope.shift(each.data() + row * stride, -11);
  EXPECT_EQ(std::memcmp(all.data(), each.data(), all.size() * sizeof(float)), 0);
}

TEST(Shift, HasTheSameBitsOnEveryInstructionSet) {
  const ls::Rope<ls::HalfSplit, float> rope{ls::RopeTable<float>({.rotary_dim = 150, .positions = 1})};
  const ls::InstructionSet before = ls::instruction_set();
  const std::vector<float> key = random_row<float>(150, 5);
  std::vector<float> expected = key;
  ls::force_instruction_set(ls::InstructionSet::portable);
  rope.shift(expected.data(), 12345);
  for (const ls::InstructionSet set : ls::all_instruction_sets)
    if (ls::cpu_has(set)) {
      ls::force_instruction_set(set);
      std::vector<float> shifted = key;
      rope.shift(shifted.data(), 12345);
      EXPECT_EQ(std::memcmp(shifted.data(), expected.data(), 150 * sizeof(float)), 0) << ls::name_of(set);
    }
  ls::force_instruction_set(before);
}

TEST(Shift, OfMultimodalKeysMovesAllAxes) {
  const ls::RopeTable<double> table({.rotary_dim = 16, .base = 10000, .positions = 100});
  const Index list[2][3] = {{10, 12, 15}, {30, 32, 35}};
  const ls::MultimodalRope<ls::HalfSplit, double> rope(table, {2, 3, 3},
                                                       ls::View<const Index, 2>::contiguous(&list[0][0], {2, 3}));
  const std::vector<double> key = random_row<double>(16, 6);
  std::vector<double> moved = key, direct = key;
  rope.rotate(moved.data(), 0);
  ASSERT_TRUE(rope.check_shift(20).ok());
  rope.shift(moved.data(), 20);
  rope.rotate(direct.data(), 1);
  for (std::size_t d = 0; d < 16; ++d) EXPECT_NEAR(moved[d], direct[d], 1e-14) << d;
}

TEST(Shift, IsRefusedWhereAnglesAreUnknownOrTooLarge) {
  const float numbers[2] = {1, 0};
  const auto view = ls::View<const float, 2>::contiguous(numbers, {2, 1});
  const ls::Rope<ls::HalfSplit, float> own{ls::RopeTable<float>(view, view)}, none,
      made{ls::RopeTable<float>({.rotary_dim = 8, .positions = 1})};
  EXPECT_STREQ(own.check_shift(1).message(),
               "lockstep: shift: given a table without inverse frequencies, allowed one that was made of them");
  EXPECT_FALSE(none.check_shift(1).ok());
  EXPECT_TRUE(made.check_shift(Index{1} << 31).ok());
  EXPECT_TRUE(made.check_shift(-(Index{1} << 31)).ok());
  EXPECT_STREQ(made.check_shift(-(Index{1} << 31) - 1).message(),
               "lockstep: shift: given -2147483649 positions, allowed angles from -2^31 to 2^31");
  EXPECT_FALSE(made.check_shift(std::numeric_limits<Index>::min()).ok());
}

TEST(Shift, OfRowsRefusesOthersAndTouchesNone) {
  const ls::Rope<ls::HalfSplit, float> made{ls::RopeTable<float>({.rotary_dim = 8, .positions = 1})}, none;
  const std::vector<float> before = random_row<float>(40, 3);
  std::vector<float> keys = before;
  const auto message = [&](const auto& rope, ls::View<float, 2> rows, Index delta) -> std::string {
    try {
      rope.shift(rows, delta);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  const auto rows = [&](Index count, Index width, Index step) {
    return ls::View<float, 2>(keys.data(), {count, width}, {width * step, step});
  };
  EXPECT_EQ(message(made, rows(2, 7, 1), 1), "lockstep: rows: given [2, 7], allowed [2, 8]");
  EXPECT_EQ(message(made, rows(2, 10, 2), 1), "lockstep: rows: given numbers 2 apart, allowed 1");
  EXPECT_EQ(message(made, rows(-1, 8, 1), 1), "lockstep: rows: given [-1, 8], allowed extents from 0");
  EXPECT_EQ(message(made, ls::View<float, 2>(keys.data(), {3, 8}, {4, 1}), 1),
            "lockstep: rows: given strides [4, 1] for [3, 8], allowed strides that part all numbers to be written");
  EXPECT_EQ(message(made, ls::View<float, 2>(nullptr, {1, 8}, {8, 1}), 1),
            "lockstep: rows: given a null view, allowed [1, 8]");
  EXPECT_EQ(message(made, rows(2, 8, 1), (Index{1} << 31) + 1),
            "lockstep: shift: given 2147483649 positions, allowed angles from -2^31 to 2^31");
  EXPECT_EQ(message(none, rows(2, 8, 1), 1),
            "lockstep: shift: given a table without inverse frequencies, allowed one that was made of them");
  EXPECT_EQ(keys, before);
  EXPECT_EQ(message(made, rows(0, 8, 1), 1), "");
  EXPECT_EQ(message(made, rows(4, 10, 1), 1), "");
  EXPECT_NE(keys, before);
}

TEST(Shift, OfNoPositionIsNone) {
  std::vector<float> key = random_row<float>(6, 2);
  const std::vector<float> before = key;
  const ls::NoPosition none;
  EXPECT_TRUE(none.check_shift(5).ok());
  none.shift(key.data(), 5);
  none.shift(ls::View<float, 2>::contiguous(key.data(), {2, 3}), 5);
  EXPECT_EQ(key, before);
}

}  // namespace
