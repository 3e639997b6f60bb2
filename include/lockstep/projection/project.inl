// The invariant product of rows and packed weights. Included once for each instruction set; see packed.hpp.

/// y of R rows and P panels of 64, panel_stride apart in memory: chains of 256 over the inner index, added in order, then the bias.
/// x has unit column stride; panel p of row r goes to y[(p R + r) 64].
template <class C, class S, int R, int P>
[[gnu::noinline]] void project_panels(const C* x, Index x_stride, Index in, const S* weights, Index block_stride, Index panel_stride, const C* bias, Index bias_stride,
                                      C* y) noexcept {
  // Several panels of one row: as many streams from memory at once; one panel: as many lines as the register tile has.
  constexpr int group = static_cast<int>(Simd<C>::lines), lines = group * P;
  constexpr Index panel = PackedWeights<S>::panel, pair = PackedWeights<S>::pair;
  using V = Simd<C>;
  for (Index line = 0; line < panel / lanes; line += group) {
    RegisterTile<C, R, lines> total;
    const auto for_each_sum = [&](auto f) __attribute__((always_inline)) {
      unroll<R>([&](auto r) __attribute__((always_inline)) {
        unroll<total.vectors>([&](auto v) __attribute__((always_inline)) {
          constexpr int p = v / (group * per_line<C>), column = v % (group * per_line<C>) * static_cast<int>(V::width);
          f(y + (p * R + r) * panel + line * lanes + column, total.sum[r][v], bias + p * bias_stride + line * lanes + column);
        });
      });
    };
    for (Index first = 0; first < in || first == 0; first += projection_block) {
      total.clear();
      const Index steps = in - first < projection_block ? in - first : projection_block;
      reduce(total, x + first, x_stride, weights + (first / projection_block) * block_stride + line * lanes * pair,
             LinePlaces<group, panel>{lanes * pair, panel_stride}, 0, steps, [](Index) {});
      if (first == 0)
        for_each_sum([](C* at, auto sum, const C*) __attribute__((always_inline)) { V::store(at, sum); });
      else
        for_each_sum([](C* at, auto sum, const C*) __attribute__((always_inline)) { V::store(at, V::add(V::load(at), sum)); });
    }
    for_each_sum([](C* at, auto, const C* b) __attribute__((always_inline)) { V::store(at, V::add(V::load(at), V::load(b))); });
  }
}

/// One panel for all rows of a task; write(r, p, numbers) takes row r's 64 numbers of panel p.
template <class C, class S, class Write>
inline void project_rows(const C* x, Index x_stride, Index rows, const PackedWeights<S>& weights, Index p, const Write& write) noexcept {
  constexpr Index panel = PackedWeights<S>::panel;
  alignas(64) C y[Simd<C>::rows * panel];
  for (Index r = 0, height = 0; r < rows; r += height) {
    height = with_filled_tile<C>(rows - r, [&]<int R>() __attribute__((always_inline)) {
      project_panels<C, S, R, 1>(x + r * x_stride, x_stride, weights.in(), weights.panel_data(p), weights.block_stride(), 0, weights.bias_data(p), 0, y);
    });
    for (Index i = 0; i < height; ++i) write(r + i, p, y + i * panel);
  }
}

/// One row and the panels p, p + quarter, p + 2 quarter, p + 3 quarter, or the last one instead of what lies beyond it.
template <class C, class S, class Write>
inline void project_row(const C* x, const PackedWeights<S>& weights, Index p, Index quarter, Index panels, const Write& write) noexcept {
  constexpr Index panel = PackedWeights<S>::panel;
  alignas(64) C y[4 * panel];
  if (p + 3 * quarter < panels) {
    project_panels<C, S, 1, 4>(x, 0, weights.in(), weights.panel_data(p), weights.block_stride(), quarter * projection_block * panel, weights.bias_data(p), quarter * panel, y);
    for (Index i = 0; i < 4; ++i) write(0, p + i * quarter, y + i * panel);
    return;
  }
  for (Index i = 0; i < 4 && p + i * quarter < panels; ++i) project_rows<C>(x, 0, 1, weights, p + i * quarter, write);
}
