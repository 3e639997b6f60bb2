// Weights, log-sum-exp and context on request: what they mean, and that asking changes nothing.
#include <cmath>
#include <limits>

#include "fixture.hpp"

namespace {

using namespace fixture;

constexpr Shape shape{.hidden = 12, .heads = 4, .kv_heads = 2, .head_dim = 6};
constexpr Index tokens = 290, width = shape.heads * shape.head_dim;

template <class Case>
class Results : public ::testing::Test {
 protected:
  using Layer = ls::Attention<float, ls::Dynamic, ls::Dynamic, typename Case::Kernel>;
  using Options = typename Layer::Options;
  Layer layer = make_layer<Layer>(shape);
  std::vector<float> x = numbers<float>(tokens * shape.hidden, 101);
  std::vector<float> weights = std::vector<float>(at(shape.heads * tokens * tokens), nan<float>());
  std::vector<float> context = std::vector<float>(at(tokens * width), nan<float>());

  Outcome<Layer> forward_with_all() {
    return full(layer, x,
                {.weights = ls::View<float, 4>::contiguous(weights.data(), {1, shape.heads, tokens, tokens}),
                 .context = ls::View<float, 3>::contiguous(context.data(), {1, tokens, width})});
  }
};
TYPED_TEST_SUITE(Results, FloatCases, CaseName);

TYPED_TEST(Results, OnRequestChangeNoBitOfTheOutput) {
  std::vector<float> y(this->x.size());
  this->layer.forward(rows_of(this->x, 0, tokens, shape.hidden), rows_of(y, 0, tokens, shape.hidden));
  EXPECT_TRUE(same_bits(y, this->forward_with_all().y, shape.hidden));
}

TYPED_TEST(Results, AreThoseOfTheReference) {
  const auto result = this->forward_with_all();
  const auto expected = reference::forward(Weights<float>(shape).reference(), reference::widen(this->x));
  const double tolerance = 4 * 0x1p-24 * static_cast<double>(shape.hidden + shape.head_dim + tokens);
  EXPECT_LE(largest_difference(expected.attention.weights, this->weights), tolerance);
  EXPECT_LE(largest_difference(expected.attention.lse, result.lse), tolerance);
  EXPECT_LE(largest_difference(expected.attention.context, this->context), tolerance);
  for (Index h = 0; h < shape.heads; ++h)
    for (Index i = 0; i < tokens; ++i) {
      double sum = 0;
      for (Index j = 0; j < tokens; ++j) {
        const float weight = this->weights[at((h * tokens + i) * tokens + j)];
        sum += static_cast<double>(weight);
        if (j > i) {
          ASSERT_TRUE(weight == 0 && !std::signbit(weight)) << "a later key has weight";
        }
      }
      ASSERT_NEAR(sum, 1, static_cast<double>(i + 2) * 0x1p-24);
    }
}

TYPED_TEST(Results, OfChunksAreThePartsOfOnePass) {
  this->forward_with_all();
  auto cache = this->layer.make_cache(tokens);
  Index first = 0;
  for (const Index rows : random_plan(tokens, 5)) {
    const Index kv_len = first + rows;
    std::vector<float> y(at(rows * shape.hidden)), w(at(shape.heads * rows * kv_len), nan<float>()),
        c(at(rows * width));
    this->layer.forward(rows_of(this->x, first, rows, shape.hidden), cache, rows_of(y, 0, rows, shape.hidden),
                        {.weights = ls::View<float, 4>::contiguous(w.data(), {1, shape.heads, rows, kv_len}),
                         .context = ls::View<float, 3>::contiguous(c.data(), {1, rows, width})});
    EXPECT_TRUE(same_bits(part(this->context, first * width, rows * width), c, width));
    for (Index h = 0; h < shape.heads; ++h)
      for (Index i = 0; i < rows; ++i)
        ASSERT_TRUE(same_bits(part(this->weights, (h * tokens + first + i) * tokens, kv_len),
                              part(w, (h * rows + i) * kv_len, kv_len), kv_len))
            << "row " << first + i << " of head " << h;
    first += rows;
  }
}

TYPED_TEST(Results, OfAShorterSequenceAreZeroBeyondItsKeysAndLogitsMinusInfinity) {
  const Index q_len = 3, short_len = 5, long_len = 270, kv_len = long_len + q_len;
  const auto fill = [&](Index length) {
    auto cache = this->layer.make_cache(length + q_len);
    std::vector<float> y(at(length * shape.hidden));
    this->layer.forward(rows_of(this->x, 0, length, shape.hidden), cache, rows_of(y, 0, length, shape.hidden));
    return cache;
  };
  std::vector caches{fill(short_len), fill(long_len)};
  std::vector<float> y(at(2 * q_len * shape.hidden)), w(at(2 * shape.heads * q_len * kv_len), nan<float>()), logits = w;
  this->layer.forward(ls::View<const float, 3>::contiguous(this->x.data(), {2, q_len, shape.hidden}), caches,
                      ls::View<float, 3>::contiguous(y.data(), {2, q_len, shape.hidden}),
                      {.weights = ls::View<float, 4>::contiguous(w.data(), {2, shape.heads, q_len, kv_len}),
                       .raw_logits = ls::View<float, 4>::contiguous(logits.data(), {2, shape.heads, q_len, kv_len})});
  for (Index h = 0; h < shape.heads; ++h)
    for (Index i = 0; i < q_len; ++i) {
      const auto row = part(w, (h * q_len + i) * kv_len, kv_len);
      const Index beyond = kv_len - short_len - q_len;
      EXPECT_TRUE(same_bits(std::vector<float>(at(beyond), -std::numeric_limits<float>::infinity()),
                            part(logits, (h * q_len + i + 1) * kv_len - beyond, beyond), beyond));
      EXPECT_GT(row[at(short_len + i)], 0.0F);
      EXPECT_TRUE(same_bits(std::vector<float>(at(kv_len - short_len - i - 1)),
                            part(row, short_len + i + 1, kv_len - short_len - i - 1), kv_len));
      EXPECT_GT(w[at(((shape.heads + h) * q_len + i) * kv_len + long_len + i)], 0.0F)
          << "the longer sequence sees its own key";
    }
}

TYPED_TEST(Results, TheOutputIsTheProjectedContext) {
  const auto result = this->forward_with_all();
  const auto plain = Weights<float>(shape).reference();
  const auto y =
      reference::project(reference::widen(this->context), plain.output, plain.output_bias, width, shape.hidden);
  EXPECT_LE(largest_difference(y, result.y), 4 * 0x1p-24 * static_cast<double>(width));
}

TYPED_TEST(Results, MayBeStrided) {
  const auto expected = this->forward_with_all();
  const Index step = tokens + 3;
  std::vector<float> w(at(shape.heads * tokens * step), 7), lse(at(2 * shape.heads * tokens), 7), y(this->x.size());
  this->layer.forward(
      rows_of(this->x, 0, tokens, shape.hidden), rows_of(y, 0, tokens, shape.hidden),
      {.weights = ls::View<float, 4>(w.data(), {1, shape.heads, tokens, tokens}, {0, tokens * step, step, 1}),
       .lse = ls::View<float, 3>(lse.data(), {1, shape.heads, tokens}, {0, 2, 2 * shape.heads})});
  for (Index h = 0; h < shape.heads; ++h)
    for (Index i = 0; i < tokens; ++i) {
      ASSERT_TRUE(same_bits(part(this->weights, (h * tokens + i) * tokens, tokens),
                            part(w, (h * tokens + i) * step, tokens), tokens));
      ASSERT_EQ(w[at((h * tokens + i) * step + tokens)], 7.0F);
      ASSERT_EQ(lse[at(2 * (i * shape.heads + h))], expected.lse[at(h * tokens + i)]);
      ASSERT_EQ(lse[at(2 * (i * shape.heads + h) + 1)], 7.0F);
    }
}

}  // namespace
