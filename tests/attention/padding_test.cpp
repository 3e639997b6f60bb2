// Key padding in any pattern, with a cache and the causal mask; and masks of one call.
#include "fixture.hpp"

namespace {

using namespace fixture;

constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
constexpr Index hidden = shape.hidden, tokens = 600;
using Padded = ls::And<ls::Causal, ls::KeyPadding>;

enum class Pattern { random, left, right, whole_block, first_split_but_one, none };

Flags pattern(Pattern kind) {
  Flags flags(1, tokens);
  Random random(7);
  for (Index key = 0; key < tokens; ++key) {
    bool& flag = flags(0, key);
    switch (kind) {
      case Pattern::random:
        flag = random.below(2) == 0;
        break;
      case Pattern::left:
        flag = key >= 33;
        break;
      case Pattern::right:
        flag = key < 300;
        break;
      case Pattern::whole_block:
        flag = key < 250 || key >= 515;
        break;
      case Pattern::first_split_but_one:
        flag = key == 17 || key >= 599;
        break;
      case Pattern::none:
        flag = false;
        break;
    }
  }
  return flags;
}
constexpr Pattern patterns[] = {
    Pattern::random, Pattern::left, Pattern::right, Pattern::whole_block, Pattern::first_split_but_one, Pattern::none};

template <class Case>
class Padding : public ::testing::Test {
 protected:
  template <class Mask>
  using LayerOf = ls::Attention<float, ls::Dynamic, ls::Dynamic, typename Case::Kernel, Mask>;
  std::vector<float> x = numbers<float>(tokens * hidden, 121);
};
TYPED_TEST_SUITE(Padding, FloatCases, CaseName);

TYPED_TEST(Padding, OfAnyPatternIsTheReferences) {
  for (const Pattern kind : patterns) {
    SCOPED_TRACE(static_cast<int>(kind));
    const Flags flags = pattern(kind);
    const auto result =
        full(make_layer<typename TestFixture::template LayerOf<Padded>>(shape, ls::Causal{} & flags.mask()), this->x);
    const auto expected = reference::forward(Weights<float>(shape).reference(), reference::widen(this->x),
                                             [&](Index, Index row, Index key) { return key <= row && flags(0, key); });
    const double tolerance = 8 * 0x1p-24 * static_cast<double>(hidden + shape.head_dim + tokens);
    EXPECT_LE(largest_difference(expected.y, result.y), tolerance);
    EXPECT_LE(largest_difference(expected.attention.lse, result.lse), tolerance);
  }
}

TYPED_TEST(Padding, OfAnyPatternKeepsTheBitsUnderAnyChunks) {
  for (const Pattern kind : patterns) {
    SCOPED_TRACE(static_cast<int>(kind));
    const Flags flags = pattern(kind);
    const auto layer = make_layer<typename TestFixture::template LayerOf<Padded>>(shape, ls::Causal{} & flags.mask());
    const auto one_pass = run(layer, this->x, {tokens});
    expect_same_outputs(layer, one_pass, full(layer, this->x));
    for (const auto& plan : {steps(tokens, 1), steps(tokens, 257), random_plan(tokens, 8)})
      expect_same_outcome(layer, one_pass, run(layer, this->x, plan));
  }
}

TYPED_TEST(Padding, OfNoKeyHasTheBitsOfCausal) {
  const Flags flags(1, tokens + 9);
  const auto causal = make_layer<typename TestFixture::template LayerOf<ls::Causal>>(shape);
  const auto padded = make_layer<typename TestFixture::template LayerOf<Padded>>(shape, ls::Causal{} & flags.mask());
  expect_same_outcome(causal, run(causal, this->x, {tokens}), run(padded, this->x, {400, 200}));
}

// NVIDIA/cudnn-frontend#624: a hidden key's NaN reached rows by 0 * NaN, or survived an added -inf.
TYPED_TEST(Padding, HidesWhateverThePaddedTokensHold) {
  const Flags flags = pattern(Pattern::random);
  const auto layer = make_layer<typename TestFixture::template LayerOf<Padded>>(shape, ls::Causal{} & flags.mask());
  const auto clean = full(layer, this->x);
  for (const float garbage : {nan<float>(), infinity<float>()}) {
    auto in = this->x;
    for (Index key = 0; key < tokens; ++key)
      if (!flags(0, key)) std::fill_n(in.begin() + key * hidden, hidden, garbage);
    const auto result = full(layer, in);
    for (Index i = 0; i < tokens; ++i)
      if (flags(0, i)) {
        ASSERT_TRUE(same_bits(part(clean.y, i * hidden, hidden), part(result.y, i * hidden, hidden), hidden))
            << "row " << i;
      }
  }
}

// microsoft/onnxruntime#20521: one length was used for all sequences of a batch, and padding was read.
TYPED_TEST(Padding, LengthsOfABatchAreEachSequencesOwn) {
  const Index q_len = 290, each = q_len * hidden;
  const Index lengths[] = {290, 1, 257};
  Flags flags(3, q_len);
  auto in = numbers<float>(3 * each, 122);
  for (Index b = 0; b < 3; ++b)
    for (Index i = lengths[b]; i < q_len; ++i) {
      flags(b, i) = false;
      std::fill_n(in.begin() + b * each + i * hidden, hidden, nan<float>());
    }
  const auto layer = make_layer<typename TestFixture::template LayerOf<Padded>>(shape, ls::Causal{} & flags.mask());
  const auto causal = make_layer<typename TestFixture::template LayerOf<ls::Causal>>(shape);
  std::vector<float> y(in.size());
  layer.forward(ls::View<const float, 3>::contiguous(in.data(), {3, q_len, hidden}),
                ls::View<float, 3>::contiguous(y.data(), {3, q_len, hidden}));
  for (Index b = 0; b < 3; ++b)
    EXPECT_TRUE(same_bits(full(causal, part(in, b * each, lengths[b] * hidden)).y,
                          part(y, b * each, lengths[b] * hidden), hidden))
        << "sequence " << b;
}

TYPED_TEST(Padding, AloneIsTakenInOneFullForwardOnly) {
  const Flags flags = pattern(Pattern::random);
  const auto layer = make_layer<typename TestFixture::template LayerOf<ls::KeyPadding>>(shape, flags.mask());
  const auto result = full(layer, this->x);
  const auto expected = reference::forward(Weights<float>(shape).reference(), reference::widen(this->x),
                                           [&](Index, Index, Index key) { return flags(0, key); });
  EXPECT_LE(largest_difference(expected.y, result.y),
            8 * 0x1p-24 * static_cast<double>(hidden + shape.head_dim + tokens));
  EXPECT_THROW(run(layer, this->x, {tokens}), std::invalid_argument);
}

TYPED_TEST(Padding, OfFewerKeysThanTheCallHasIsRefused) {
  const Flags flags(1, 10);
  const auto layer = make_layer<typename TestFixture::template LayerOf<Padded>>(shape, ls::Causal{} & flags.mask());
  EXPECT_NO_THROW(run(layer, part(this->x, 0, 10 * hidden), {4, 6}));
  EXPECT_THROW(run(layer, part(this->x, 0, 11 * hidden), {4, 7}), std::invalid_argument) << "cached keys count too";
}

TYPED_TEST(Padding, OfOneCallStandsInForTheLayersMask) {
  using Layer = typename TestFixture::template LayerOf<Padded>;
  const Flags all(1, tokens), some = pattern(Pattern::random);
  const auto layer = make_layer<Layer>(shape, ls::Causal{} & all.mask());
  const auto other = make_layer<Layer>(shape, ls::Causal{} & some.mask());
  const Padded mask = ls::Causal{} & some.mask();
  expect_same_outcome(layer, run(other, this->x, {tokens}), run(layer, this->x, {256, 344}, {.mask = &mask}));
  EXPECT_FALSE(same_bits(full(layer, this->x).y, full(other, this->x).y, hidden));
}

}  // namespace
