// The invariant product in plain loops. Included once for each way of getting a fused multiply-add; see packed.hpp.

/// y[0 .. panel) of one row: chains of 256 over the inner index from +0, added in order, then the bias.
template <class C, class T, class S, class Out>
[[gnu::noinline]] inline void project_panel(View<const T, 1> x, const S* weights, Index block_stride, const C* bias, View<Out, 1> y) noexcept {
  constexpr Index panel = PackedWeights<S>::panel;
  C total[panel];
  for (Index first = 0; first < x.extent[0] || first == 0; first += projection_block) {
    const Index steps = x.extent[0] - first < projection_block ? x.extent[0] - first : projection_block;
    const S* w = weights + (first / projection_block) * block_stride;
    C sum[panel] = {};
    for (Index k = 0; k < steps; ++k) {
      const C factor = widen(x(first + k));
      for (Index n = 0; n < panel; ++n) sum[n] = fma(factor, widen(w[k * panel + n]), sum[n]);
    }
    for (Index n = 0; n < panel; ++n) total[n] = first == 0 ? sum[n] : rounded(total[n] + sum[n]);
  }
  for (Index n = 0; n < y.extent[0]; ++n) y(n) = narrow<Out>(rounded(total[n] + bias[n]));
}
