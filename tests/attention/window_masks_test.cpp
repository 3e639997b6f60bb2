// Layers under windows, prefixes and arrays: the reference, and decoding with the bits of the full forward.
#include "fixture.hpp"

namespace {

using namespace fixture;

constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
constexpr Index hidden = shape.hidden;

template <class Mask>
using LayerOf = ls::Attention<float, ls::Dynamic, ls::Dynamic, Mask>;

template <class Mask, class Visible>
Outcome<LayerOf<Mask>> expect_reference(const Mask& mask, const std::vector<float>& x, Visible visible) {
  const Index tokens = static_cast<Index>(x.size()) / hidden;
  const auto layer = make_layer<LayerOf<Mask>>(shape, mask);
  const auto result = full(layer, x);
  const auto expected = reference::forward(Weights<float>(shape).reference(), reference::widen(x),
                                           [&](Index, Index row, Index key) { return visible(row, key); });
  const double tolerance = 8 * 0x1p-24 * static_cast<double>(hidden + shape.head_dim + tokens);
  EXPECT_LE(largest_difference(expected.y, result.y), tolerance);
  EXPECT_LE(largest_difference(expected.attention.lse, result.lse), tolerance);
  return result;
}

TEST(WindowLayers, DecodeWithTheBitsOfTheFullForward) {
  const Index tokens = 700;
  const auto x = numbers<float>(tokens * hidden, 301);
  for (const auto& [window, sinks] :
       {std::pair<Index, Index>{1, 0}, {4, 0}, {16, 4}, {255, 0}, {256, 1}, {257, 300}, {700, 0}}) {
    SCOPED_TRACE("window " + std::to_string(window) + ", sinks " + std::to_string(sinks));
    const ls::SlidingWindow mask{window, sinks};
    const auto whole = expect_reference(
        mask, x, [&](Index row, Index key) { return key <= row && (key > row - mask.window || key < mask.sinks); });
    const auto layer = make_layer<LayerOf<ls::SlidingWindow>>(shape, mask);
    for (const auto& plan :
         {std::vector<Index>{512, 188}, {699, 1}, steps(tokens, 1), {63, 1, 64, 1, 571}, random_plan(tokens, 4)}) {
      SCOPED_TRACE(plan_name(plan));
      expect_same_outputs(layer, whole, run(layer, x, plan));
    }
  }
}

// EricLBuehler/mistral.rs#246, Lightning-AI/litgpt#2182: a window for the prompt but not for the steps; chunks longer
// than the window that lost keys of their own first rows.
TEST(WindowLayers, SeeTheMeanOfTheirWindowInEveryChunk) {
  const std::vector<float> zero{0}, one{1};
  const ls::Attention<float, 1, 1, ls::SlidingWindow> layer({.hidden = 1, .head_dim = 1},
                                                            {.query = rows_of(zero, 0, 1, 1),
                                                             .key = rows_of(zero, 0, 1, 1),
                                                             .value = rows_of(one, 0, 1, 1),
                                                             .output = rows_of(one, 0, 1, 1)},
                                                            ls::SlidingWindow{4});
  std::vector<float> x;
  for (int t = 0; t < 10; ++t) x.push_back(static_cast<float>(t));
  const std::vector<float> expected{0, 0.5F, 1, 1.5F, 2.5F, 3.5F, 4.5F, 5.5F, 6.5F, 7.5F};
  for (const auto& plan : {std::vector<Index>{6, 1, 1, 1, 1}, {6, 3, 1}, {10}, steps(10, 1)})
    EXPECT_EQ(run(layer, x, plan).y, expected) << plan_name(plan);
}

TEST(PrefixLayers, TakeThePrefixInOnePieceAndTheRestAnyhow) {
  const Index tokens = 400;
  const auto x = numbers<float>(tokens * hidden, 302);
  for (const Index prefix : {0, 1, 17, 256, 300}) {
    const auto whole =
        expect_reference(ls::PrefixLm(prefix), x, [=](Index row, Index key) { return key < prefix || key <= row; });
    const auto layer = make_layer<LayerOf<ls::PrefixLm>>(shape, ls::PrefixLm(prefix));
    for (const auto& plan : {std::vector<Index>{prefix, 1, 399 - prefix}, {prefix + 50, 50, 300 - prefix}})
      expect_same_outputs(layer, whole, run(layer, x, plan));
    if (prefix < 2) continue;
    auto cache = layer.make_cache(tokens);
    std::vector<float> y(at(prefix * hidden), 7);
    EXPECT_THROW(layer.forward(rows_of(x, 0, prefix - 1, hidden), cache, rows_of(y, 0, prefix - 1, hidden)),
                 std::invalid_argument);
    EXPECT_EQ(cache.length(), 0);
    EXPECT_EQ(y, std::vector<float>(y.size(), 7));
  }
}

/// Each chunk brings its own rows of the array [tokens, tokens].
template <class Array, class N, class Visible>
void expect_rows_of_chunks(const N* array, Index tokens, Visible visible) {
  using Mask = ls::And<ls::Causal, Array>;
  const auto x = numbers<float>(tokens * hidden, 303);
  const auto rows = [&](Index first, Index n) {
    return ls::Causal{} & Array(ls::View<const N, 2>::contiguous(array, {tokens, tokens}).part(0, first, n));
  };
  const auto whole = expect_reference(rows(0, tokens), x, visible);
  const auto layer = make_layer<LayerOf<Mask>>(shape);
  for (const auto& plan : {steps(tokens, 1), std::vector<Index>{200, 1, 99}, random_plan(tokens, 5)}) {
    auto cache = layer.make_cache(tokens);
    std::vector<float> y(x.size());
    Index first = 0;
    for (const Index n : plan) {
      const Mask mask = rows(first, n);
      layer.forward(rows_of(x, first, n, hidden), cache, rows_of(y, first, n, hidden), {.mask = &mask});
      first += n;
    }
    EXPECT_TRUE(same_bits(whole.y, y, hidden)) << plan_name(plan);
  }
}

TEST(ArrayLayers, ChunksBringTheirOwnRows) {
  const Index tokens = 300;
  const auto flags = std::make_unique<bool[]>(at(tokens * tokens));
  const auto shown = [](Index row, Index key) { return key <= row && (row - key < 40 || (row + key) % 5 != 0); };
  for (Index row = 0; row < tokens; ++row)
    for (Index key = 0; key < tokens; ++key) flags[at(row * tokens + key)] = (row + key) % 5 != 0 || row - key < 40;
  expect_rows_of_chunks<ls::BooleanMask>(flags.get(), tokens, shown);
  std::vector<float> addends(at(tokens * tokens));
  for (std::size_t i = 0; i < addends.size(); ++i) addends[i] = flags[i] ? 0.0F : -infinity<float>();
  expect_rows_of_chunks<ls::AdditiveMask<>>(addends.data(), tokens, shown);
}

// A full forward runs in chunks of rows of its own; an array that lets rows see later keys must not be cut by them.
TEST(ArrayLayers, SeeLaterKeysInAFullForward) {
  const Index tokens = 300;
  const auto x = numbers<float>(tokens * hidden, 304);
  const auto flags = std::make_unique<bool[]>(at(4 * tokens * tokens));
  for (Index i = 0; i < 4 * tokens * tokens; ++i) flags[at(i)] = i % 7 != 3;
  const ls::BooleanMask mask(ls::View<const bool, 3>::contiguous(flags.get(), {4, tokens, tokens}));
  const auto layer = make_layer<LayerOf<ls::BooleanMask>>(shape, mask);
  const auto expected = reference::forward(
      Weights<float>(shape).reference(), reference::widen(x),
      [&](Index head, Index row, Index key) { return flags[at((head * tokens + row) * tokens + key)]; });
  EXPECT_LE(largest_difference(expected.y, full(layer, x).y), 8 * 0x1p-24 * 320);
}

}  // namespace
