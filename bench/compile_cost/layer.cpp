// What a file pays that has one layer: construction, prefill and decode with a cache. With MORE_LAYERS, a second one
// under other policies.
#include "lockstep/lockstep.hpp"

namespace {

namespace ls = lockstep;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class Layer, class... Values>
void prefill_and_decode(const ls::LayerWeights<float>& weights, const Matrix& prompt, const Matrix& token, Matrix& y,
                        const Values&... values) {
  const Layer layer({.hidden = 896, .head_dim = 64}, weights, values...);
  auto cache = layer.make_cache(4096);
  layer.forward(prompt, cache, y);
  layer.forward(token, cache, y);
}

}  // namespace

void run(const ls::LayerWeights<float>& weights, const Matrix& prompt, const Matrix& token, Matrix& y) {
  const ls::RopeTable<float> rope(ls::RopeConfig{.rotary_dim = 64, .base = 1e6, .positions = 32768});
  prefill_and_decode<ls::Attention<float, 14, 2, ls::Rope<ls::HalfSplit>, ls::Causal>>(weights, prompt, token, y, rope);
#if defined(MORE_LAYERS)
  prefill_and_decode<ls::Attention<float, 14, 2, ls::Rope<ls::HalfSplit>, ls::SlidingWindow, ls::SoftCap>>(
      weights, prompt, token, y, rope, ls::SlidingWindow{.window = 1024}, ls::SoftCap{.cap = 50});
#endif
}
