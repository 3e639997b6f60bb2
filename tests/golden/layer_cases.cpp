// Golden bits of layers: chunked forwards through a cache, whole ones, batches, rotation in both pairings, biases,
// dropout.
#include <lockstep/kernel/tiled.hpp>

#include "cases.hpp"
#include "kernel_instances.hpp"

namespace golden {

namespace {

using namespace bits;

struct Plan {
  Index tokens, batch;
  Index chunk;  // 0: one forward without a cache
  bool biased;
  Index rotary_dim = 0;
};

/// y, log-sum-exp and what the caches hold in the end.
template <class Layer>
std::uint64_t run(const ls::LayerShape& shape, const Plan& plan, const auto&... values) {
  using T = typename Layer::Scalar;
  using C = typename Layer::Compute;
  const Weights<T> weights(shape, 10, plan.biased, 0.25);
  const Layer layer(shape, weights.views(), values...);
  const std::array<Index, 3> extents{plan.batch, plan.tokens, shape.hidden};
  const auto x = numbers<T>(plan.batch * plan.tokens * shape.hidden, 1, 1);
  std::vector<T> y(x.size());
  std::vector<C> lse(at(plan.batch * layer.heads() * plan.tokens));
  const auto x_view = ls::View<const T, 3>::contiguous(x.data(), extents);
  const auto y_view = ls::View<T, 3>::contiguous(y.data(), extents);
  const auto lse_view = ls::View<C, 3>::contiguous(lse.data(), {plan.batch, layer.heads(), plan.tokens});
  const std::vector<std::uint32_t> streams(at(plan.batch), 5);
  typename Layer::Options options{.lse = lse_view,
                                  .mode = Layer::Dropout::active ? ls::Mode::training : ls::Mode::inference,
                                  .dropout_streams = streams};
  Hash hash;
  if (plan.chunk == 0) {
    layer.forward(x_view, y_view, options);
  } else {
    std::vector<typename Layer::Cache> caches;
    for (Index b = 0; b < plan.batch; ++b) caches.push_back(layer.make_cache(plan.tokens));
    for (Index first = 0, rows = 0; first < plan.tokens; first += rows) {
      // The first chunk is a longer one, as prompts are.
      const Index wanted = first == 0 ? 2 * plan.chunk + 1 : plan.chunk;
      rows = plan.tokens - first < wanted ? plan.tokens - first : wanted;
      options.lse = lse_view.part(2, first, rows);
      layer.forward(x_view.part(1, first, rows), caches, y_view.part(1, first, rows), options);
    }
    using S = typename Layer::Cache::Storage;
    for (const auto& cache : caches) {
      const auto [kv_heads, head_dim, v_head_dim] = cache.shape();
      std::vector<S> keys(at(kv_heads * plan.tokens * head_dim)), kept(at(kv_heads * plan.tokens * v_head_dim));
      cache.export_keys(ls::View<S, 3>::contiguous(keys.data(), {kv_heads, plan.tokens, head_dim}));
      cache.export_values(ls::View<S, 3>::contiguous(kept.data(), {kv_heads, plan.tokens, v_head_dim}));
      hash.add(keys);
      hash.add(kept);
    }
  }
  hash.add(y);
  hash.add(lse);
  return hash.value();
}

template <class T, class Style, class... Policies>
Case rotated(const char* name, const ls::LayerShape& shape, const Plan& plan, const Policies&... policies) {
  return {name, {Kernel::tiled}, [=](Kernel) {
            const ls::RopeTable<ls::compute_t<T>> rope({.rotary_dim = plan.rotary_dim, .base = 1e6, .positions = 512});
            return run<ls::Attention<T, ls::Dynamic, ls::Dynamic, ls::Rope<Style>, Policies..., ls::Tiled>>(
                shape, plan, rope, policies...);
          }};
}

using Eigen::bfloat16;
using Eigen::half;
using ls::HalfSplit;
using ls::Interleaved;

constexpr ls::Dropout dropout{.probability = 0.25, .seed = 3};
constexpr ls::LayerShape qwen{.hidden = 48, .head_dim = 64, .heads = 14, .kv_heads = 2};
constexpr ls::LayerShape plain{.hidden = 40, .head_dim = 16, .heads = 3, .kv_heads = 3};
constexpr ls::LayerShape wide{.hidden = 300, .head_dim = 80, .heads = 2, .kv_heads = 1};
constexpr ls::LayerShape uneven{.hidden = 33, .head_dim = 6, .v_head_dim = 10, .heads = 4, .kv_heads = 2};

}  // namespace

std::vector<Case> layer_cases() {
  return {
      rotated<float, HalfSplit>("layer_float_half_split_in_one", qwen, {11, 1, 0, true, 64}),
      rotated<float, HalfSplit>("layer_float_half_split_in_chunks", qwen, {11, 1, 1, true, 64}),
      rotated<float, HalfSplit>("layer_float_partial_rotary_batch", wide, {7, 3, 2, false, 24}),
      rotated<float, HalfSplit>("layer_float_half_split_across_a_block", plain, {270, 1, 90, false, 16}),
      rotated<double, Interleaved>("layer_double_interleaved", uneven, {19, 1, 3, true, 6}),
      rotated<half, Interleaved>("layer_half_interleaved_batch", plain, {21, 2, 5, true, 8}),
      rotated<bfloat16, HalfSplit>("layer_bfloat16_half_split_dropped", uneven, {23, 2, 4, true, 6}, dropout),
  };
}

}  // namespace golden
