// Dropout in training: a pattern of seed, stream and places alone, whose dropped keys leave the weighted sum and stay
// in the softmax's.
#include <cmath>

#include "attention/hook.hpp"

namespace {

using namespace fixture;

constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
constexpr Index tokens = 290;

template <class Case>
class WithDropout : public ::testing::Test {
 protected:
  template <class... Policies>
  using LayerOf =
      ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, typename Case::Kernel, Policies...>;
  using Layer = LayerOf<ls::Dropout>;
  using Options = typename Layer::Options;

  std::vector<float> x = numbers<float>(tokens * shape.hidden, 91);

  static Layer layer(double probability, std::uint32_t seed = 5) {
    return make_layer<Layer>(shape, rope<float>(shape.head_dim, tokens), ls::Dropout{probability, seed});
  }
  static constexpr Options training{.mode = ls::Mode::training};
};
TYPED_TEST_SUITE(WithDropout, FloatCases, CaseName);

TYPED_TEST(WithDropout, OfProbabilityZeroTheBitsAreThoseOfNone) {
  const auto none = make_layer<typename TestFixture::template LayerOf<>>(shape, rope<float>(shape.head_dim, tokens));
  const auto zero = this->layer(0);
  expect_same_outcome(none, run(none, this->x, {tokens}), run(zero, this->x, {tokens}, this->training));
}

TYPED_TEST(WithDropout, InInferenceTheBitsAreThoseOfNone) {
  const auto none = make_layer<typename TestFixture::template LayerOf<>>(shape, rope<float>(shape.head_dim, tokens));
  const auto half = this->layer(0.5);
  expect_same_outcome(none, run(none, this->x, {tokens}), run(half, this->x, {tokens}));
  EXPECT_FALSE(same_bits(full(none, this->x).y, full(half, this->x, this->training).y, shape.hidden));
}

TYPED_TEST(WithDropout, ProbabilitiesOutsideZeroToOneAreRefused) {
  for (const double p : {1.0, 1.5, -0.1, std::nan(""), static_cast<double>(INFINITY)})
    EXPECT_THROW(this->layer(p), std::invalid_argument) << p;
  EXPECT_NO_THROW(this->layer(0.999));
}

TYPED_TEST(WithDropout, TrainingWithoutAPolicyIsRefused) {
  const auto none = make_layer<typename TestFixture::template LayerOf<>>(shape, rope<float>(shape.head_dim, tokens));
  EXPECT_THROW(full(none, this->x, {.mode = ls::Mode::training}), std::invalid_argument);
}

TYPED_TEST(WithDropout, ThePatternDoesNotDependOnTheChunks) {
  const auto layer = this->layer(0.3);
  const auto one_pass = run(layer, this->x, {tokens}, this->training);
  expect_same_outputs(layer, one_pass, full(layer, this->x, this->training));
  for (const auto& plan : {steps(tokens, 1), steps(tokens, 100), random_plan(tokens, 3)})
    expect_same_outcome(layer, one_pass, run(layer, this->x, plan, this->training));
}

TYPED_TEST(WithDropout, ThePatternDoesNotDependOnThreads) {
  TestPool pool{TaskOrder::threads};
  const auto threaded = make_layer<typename TestFixture::template LayerOf<ls::Dropout, ls::Hook>>(
      shape, rope<float>(shape.head_dim, tokens), ls::Dropout{0.3, 5}, pool.hook(3));
  const auto layer = this->layer(0.3);
  expect_same_outputs(layer, full(layer, this->x, this->training),
                      full(threaded, this->x, {.mode = ls::Mode::training}));
}

TYPED_TEST(WithDropout, ThePatternIsTheSequencesOwnStreamWhateverItsMates) {
  const auto layer = this->layer(0.3);
  const Index batch = 3, q_len = 50, each = q_len * shape.hidden;
  const std::uint32_t streams[] = {7, 0, 9};
  std::vector<float> y(at(batch * each));
  layer.forward(ls::View<const float, 3>::contiguous(this->x.data(), {batch, q_len, shape.hidden}),
                ls::View<float, 3>::contiguous(y.data(), {batch, q_len, shape.hidden}),
                {.mode = ls::Mode::training, .dropout_streams = streams});
  for (Index b = 0; b < batch; ++b) {
    const std::span<const std::uint32_t> stream(streams + b, 1);
    EXPECT_TRUE(
        same_bits(full(layer, part(this->x, b * each, each), {.mode = ls::Mode::training, .dropout_streams = stream}).y,
                  part(y, b * each, each), shape.hidden));
  }
  const auto other_stream = full(layer, part(this->x, 0, each), {.mode = ls::Mode::training});
  EXPECT_FALSE(same_bits(other_stream.y, part(y, 0, each), shape.hidden));
  EXPECT_FALSE(
      same_bits(other_stream.y, full(this->layer(0.3, 6), part(this->x, 0, each), this->training).y, shape.hidden))
      << "another seed";
  EXPECT_THROW(full(layer, this->x, {.mode = ls::Mode::training, .dropout_streams = streams}), std::invalid_argument)
      << "three streams for one sequence";
}

/// Weights, context and log-sum-exp of a full forward.
template <class Layer>
struct Parts {
  std::vector<float> weights, context, lse;  // [heads, tokens, tokens], [tokens, heads, head_dim], [heads, tokens]
  Parts(const Layer& layer, const std::vector<float>& x, ls::Mode mode)
      : weights(at(shape.heads * tokens * tokens)), context(at(tokens * shape.heads * shape.head_dim)) {
    lse = full(layer, x,
               {.weights = ls::View<float, 4>::contiguous(weights.data(), {1, shape.heads, tokens, tokens}),
                .context = ls::View<float, 3>::contiguous(context.data(), {1, tokens, shape.heads * shape.head_dim}),
                .mode = mode})
              .lse;
  }
};

TYPED_TEST(WithDropout, DroppedKeysStayInTheSumAndKeptWeightsAreScaled) {
  const double p = 0.3;
  const auto layer = this->layer(p);
  const Parts kept(layer, this->x, ls::Mode::training), all(layer, this->x, ls::Mode::inference);
  EXPECT_TRUE(same_bits(all.lse, kept.lse, tokens));
  const float factor = static_cast<float>(1 / (1 - p));
  Index dropped = 0, visible = 0;
  std::vector<float> expected(kept.weights.size());
  for (Index h = 0; h < shape.heads; ++h)
    for (Index i = 0; i < tokens; ++i)
      for (Index j = 0; j <= i; ++j) {
        const std::size_t index = at((h * tokens + i) * tokens + j);
        ASSERT_GT(all.weights[index], 0.0F);
        ++visible;
        if (kept.weights[index] == 0)
          ++dropped;
        else
          expected[index] = all.weights[index] * factor;
      }
  EXPECT_TRUE(same_bits(expected, kept.weights, tokens));
  const double n = static_cast<double>(visible);
  EXPECT_NEAR(static_cast<double>(dropped), n * p, 5 * std::sqrt(n * p * (1 - p)));
}

TYPED_TEST(WithDropout, TheContextIsTheReturnedWeightsTimesTheValues) {
  const auto layer = this->layer(0.3);
  const Parts kept(layer, this->x, ls::Mode::training);
  const auto cached = run(layer, this->x, {tokens}, this->training);
  for (Index i = 0; i < tokens; ++i)
    for (Index h = 0; h < shape.heads; ++h)
      for (Index d = 0; d < shape.head_dim; ++d) {
        double sum = 0;
        for (Index j = 0; j <= i; ++j)
          sum += static_cast<double>(kept.weights[at((h * tokens + i) * tokens + j)]) *
                 static_cast<double>(cached.values[at(((h / 2) * tokens + j) * shape.head_dim + d)]);
        // Values are of size 2 at most, weights sum to about 1 / (1 - p) times what was kept.
        ASSERT_NEAR(sum, static_cast<double>(kept.context[at((i * shape.heads + h) * shape.head_dim + d)]),
                    4 * static_cast<double>(i + 8) * 0x1p-24)
            << i << " " << h << " " << d;
      }
}

}  // namespace
