// Golden bits of attend(): types, groups, head sizes, masks, dropout, block and split borders, numbers that are none.
#include <limits>
#include <lockstep/kernel/tiled.hpp>

#include "cases.hpp"
#include "kernel_instances.hpp"

namespace golden {

namespace {

using namespace bits;

/// The last query stands at the last key.
constexpr Index last_key = std::numeric_limits<Index>::min();

struct Sizes {
  Index q_len = 1, kv_len = 1, heads = 1, kv_heads = 1, head_dim = 1, v_head_dim = 0;
  double size = 1;          // of queries and keys
  Index offset = last_key;  // place of the first query
  bool wild = false;        // infinities and NaN among keys and values
};

/// Context, log-sum-exp and weights of one call. `add` sets further options.
template <class K, class S, class... Policies, class Add>
std::uint64_t run(const Sizes& s, Add add) {
  using C = ls::compute_t<S>;
  using N = ls::cache_value_t<S>;
  const Index v_head_dim = s.v_head_dim == 0 ? s.head_dim : s.v_head_dim;
  const auto q = numbers<C>(s.q_len * s.heads * s.head_dim, 1, s.size);
  auto k = numbers<N>(s.kv_heads * s.kv_len * s.head_dim, 2, s.size);
  auto v = numbers<N>(s.kv_heads * s.kv_len * v_head_dim, 3, 2);
  if (s.wild) {
    using Limits = std::numeric_limits<C>;
    k[at(s.head_dim * (s.kv_len / 3))] = ls::narrow<N>(Limits::infinity());
    k[at(s.head_dim * (s.kv_len / 2) + s.head_dim / 2)] = ls::narrow<N>(-Limits::infinity());
    v[at(v_head_dim * (s.kv_len * 2 / 3))] = ls::narrow<N>(Limits::infinity());
    v[at(v_head_dim * (s.kv_len * 3 / 4))] = ls::narrow<N>(Limits::quiet_NaN());
  }
  ls::ContiguousCache<S> cache({s.kv_heads, s.head_dim, v_head_dim}, s.kv_len + 3);
  if constexpr (ls::is_quantised<S>)
    poison(cache, S{-128});
  else
    poison(cache, ls::narrow<S>(std::numeric_limits<C>::quiet_NaN()));
  cache.import(ls::View<const N, 3>::contiguous(k.data(), {s.kv_heads, s.kv_len, s.head_dim}),
               ls::View<const N, 3>::contiguous(v.data(), {s.kv_heads, s.kv_len, v_head_dim}));

  std::vector<C> context(at(s.q_len * s.heads * v_head_dim)), lse(at(s.heads * s.q_len)),
      weights(at(s.heads * s.q_len * s.kv_len));
  ls::AttendOptions<C, K, Policies...> options{
      .weights = ls::View<C, 4>::contiguous(weights.data(), {1, s.heads, s.q_len, s.kv_len}),
      .lse = ls::View<C, 3>::contiguous(lse.data(), {1, s.heads, s.q_len})};
  if (s.offset != last_key) options.offset = s.offset;
  add(options);
  ls::attend<K, Policies...>(ls::View<const C, 3>::contiguous(q.data(), {s.q_len, s.heads, s.head_dim}), cache,
                             ls::View<C, 3>::contiguous(context.data(), {s.q_len, s.heads, v_head_dim}), options);
  Hash hash;
  hash.add(context);
  hash.add(lse);
  hash.add(weights);
  return hash.value();
}

template <class S, class... Policies, class Add>
Case of(const char* name, const Sizes& sizes, Add add) {
  const auto hash = [=](Kernel kernel) {
    if constexpr (std::is_same_v<S, float>)
      if (kernel == Kernel::materialized) return run<ls::Materialized, S, Policies...>(sizes, add);
    if (kernel == Kernel::tiled) return run<ls::Tiled, S, Policies...>(sizes, add);
    return run<ls::Specification, S, Policies...>(sizes, add);
  };
  std::vector<Kernel> kernels{Kernel::specification, Kernel::tiled};
  if (std::is_same_v<S, float>) kernels.push_back(Kernel::materialized);
  return {name, kernels, hash};
}

template <class S>
Case causal(const char* name, const Sizes& sizes) {
  return of<S>(name, sizes, [](auto&) {});
}
Case unmasked(const char* name, const Sizes& sizes) {
  return of<float, ls::NoMask>(name, sizes, [](auto&) {});
}
/// Some rows see nothing, others every key.
Case offset_causal(const char* name, const Sizes& sizes) {
  return of<float, ls::OffsetCausal>(name, sizes, [](auto& options) { options.mask = ls::OffsetCausal(-4); });
}
/// A whole block of padding, then single keys of it.
template <class S>
Case padded(const char* name, const Sizes& sizes) {
  static const std::array<bool, 600> flags = [] {
    std::array<bool, 600> result{};
    for (std::size_t j = 280; j < result.size(); ++j) result[j] = j % 5 != 2;
    return result;
  }();
  return of<S, ls::And<ls::Causal, ls::KeyPadding>>(name, sizes, [](auto& options) {
    options.mask = ls::Causal{} & ls::KeyPadding(ls::View<const bool, 2>::contiguous(flags.data(), {1, 600}));
  });
}
constexpr std::uint32_t stream[] = {9};
Case dropped(const char* name, const Sizes& sizes) {
  return of<float, ls::Dropout>(name, sizes, [](auto& options) {
    options.dropout = {.probability = 0.3, .seed = 77};
    options.mode = ls::Mode::training;
    options.dropout_streams = stream;
  });
}

using Eigen::bfloat16;
using Eigen::half;

}  // namespace

std::vector<Case> attend_cases() {
  return {
      causal<float>("attend_float_g1_d64", {33, 33, 2, 2, 64}),
      causal<float>("attend_float_g1_d16_beyond_a_row_block", {100, 103, 1, 1, 16}),
      causal<float>("attend_float_g2_d96_v80", {5, 261, 2, 1, 96, 80}),
      causal<float>("attend_float_g7_d64", {2, 257, 14, 2, 64}),
      causal<float>("attend_float_g8_d128_decode", {1, 1030, 8, 1, 128}),
      causal<float>("attend_float_g2_d16_three_splits", {2, 2100, 2, 1, 16}),
      causal<float>("attend_float_mqa_d3", {20, 40, 7, 1, 3}),
      causal<float>("attend_float_d1", {17, 17, 1, 1, 1}),
      unmasked("attend_float_d80_unmasked", {13, 47, 2, 1, 80}),
      offset_causal("attend_float_d16_offset_below_zero", {12, 20, 2, 2, 16}),
      padded<float>("attend_float_d24_v40_padded", {19, 540, 3, 1, 24, 40}),
      dropped("attend_float_d32_dropped", {18, 280, 2, 1, 32}),
      causal<float>("attend_float_d64_large_logits", {9, 300, 2, 1, 64, 0, 8}),
      causal<float>("attend_float_d8_not_finite", {40, 40, 2, 1, 8, 0, 1, last_key, true}),
      causal<float>("attend_float_d8_few_keys", {6, 9, 2, 1, 8, 0, 1, -2}),
      causal<double>("attend_double_g1_d64", {20, 37, 2, 2, 64}),
      causal<double>("attend_double_g8_d128_decode", {1, 1030, 8, 1, 128}),
      causal<double>("attend_double_mqa_d3", {20, 40, 7, 1, 3}),
      causal<double>("attend_double_g2_d24_v40", {19, 290, 2, 1, 24, 40}),
      causal<double>("attend_double_d64_large_logits", {9, 300, 2, 1, 64, 0, 32}),
      causal<half>("attend_half_g7_d64", {2, 257, 7, 1, 64}),
      causal<half>("attend_half_g2_d3", {20, 40, 2, 1, 3}),
      padded<half>("attend_half_d80_v96_padded", {3, 330, 2, 1, 80, 96}),
      causal<bfloat16>("attend_bfloat16_g8_d128_decode", {1, 1030, 8, 1, 128}),
      causal<bfloat16>("attend_bfloat16_g1_d64", {33, 33, 1, 1, 64}),
      causal<bfloat16>("attend_bfloat16_g2_d7", {18, 280, 2, 1, 7}),
      causal<std::int8_t>("attend_int8_g8_d128_decode", {1, 1030, 8, 1, 128}),
      causal<std::int8_t>("attend_int8_g2_d7_v18", {18, 280, 2, 1, 7, 18}),
      padded<std::int8_t>("attend_int8_d24_v40_padded", {19, 540, 3, 1, 24, 40}),
  };
}

}  // namespace golden
