// Faults that other code had in rotary positions, held against the keys that a layer stores.
#include <cmath>

#include "fixture.hpp"

namespace {

using namespace fixture;

/// The key that a layer of one head stores for the projected key `components` at a position.
template <class Style, class C>
std::vector<C> stored_key(const std::vector<C>& components, Index position, const ls::RopeTable<C>& table) {
  using Layer = ls::Attention<C, 1, 1, ls::Rope<Style>>;
  const Index head_dim = static_cast<Index>(components.size());
  const std::vector<C> x{1};
  std::vector<C> y(1);
  const Layer layer({.hidden = 1, .head_dim = head_dim},
                    {.query = rows_of(components, 0, head_dim, 1),
                     .key = rows_of(components, 0, head_dim, 1),
                     .value = rows_of(components, 0, head_dim, 1),
                     .output = rows_of(components, 0, 1, head_dim)},
                    table);
  auto cache = layer.make_cache(1);
  layer.forward(rows_of(x, 0, 1, 1), cache, rows_of(y, 0, 1, 1),
                {.positions = ls::View<const Index, 2>(&position, {1, 1}, {1, 1})});
  Outcome<Layer> stored;
  export_cache(cache, stored);
  return stored.keys;
}
template <class Style, class C>
std::vector<C> stored_key(const std::vector<C>& components, Index position, const ls::RopeConfig& config) {
  return stored_key<Style>(components, position, ls::RopeTable<C>(config));
}
template <class C>
std::vector<C> unit(Index head_dim, Index i) {
  std::vector<C> e(at(head_dim));
  e[at(i)] = 1;
  return e;
}

// pie-project/pie#602, huggingface/transformers#48652: frequencies and pair distance were taken from the head size
// instead of rotary_dim.
TEST(PartialRotary, TakesFrequenciesAndPairsFromItsOwnSize) {
  const ls::RopeConfig config{.rotary_dim = 4, .base = 10000, .positions = 100};
  const auto second = stored_key<ls::HalfSplit>(unit<float>(8, 1), 1, config);
  EXPECT_NEAR(static_cast<double>(second[1]), 0.999950, 1e-6);
  EXPECT_NEAR(static_cast<double>(second[3]), 0.009999833, 1e-8);
  const auto first = stored_key<ls::HalfSplit>(unit<float>(8, 0), 1, config);
  EXPECT_NEAR(static_cast<double>(first[0]), 0.540302, 1e-6);
  EXPECT_NEAR(static_cast<double>(first[2]), 0.841471, 1e-6);
}

TEST(PartialRotary, KeepsTheBitsOfTheRest) {
  for (const Index head_dim : {8, 12, 80, 128})
    for (const Index rotary_dim : {2, 4, 6, 8}) {
      const ls::RopeConfig config{.rotary_dim = rotary_dim, .base = 10000, .positions = 100};
      auto components = numbers<float>(head_dim, 191);
      components.back() = -0.0F;
      for (const Index position : {0, 1, 50, 99})
        for (const auto& stored : {stored_key<ls::HalfSplit>(components, position, config),
                                   stored_key<ls::Interleaved>(components, position, config)}) {
          // The projection of -0 by x = 1 is +0: fma(1, -0, +0).
          auto rest = part(components, rotary_dim, head_dim - rotary_dim);
          if (!rest.empty()) rest.back() = 0;
          EXPECT_TRUE(same_bits(rest, part(stored, rotary_dim, head_dim - rotary_dim), head_dim))
              << head_dim << " " << rotary_dim << " at " << position;
          const double tolerance = 0x1p-22;
          const auto pairs = [&](reference::Pairing pairing) {
            return reference::rotate(reference::widen(components), pairing, 1, head_dim, rotary_dim, 10000, {position});
          };
          EXPECT_LE(std::min(largest_difference(pairs(reference::Pairing::half_split), stored),
                             largest_difference(pairs(reference::Pairing::interleaved), stored)),
                    tolerance);
        }
    }
}

// vllm-project/vllm#747, NeuraLegion/shainet#111: neighbours and halves confused.
TEST(RotaryPairs, AreNeighboursOrHalvesAsTheStyleSays) {
  const ls::RopeConfig config{.rotary_dim = 4, .base = 10000, .positions = 2};
  const auto neighbours = stored_key<ls::Interleaved>(unit<float>(4, 0), 1, config),
             halves = stored_key<ls::HalfSplit>(unit<float>(4, 0), 1, config);
  const auto c = static_cast<float>(std::cos(1.0)), s = static_cast<float>(std::sin(1.0));
  EXPECT_EQ(neighbours, (std::vector<float>{c, s, 0, 0}));
  EXPECT_EQ(halves, (std::vector<float>{c, 0, s, 0}));
}

TEST(RotaryPairs, OfBothStylesArePermutationsOfEachOther) {
  for (const Index dim : {2, 4, 6, 64, 128}) {
    const ls::RopeConfig config{.rotary_dim = dim, .base = 500000, .positions = 100};
    const auto halves = numbers<float>(dim, 192);
    auto neighbours = halves;
    for (Index i = 0; i < dim / 2; ++i) {
      neighbours[at(2 * i)] = halves[at(i)];
      neighbours[at(2 * i + 1)] = halves[at(i + dim / 2)];
    }
    const auto by_halves = stored_key<ls::HalfSplit>(halves, 77, config),
               by_neighbours = stored_key<ls::Interleaved>(neighbours, 77, config);
    for (Index i = 0; i < dim / 2; ++i) {
      EXPECT_EQ(by_halves[at(i)], by_neighbours[at(2 * i)]);
      EXPECT_EQ(by_halves[at(i + dim / 2)], by_neighbours[at(2 * i + 1)]);
    }
  }
}

// kekzl/imp#1316, lablup/mlxcel#1049: a float frequency times a large position; tests stopped at position 40.
TEST(RotaryAngles, AreRightAtLargePositions) {
  const auto expect_right = [](const ls::RopeTable<float>& table, Index rotary_dim, Index pair, Index position) {
    const long double angle =
        static_cast<long double>(position) *
        std::pow(1e6L, -2.0L * static_cast<long double>(pair) / static_cast<long double>(rotary_dim));
    const auto stored = stored_key<ls::HalfSplit>(unit<float>(rotary_dim, pair), position, table);
    // Half a unit of float at 1, and the double angle's own error: 3 roundings of an angle below 2^20.
    EXPECT_NEAR(static_cast<double>(stored[at(pair)]), static_cast<double>(std::cos(angle)), 0x1p-25 + 3 * 0x1p-33)
        << "pair " << pair << " of " << rotary_dim << " at " << position;
    EXPECT_NEAR(static_cast<double>(stored[at(pair + rotary_dim / 2)]), static_cast<double>(std::sin(angle)),
                0x1p-25 + 3 * 0x1p-33)
        << "pair " << pair << " of " << rotary_dim << " at " << position;
  };
  const ls::RopeTable<float> wide({.rotary_dim = 128, .base = 1e6, .positions = 131072}),
      narrow({.rotary_dim = 4, .base = 1e6, .positions = 1048576});
  EXPECT_NEAR(static_cast<double>(wide.cos(131071)[3]), -0.493971, 1e-6);
  for (const Index position : {40, 2000, 16000, 131071}) {
    for (const Index pair : {0, 1, 3, 17, 63}) expect_right(wide, 128, pair, position);
    for (const Index pair : {0, 1}) expect_right(narrow, 4, pair, position);
  }
  for (const Index pair : {0, 1}) expect_right(narrow, 4, pair, 1048575);
}

// sgl-project/sglang#33558, turboderp-org/exllamav3#259, ml-explore/mlx-lm#1507, ggml-org/llama.cpp#17945: YaRN's
// magnitude applied twice, or lost, or an explicit one taken for a further factor.
TEST(YarnMagnitude, IsInQueriesAndKeysOnce) {
  const auto logit = [](const ls::YarnScaling& scaling) {
    using Layer = ls::Attention<double, 1, 1, ls::Rope<ls::HalfSplit>>;
    const std::vector<double> x{1}, unit{1, 0};
    std::vector<double> y(1), lse(1);
    const Layer layer({.hidden = 1, .head_dim = 2},
                      {.query = rows_of(unit, 0, 2, 1),
                       .key = rows_of(unit, 0, 2, 1),
                       .value = rows_of(unit, 0, 2, 1),
                       .output = rows_of(unit, 0, 1, 2)},
                      ls::RopeTable<double>({.rotary_dim = 2, .base = 10000, .positions = 100}, scaling),
                      ls::Scaled{.given = 1});
    const Index position = 57;
    // Of one key, the log-sum-exp is its logit.
    layer.forward(rows_of(x, 0, 1, 1), rows_of(y, 0, 1, 1),
                  {.lse = ls::View<double, 3>::contiguous(lse.data(), {1, 1, 1}),
                   .positions = ls::View<const Index, 2>(&position, {1, 1}, {1, 1})});
    return lse[0];
  };
  ls::YarnScaling scaling{.factor = 128, .original_length = 4096};
  EXPECT_NEAR(logit(scaling), 2.205828, 1e-6);
  scaling.magnitude = 1.1;
  EXPECT_NEAR(logit(scaling), 1.21, 1e-14);
  scaling.magnitude = 1;
  EXPECT_NEAR(logit(scaling), 1, 1e-14);
}

// Gemma 4 against GPT-NeoX: the same rotary_dim, other pairs and exponents.
TEST(PartialRotary, IsProportionalOnlyWhereAsked) {
  const auto stored = stored_key<ls::HalfSplit>(
      unit<float>(8, 1), 1, ls::RopeConfig{.rotary_dim = 4, .base = 10000, .positions = 2, .proportional_to = 8});
  EXPECT_NEAR(static_cast<double>(stored[1]), std::cos(0.1), 1e-7);
  EXPECT_NEAR(static_cast<double>(stored[5]), std::sin(0.1), 1e-8);
  EXPECT_EQ(stored[3], 0);
}

// ggml-org/llama.cpp#4889, #9743: a stored key that is moved to another position.
TEST(StoredKeys, CanBeShifted) {
  const ls::RopeTable<float> table({.rotary_dim = 4, .base = 10000, .positions = 6});
  const auto components = numbers<float>(8, 193);
  auto key = stored_key<ls::HalfSplit>(components, 5, table);
  const auto at_three = stored_key<ls::HalfSplit>(components, 3, table);
  const auto rest = part(key, 4, 4);
  ls::Rope<ls::HalfSplit, float>(table).shift(key.data(), -2);
  EXPECT_LE(largest_difference(key, at_three), 0x1p-21);
  EXPECT_TRUE(same_bits(rest, part(key, 4, 4), 4));
}

}  // namespace
