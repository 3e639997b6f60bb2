// Faults that other attention code had, held against whole layers over every size at which the wrong rule gives another
// number.
#include "fixture.hpp"

namespace {

using namespace fixture;

/// A layer whose value at token t is x[t] and whose queries and keys are zero: y is the mean of the x that a row sees.
template <class T, class... Policies>
auto mean_layer(const ls::LayerShape& shape = {.hidden = 1, .head_dim = 1, .heads = 1, .kv_heads = 1}) {
  const std::vector<T> zero{number<T>(0)}, one{number<T>(1)};
  return ls::Attention<T, ls::Dynamic, ls::Dynamic, Policies...>(shape, {.query = rows_of(zero, 0, 1, 1),
                                                                         .key = rows_of(zero, 0, 1, 1),
                                                                         .value = rows_of(one, 0, 1, 1),
                                                                         .output = rows_of(one, 0, 1, 1)});
}
template <class T>
std::vector<T> ramp(Index n) {
  std::vector<T> x;
  for (Index t = 0; t < n; ++t) x.push_back(number<T>(static_cast<double>(t)));
  return x;
}

template <class Case>
class Reports : public ::testing::Test {};
using RampCases = Cross<Kernels, List<float, Eigen::half>>;
TYPED_TEST_SUITE(Reports, RampCases, CaseName);

// hyprstream/hyprstream#1521: the triangle stood at row 0, so that the cached history was hidden.
TYPED_TEST(Reports, CausalMaskIsAnchoredAtTheCacheLength) {
  using T = typename TypeParam::Element;
  const auto layer = mean_layer<T, typename TypeParam::Kernel>();
  for (const Index cached : {0, 1, 6, 15, 16, 255, 256, 1023, 1030})
    for (const Index queries : {1, 2, 17, 300}) {
      const auto y = run(layer, ramp<T>(cached + queries), {cached, queries}).y;
      for (Index p = 0; p < cached + queries; ++p)
        ASSERT_EQ(static_cast<double>(y[at(p)]), static_cast<double>(p) / 2)
            << cached << " cached, " << queries << " queries";
    }
}

// pytorch/executorch#9105: the mask was applied to the last key block only, though a chunk may cross two partial ones.
TYPED_TEST(Reports, AChunkThatCrossesTwoPartialTilesSeesNoLaterKey) {
  using T = typename TypeParam::Element;
  const auto layer = mean_layer<T, typename TypeParam::Kernel>();
  for (const Index tile : {8, 16, 32, 64, 128, 256, 512}) {
    const auto y = run(layer, ramp<T>(2 * tile + 3), {tile - 3, tile + 6}).y;
    for (Index p = 0; p < 2 * tile + 3; ++p)
      ASSERT_EQ(static_cast<double>(y[at(p)]), static_cast<double>(p) / 2) << "tile " << tile;
  }
}

// ggml-org/llama.cpp#28368: prefill and decode took different kernels, whose sums ran in different orders.
TYPED_TEST(Reports, APrefixFromTheCacheGivesTheBitsOfTheFullForward) {
  using T = typename TypeParam::Element;
  if constexpr (std::is_same_v<T, float>) {
    using Layer = ls::Attention<float, 4, 2, ls::Rope<ls::HalfSplit>, typename TypeParam::Kernel>;
    const auto layer = make_layer<Layer>({.hidden = 16, .heads = 4, .kv_heads = 2, .head_dim = 64});
    const auto x = numbers<float>(700 * 16, 181);
    const auto expected = full(layer, x);
    for (const auto& plan :
         {std::vector<Index>{512, 188}, {699, 1}, steps(700, 1), steps(700, 7), {63, 1, 64, 1, 571}}) {
      SCOPED_TRACE(plan_name(plan));
      expect_same_outputs(layer, expected, run(layer, x, plan));
    }
  }
}

// onnx/onnx#7274, ekzhang/jax-js#180: query head h was paired with kv head h mod kv_heads; shapes are right and text
// stays fluent.
TYPED_TEST(Reports, QueryHeadsAreSharedInBlocks) {
  using T = typename TypeParam::Element;
  using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, typename TypeParam::Kernel>;
  for (const auto& [heads, kv_heads] :
       {std::pair<Index, Index>{4, 2}, {4, 4}, {6, 2}, {6, 3}, {14, 2}, {8, 1}, {16, 2}}) {
    Weights<T> weights({.hidden = 3, .heads = heads, .kv_heads = kv_heads, .head_dim = 2});
    for (Index g = 0; g < kv_heads; ++g)
      for (Index d = 0; d < 2; ++d) {
        weights.value_bias[at(2 * g + d)] = number<T>(static_cast<double>(10 * (g + 1)));
        for (Index i = 0; i < 3; ++i) weights.value[at((2 * g + d) * 3 + i)] = number<T>(0);
      }
    const Layer layer(weights.shape.layer(), weights.views());
    const auto x = numbers<T>(3, 182);
    std::vector<typename Layer::Compute> context(at(2 * heads));
    full(layer, x, {.context = ls::View<typename Layer::Compute, 3>::contiguous(context.data(), {1, 1, 2 * heads})});
    for (Index h = 0; h < heads; ++h)
      for (Index d = 0; d < 2; ++d)
        EXPECT_EQ(static_cast<double>(context[at(2 * h + d)]), static_cast<double>(10 * (h / (heads / kv_heads) + 1)))
            << heads << "/" << kv_heads << " head " << h;
  }
}

}  // namespace
