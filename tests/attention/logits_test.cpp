// Layers with soft-cap, biases, sinks and q/k norms: close to the reference, and decoding has the bits of the full
// forward.
#include "fixture.hpp"

namespace {

using namespace fixture;

constexpr Index tokens = 300;
constexpr Shape shape{.hidden = 20, .heads = 6, .kv_heads = 2, .head_dim = 8};

template <class T>
std::vector<T> norm_weights(Index n, std::uint64_t seed) {
  std::vector<T> weights = numbers<T>(n, seed, 0.5);
  for (T& weight : weights) weight = number<T>(static_cast<double>(weight) + 1);
  return weights;
}
template <class Norm, class T>
Norm norm(Index query, Index key) {
  const auto q = norm_weights<T>(query, 31), k = norm_weights<T>(key, 32);
  return Norm(ls::View<const T, 1>(q), ls::View<const T, 1>(k), 1e-5);
}
template <class T>
auto reference_norm(Index query, Index key) {
  return
      [q = reference::widen(norm_weights<T>(query, 31)), k = reference::widen(norm_weights<T>(key, 32))](
          reference::Values rows, bool queries) { return reference::rms_norm(std::move(rows), queries ? q : k, 1e-5); };
}
template <class T>
reference::Layer reference_layer() {
  reference::Layer layer = Weights<T>(shape).reference();
  layer.pairing = reference::Pairing::half_split;
  layer.rotary_dim = shape.head_dim;
  return layer;
}

template <class Layer>
void expect_decode_equals_full(const Layer& layer) {
  const auto x = numbers<typename Layer::Scalar>(tokens * shape.hidden, 21);
  const auto one_pass = run(layer, x, {tokens});
  expect_same_outputs(layer, one_pass, full(layer, x));
  for (const auto& plan : {steps(tokens, 1), random_plan(tokens, 5)}) {
    SCOPED_TRACE(plan_name(plan));
    expect_same_outcome(layer, one_pass, run(layer, x, plan));
  }
}

// Gemma 2's cap, BLOOM's slopes, gpt-oss' sinks and Qwen 3's norm at once.
using All = ls::Attention<float, 6, 2, ls::Rope<>, ls::SoftCap, ls::Alibi<>, ls::LearnedSinks<>, ls::QkNorm<>>;

All make_all() {
  const std::vector<float> sinks = numbers<float>(6, 33, 2);
  return make_layer<All>(shape, rope<float>(8), ls::SoftCap{.cap = 2},
                         ls::LearnedSinks<float>(ls::View<const float, 1>(sinks)), norm<All::Norm, float>(8, 8));
}

TEST(LayerLogits, OfEveryKindAtOnceAreCloseToTheReference) {
  const auto x = numbers<float>(tokens * shape.hidden, 21);
  reference::Layer expected = reference_layer<float>();
  expected.before_rotation = reference_norm<float>(8, 8);
  expected.transform = [slopes = reference::alibi_slopes(6)](double logit, Index head, Index row, Index key) {
    return 2 * std::tanh(logit / 2) + slopes[at(head)] * static_cast<double>(key - row);
  };
  expected.sink = [sinks = numbers<float>(6, 33, 2)](Index head) { return static_cast<double>(sinks[at(head)]); };
  const auto y = full(make_all(), x).y;
  EXPECT_LE(largest_difference(reference::forward(expected, reference::widen(x)).y, y), 2e-5);
  // The same layer with its norm after the rotation is another one.
  std::swap(expected.before_rotation, expected.after_rotation);
  EXPECT_GT(largest_difference(reference::forward(expected, reference::widen(x)).y, y), 1e-3);
}

TEST(LayerLogits, OfEveryKindAtOnceDecodeWithTheBitsOfTheFullForward) { expect_decode_equals_full(make_all()); }

/// Logits [heads, tokens, tokens] of a sequence in the chunks of a plan; 7 where nothing is written.
std::vector<float> raw_logits(const All& layer, const std::vector<float>& x, const std::vector<Index>& plan,
                              ls::LogitStage stage) {
  std::vector<float> logits(at(6 * tokens * tokens), 7), y(x.size());
  auto cache = layer.make_cache(tokens);
  Index first = 0;
  for (const Index rows : plan) {
    All::Options options;
    options.logit_stage = stage;
    options.raw_logits = ls::View<float, 4>(logits.data() + first * tokens, {1, 6, rows, first + rows},
                                            {6 * tokens * tokens, tokens * tokens, tokens, 1});
    layer.forward(rows_of(x, first, rows, shape.hidden), cache, rows_of(y, first, rows, shape.hidden), options);
    first += rows;
  }
  return logits;
}

TEST(LayerLogits, OnRequestHaveTheSameBitsAtAnyChunking) {
  const auto layer = make_all();
  const auto x = numbers<float>(tokens * shape.hidden, 21);
  for (const auto stage : {ls::LogitStage::scaled, ls::LogitStage::transformed, ls::LogitStage::masked}) {
    auto whole = raw_logits(layer, x, {tokens}, stage);
    Index hidden = 0;
    for (const float logit : whole) hidden += logit == -std::numeric_limits<float>::infinity() ? 1 : 0;
    EXPECT_EQ(hidden, 6 * tokens * (tokens - 1) / 2) << "keys after the row's own";
    const auto decoded = raw_logits(layer, x, steps(tokens, 1), stage);
    // Decoding gives no columns for keys that are not there yet.
    for (Index row = 0; row < 6 * tokens; ++row)
      for (Index key = row % tokens + 1; key < tokens; ++key) whole[at(row * tokens + key)] = 7;
    EXPECT_TRUE(same_bits(whole, decoded, tokens)) << "stage " << static_cast<int>(stage);
  }
}

TEST(LayerLogits, AreNamedInTheLayersDescription) {
  std::ostringstream text;
  text << make_all();
  for (const char* part : {"logits soft-capped", "bias alibi", "sinks learned", "norm rms norm of each head"})
    EXPECT_NE(text.str().find(part), std::string::npos) << part << " in " << text.str();
}

// OLMo 2's norm, here after the rotation, and T5's biases, in 16-bit storage.
using Other =
    ls::Attention<Eigen::bfloat16, 6, 2, ls::Rope<>, ls::RelativeBias<>, ls::QkNorm<ls::AfterRope, ls::WholeWidth>>;
constexpr ls::RelativeBuckets buckets{.num_buckets = 16, .max_distance = 40};

Other make_other() {
  const std::vector<Eigen::bfloat16> table = numbers<Eigen::bfloat16>(16 * 6, 34, 2);
  return make_layer<Other>(shape, rope<float>(8),
                           Other::Bias(buckets, ls::View<const Eigen::bfloat16, 2>::contiguous(table.data(), {16, 6})),
                           norm<Other::Norm, Eigen::bfloat16>(48, 16));
}

TEST(LayerLogits, OfRelativeBiasAndNormOfAllHeadsAreCloseToTheReference) {
  const auto x = numbers<Eigen::bfloat16>(tokens * shape.hidden, 21);
  reference::Layer expected = reference_layer<Eigen::bfloat16>();
  expected.after_rotation = reference_norm<Eigen::bfloat16>(48, 16);
  expected.transform = [table = numbers<Eigen::bfloat16>(16 * 6, 34, 2)](double logit, Index head, Index row,
                                                                         Index key) {
    return logit + static_cast<double>(table[at(buckets.bucket(key - row) * 6 + head)]);
  };
  const auto y = full(make_other(), x).y;
  // Keys and values are stored, and outputs given, with 8 bits.
  EXPECT_LE(largest_difference(reference::forward(expected, reference::widen(x)).y, y), 0.05);
  std::swap(expected.before_rotation, expected.after_rotation);
  expected.transform = {};
  EXPECT_GT(largest_difference(reference::forward(expected, reference::widen(x)).y, y), 0.1);
}

TEST(LayerLogits, OfRelativeBiasAndNormOfAllHeadsDecodeWithTheBitsOfTheFullForward) {
  expect_decode_equals_full(make_other());
}

TEST(LayerLogits, AreRefusedWhereAPolicyDoesNotFit) {
  EXPECT_THROW(make_layer<All>(shape, rope<float>(8)), std::invalid_argument);  // no sinks, no norm
  const std::vector<float> sinks = numbers<float>(6, 33, 2);
  const ls::LearnedSinks<float> six{ls::View<const float, 1>(sinks)};
  EXPECT_THROW(make_layer<All>(shape, rope<float>(8), six), std::invalid_argument);
  EXPECT_THROW(make_layer<All>(shape, rope<float>(8), six, norm<All::Norm, float>(8, 16)), std::invalid_argument);
  const auto fits = norm<All::Norm, float>(8, 8);
  EXPECT_THROW(make_layer<All>(shape, rope<float>(8), six, fits, ls::SoftCap{.cap = -1}), std::invalid_argument);
  EXPECT_THROW(make_layer<All>(shape, rope<float>(8), six, fits, ls::Alibi<float>(2)), std::invalid_argument);
  EXPECT_NO_THROW(make_layer<All>(shape, rope<float>(8), six, fits));
}

}  // namespace
