// The invariant product of rows and packed weights. Included once for each instruction set; see packed.hpp.

/// y of R rows and one 64-wide panel: chains of 256 over the inner index, added in order, then the bias. x has unit column stride.
template <class C, class S, int R>
[[gnu::noinline]] void project_panel(const C* x, Index x_stride, Index in, const S* weights, Index block_stride, const C* bias, C* y) noexcept {
  constexpr int lines = static_cast<int>(Simd<C>::lines);
  constexpr Index panel = PackedWeights<S>::panel, pair = PackedWeights<S>::pair;
  for (Index line = 0; line < panel / lanes; line += lines) {
    RegisterTile<C, R, lines> total;
    const auto rows_and_vectors = [&](auto f) __attribute__((always_inline)) {
      unroll<R>([&](auto r) __attribute__((always_inline)) { unroll<total.vectors>([&](auto v) __attribute__((always_inline)) { f(r, v, y + r * panel + line * lanes + v * Simd<C>::width); }); });
    };
    for (Index first = 0; first < in || first == 0; first += projection_block) {
      total.clear();
      const Index steps = in - first < projection_block ? in - first : projection_block;
      reduce<panel>(total, x + first, x_stride, weights + (first / projection_block) * block_stride + line * lanes * pair, lanes * pair, 0, steps, [] {});
      if (first == 0)
        rows_and_vectors([&](auto r, auto v, C* at) __attribute__((always_inline)) { Simd<C>::store(at, total.sum[r][v]); });
      else
        rows_and_vectors([&](auto r, auto v, C* at) __attribute__((always_inline)) { Simd<C>::store(at, Simd<C>::add(Simd<C>::load(at), total.sum[r][v])); });
    }
    rows_and_vectors([&](auto, auto v, C* at) __attribute__((always_inline)) {
      Simd<C>::store(at, Simd<C>::add(Simd<C>::load(at), Simd<C>::load(bias + line * lanes + v * Simd<C>::width)));
    });
  }
}

/// One panel for all rows of a task; `out` writes row r's 64 numbers.
template <class C, class S, class Write>
inline void project_rows(const C* x, Index x_stride, Index rows, const PackedWeights<S>& weights, Index p, const Write& write) noexcept {
  alignas(64) C y[Simd<C>::rows * PackedWeights<S>::panel];
  for (Index r = 0, height = 0; r < rows; r += height) {
    height = with_filled_tile<C>(rows - r, [&]<int R>() __attribute__((always_inline)) {
      project_panel<C, S, R>(x + r * x_stride, x_stride, weights.in(), weights.panel_data(p), weights.block_stride(), weights.bias_data(p), y);
    });
    for (Index i = 0; i < height; ++i) write(r + i, y + i * PackedWeights<S>::panel);
  }
}
