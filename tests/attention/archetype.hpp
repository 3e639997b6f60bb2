// What the tests of users' policies share: a layer must be right, and give the same bits in one pass, in chunks and
// without a cache.
#pragma once

#include "fixture.hpp"

namespace fixture::archetype {

inline constexpr Index hidden = 12, tokens = 280;
inline constexpr double tolerance = 8 * 0x1p-24 * static_cast<double>(hidden + 8 + tokens);

template <class Case>
class WithArchetype : public ::testing::Test {
 protected:
  template <class... Policies>
  using LayerOf = ls::Attention<float, ls::Dynamic, ls::Dynamic, typename Case::Kernel, Policies...>;
  static constexpr Shape shape{.hidden = hidden, .heads = 4, .kv_heads = 2, .head_dim = 8};
  std::vector<float> x = numbers<float>(tokens * hidden, 151);

  /// The reference with its own masks, logits and heads; as many tokens as x has.
  static reference::Values expected(const Shape& s, const reference::Problem& problem, const std::vector<float>& x) {
    const auto w = Weights<float>(s).reference();
    const auto in = reference::widen(x);
    const auto q = reference::project(in, w.query, w.query_bias, hidden, s.heads * s.head_dim),
               k = reference::project(in, w.key, w.key_bias, hidden, s.kv_heads * s.head_dim),
               v = reference::project(in, w.value, w.value_bias, hidden, s.kv_heads * s.head_dim);
    return reference::project(reference::attend(problem, q, k, v).context, w.output, w.output_bias,
                              s.heads * s.head_dim, hidden);
  }
  static reference::Problem problem(const Shape& s) {
    reference::Problem p{s.heads, s.kv_heads, s.head_dim, s.head_dim, tokens, tokens};
    p.visible = reference::causal();
    return p;
  }
  /// Correct, and the same bits in one pass, in chunks and without a cache.
  template <class Layer>
  void expect_right(const Layer& layer, const reference::Values& y) const {
    const auto one_pass = run(layer, x, {tokens});
    EXPECT_LE(largest_difference(y, one_pass.y), tolerance);
    expect_same_outputs(layer, one_pass, full(layer, x));
    for (const auto& plan : {steps(tokens, 1), random_plan(tokens, 12)})
      expect_same_outcome(layer, one_pass, run(layer, x, plan));
  }
};

}  // namespace fixture::archetype
