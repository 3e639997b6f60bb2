// Eigen tensors [batch, q_len, hidden] of either order have the bits of plain memory.
#include <unsupported/Eigen/CXX11/Tensor>

#include "fixture.hpp"

namespace {

using namespace fixture;

using Layer = ls::Attention<float, 4, 2, ls::Rope<ls::HalfSplit>>;
constexpr Index batch = 3, tokens = 17, hidden = 10;

template <int Layout>
std::vector<float> through_tensors(const Layer& layer, const std::vector<float>& x, bool cached) {
  Eigen::Tensor<float, 3, Layout> in(batch, tokens, hidden), out(batch, tokens, hidden);
  for (Index b = 0; b < batch; ++b)
    for (Index i = 0; i < tokens; ++i)
      for (Index j = 0; j < hidden; ++j) in(b, i, j) = x[at((b * tokens + i) * hidden + j)];
  if (cached) {
    std::vector<Layer::Cache> caches;
    for (Index b = 0; b < batch; ++b) caches.push_back(layer.make_cache(tokens));
    layer.forward(in, caches, out);
  } else {
    layer.forward(Eigen::TensorMap<const Eigen::Tensor<float, 3, Layout>>(in.data(), batch, tokens, hidden), out);
  }
  std::vector<float> y;
  for (Index b = 0; b < batch; ++b)
    for (Index i = 0; i < tokens; ++i)
      for (Index j = 0; j < hidden; ++j) y.push_back(out(b, i, j));
  return y;
}

TEST(Tensors, OfEitherOrderHaveTheBitsOfPlainMemory) {
  const auto layer = make_layer<Layer>({.hidden = hidden, .heads = 4, .kv_heads = 2, .head_dim = 6});
  const auto x = numbers<float>(batch * tokens * hidden, 52);
  std::vector<float> y(x.size());
  layer.forward(ls::View<const float, 3>::contiguous(x.data(), {batch, tokens, hidden}),
                ls::View<float, 3>::contiguous(y.data(), {batch, tokens, hidden}));
  for (const bool cached : {false, true}) {
    EXPECT_TRUE(same_bits(y, through_tensors<Eigen::RowMajor>(layer, x, cached), hidden));
    EXPECT_TRUE(same_bits(y, through_tensors<Eigen::ColMajor>(layer, x, cached), hidden));
  }
}

TEST(Tensors, TakeWeightsAndLogSumExp) {
  const auto layer = make_layer<Layer>({.hidden = hidden, .heads = 4, .kv_heads = 2, .head_dim = 6});
  const auto x = numbers<float>(tokens * hidden, 53);
  const auto plain = full(layer, x);
  Eigen::Tensor<float, 4, Eigen::ColMajor> weights(1, 4, tokens, tokens);
  Eigen::Tensor<float, 3, Eigen::RowMajor> lse(1, 4, tokens);
  std::vector<float> y(x.size());
  layer.forward(rows_of(x, 0, tokens, hidden), rows_of(y, 0, tokens, hidden), {.weights = weights, .lse = &lse});
  EXPECT_TRUE(same_bits(plain.y, y, hidden));
  EXPECT_TRUE(same_bits(plain.lse, {lse.data(), lse.data() + lse.size()}, tokens));
  for (Index h = 0; h < 4; ++h) {
    EXPECT_EQ(weights(0, h, 0, 0), 1.0F);
    EXPECT_EQ(weights(0, h, 0, 1), 0.0F);
  }
}

}  // namespace
