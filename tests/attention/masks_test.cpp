// Which keys a row sees: causal, from given offsets, all, with padding; and what rows give that see nothing.
#include <array>
#include <cmath>

#include "fixture.hpp"

namespace {

using namespace fixture;

constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
constexpr Index hidden = shape.hidden;
constexpr double infinite = std::numeric_limits<double>::infinity();

template <class Case>
class Masks : public ::testing::Test {
 protected:
  template <class Mask>
  using LayerOf = ls::Attention<float, ls::Dynamic, ls::Dynamic, typename Case::Kernel, Mask>;

  /// A full forward against the reference under a visibility by row and key.
  template <class Mask, class Visible>
  static void expect_reference(const Mask& mask, const std::vector<float>& x, Visible visible) {
    const Index tokens = static_cast<Index>(x.size()) / hidden;
    const auto result = full(make_layer<LayerOf<Mask>>(shape, mask), x);
    const auto expected = reference::forward(Weights<float>(shape).reference(), reference::widen(x),
                                             [&](Index, Index row, Index key) { return visible(row, key); });
    const double tolerance = 8 * 0x1p-24 * static_cast<double>(hidden + shape.head_dim + tokens);
    EXPECT_LE(largest_difference(expected.y, result.y), tolerance);
    EXPECT_LE(largest_difference(expected.attention.lse, result.lse), tolerance);
  }
};
TYPED_TEST_SUITE(Masks, FloatCases, CaseName);

TYPED_TEST(Masks, OffsetOfTheCacheLengthHasTheBitsOfCausal) {
  const auto x = numbers<float>(300 * hidden, 111);
  const auto causal = make_layer<typename TestFixture::template LayerOf<ls::Causal>>(shape);
  const auto offset = make_layer<typename TestFixture::template LayerOf<ls::OffsetCausal>>(shape);
  const auto expected = run(causal, x, {300});
  auto cache = offset.make_cache(300);
  std::vector<float> y(x.size());
  Index first = 0;
  for (const Index rows : {1, 20, 270, 9}) {
    const ls::OffsetCausal mask(first);
    offset.forward(rows_of(x, first, rows, hidden), cache, rows_of(y, first, rows, hidden), {.mask = &mask});
    first += rows;
  }
  EXPECT_TRUE(same_bits(expected.y, y, hidden));
}

TYPED_TEST(Masks, OffsetsShiftWhatRowsSee) {
  for (const Index tokens : {20, 300})
    for (const Index offset : {-300, -256, -7, -1, 0, 5, 1000}) {
      SCOPED_TRACE("tokens " + std::to_string(tokens) + ", offset " + std::to_string(offset));
      this->expect_reference(ls::OffsetCausal(offset), numbers<float>(tokens * hidden, 112),
                             [=](Index row, Index key) { return key <= row + offset; });
    }
}

TYPED_TEST(Masks, OffsetsMayDifferBySequence) {
  const Index q_len = 110, each = q_len * hidden;
  const auto x = numbers<float>(3 * each, 113);
  const std::array<Index, 3> offsets{0, -2, 4};
  const auto layer = make_layer<typename TestFixture::template LayerOf<ls::OffsetCausal>>(
      shape, ls::OffsetCausal(std::span<const Index>(offsets)));
  std::vector<float> y(x.size());
  layer.forward(ls::View<const float, 3>::contiguous(x.data(), {3, q_len, hidden}),
                ls::View<float, 3>::contiguous(y.data(), {3, q_len, hidden}));
  for (Index b = 0; b < 3; ++b) {
    const auto alone =
        make_layer<typename TestFixture::template LayerOf<ls::OffsetCausal>>(shape, ls::OffsetCausal(offsets[at(b)]));
    EXPECT_TRUE(same_bits(full(alone, part(x, b * each, each)).y, part(y, b * each, each), hidden)) << "sequence " << b;
  }
  std::vector<float> four(at(4 * each));
  const auto in = ls::View<const float, 3>::contiguous(four.data(), {4, q_len, hidden});
  EXPECT_FALSE(layer.check(in, ls::View<float, 3>::contiguous(y.data(), {4, q_len, hidden})).ok())
      << "three offsets for four sequences";
}

TYPED_TEST(Masks, RowsThatSeeNothingGiveZeros) {
  const Index tokens = 20, blind = 3;
  const auto x = numbers<float>(tokens * hidden, 114);
  const auto layer =
      make_layer<typename TestFixture::template LayerOf<ls::OffsetCausal>>(shape, ls::OffsetCausal(-blind));
  std::vector<float> weights(at(shape.heads * tokens * tokens), nan<float>()), context(at(tokens * 24), nan<float>());
  const auto result = full(layer, x,
                           {.weights = ls::View<float, 4>::contiguous(weights.data(), {1, shape.heads, tokens, tokens}),
                            .context = ls::View<float, 3>::contiguous(context.data(), {1, tokens, 24})});
  EXPECT_TRUE(same_bits(std::vector<float>(at(blind * 24)), part(context, 0, blind * 24), 24));
  const auto bias = Weights<float>(shape).output_bias;
  for (Index i = 0; i < blind; ++i) EXPECT_TRUE(same_bits(bias, part(result.y, i * hidden, hidden), hidden));
  for (Index h = 0; h < shape.heads; ++h) {
    EXPECT_TRUE(
        same_bits(std::vector<float>(at(blind * tokens)), part(weights, h * tokens * tokens, blind * tokens), tokens));
    for (Index i = 0; i < tokens; ++i)
      EXPECT_EQ(static_cast<double>(result.lse[at(h * tokens + i)]) == -infinite, i < blind);
  }
}

// pytorch/pytorch#103963: 0/0 in the softmax of a row without keys; its neighbours must not change either.
TYPED_TEST(Masks, RowsThatSeeNothingLeaveTheOthersTheirBits) {
  const Index tokens = 40;
  const auto x = numbers<float>(tokens * hidden, 115);
  Flags flags(1, tokens);
  flags(0, 0) = flags(0, 1) = false;
  using Padded = ls::And<ls::Causal, ls::KeyPadding>;
  const auto padded = make_layer<typename TestFixture::template LayerOf<Padded>>(shape, ls::Causal{} & flags.mask());
  const auto one_pass = run(padded, x, {tokens});
  for (Index i = 0; i < 2; ++i)
    EXPECT_TRUE(same_bits(Weights<float>(shape).output_bias, part(one_pass.y, i * hidden, hidden), hidden));
  expect_same_outcome(padded, one_pass, run(padded, x, steps(tokens, 1)));
}

TYPED_TEST(Masks, NoneSeesEverythingInOneFullForward) {
  for (const Index tokens : {1, 20, 300})
    this->expect_reference(ls::NoMask{}, numbers<float>(tokens * hidden, 116), [](Index, Index) { return true; });
}

TYPED_TEST(Masks, NoneIsRefusedWithACache) {
  const auto layer = make_layer<typename TestFixture::template LayerOf<ls::NoMask>>(shape);
  const auto x = numbers<float>(4 * hidden, 117);
  std::vector<float> y(x.size(), 7);
  auto cache = layer.make_cache(8);
  EXPECT_FALSE(layer.check(rows_of(x, 0, 4, hidden), cache, rows_of(y, 0, 4, hidden)).ok());
  EXPECT_THROW(layer.forward(rows_of(x, 0, 4, hidden), cache, rows_of(y, 0, 4, hidden)), std::invalid_argument);
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(y, std::vector<float>(x.size(), 7));
}

TYPED_TEST(Masks, AnOffsetAheadOfTheCacheIsRefused) {
  const auto layer = make_layer<typename TestFixture::template LayerOf<ls::OffsetCausal>>(shape, ls::OffsetCausal(1));
  const auto x = numbers<float>(4 * hidden, 118);
  std::vector<float> y(x.size());
  auto cache = layer.make_cache(8);
  EXPECT_THROW(layer.forward(rows_of(x, 0, 4, hidden), cache, rows_of(y, 0, 4, hidden)), std::invalid_argument);
  EXPECT_EQ(cache.length(), 0);
}

}  // namespace
