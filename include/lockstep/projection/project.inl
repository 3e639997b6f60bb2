// The invariant product of rows and packed weights. Included once for each instruction set; see packed.hpp.

/// One chunk of at most 256 of the inner index for R rows and P panels of 64, panel_stride apart in memory: y = chain,
/// or y = y + chain where it is not the first. x has unit column stride; panel p of row r is y[(p R + r) 64]. Requests
/// `ahead` meanwhile, beside one load of `turn`.
template <class C, class S, int R, int P>
[[gnu::noinline]] void project_chunk(const C* x, Index x_stride, Index steps, const S* weights, Index panel_stride,
                                     bool first, C* y, Ahead& ahead, Index turn) noexcept {
  // Several panels of one row: as many streams from memory at once; one panel: as many lines as the register tile has.
  constexpr int group = static_cast<int>(Simd<C>::lines), lines = group * P;
  constexpr Index panel = PackedWeights<S>::panel, pair = PackedWeights<S>::pair;
  using V = Simd<C>;
  for (Index line = 0; line < panel / lanes; line += group) {
    RegisterTile<C, R, lines> chain;
    chain.clear();
    reduce(chain, x, x_stride, weights + line * lanes * pair, LinePlaces<group, panel>{lanes * pair, panel_stride}, 0,
           steps, [&](Index k) __attribute__((always_inline)) {
             if constexpr (P == 1) ahead.request(k / pair, turn);
           });
    unroll<R>([&](auto r) __attribute__((always_inline)) {
      unroll<chain.vectors>([&](auto v) __attribute__((always_inline)) {
        constexpr int p = v / (group * per_line<C>), column = v % (group * per_line<C>)*static_cast<int>(V::width);
        C* at = y + (p * R + r) * panel + line * lanes + column;
        V::store(at, first ? chain.sum[r][v] : V::add(V::load(at), chain.sum[r][v]));
      });
    });
  }
}

/// The products of rows and one chunk of a panel, or of one row and four panels. Defined outside of the class, so that
/// a program of many translation units may instantiate them in one of them.
template <class C, class S>
struct PanelProducts {
  static void rows(const C* x, Index x_stride, Index rows, Index steps, const S* weights, bool first, C* y,
                   Ahead ahead) noexcept;
  static void row(const C* x, Index steps, const S* weights, Index panel_stride, bool first, C* y) noexcept;
};

template <class C, class S>
void PanelProducts<C, S>::rows(const C* x, Index x_stride, Index rows, Index steps, const S* weights, bool first, C* y,
                               Ahead ahead) noexcept {
  // Beside every load, requests would cost full tiles a fifth of their time (Skylake server): as rarely as brings the
  // next chunk within these rows.
  constexpr Index passes = PackedWeights<S>::panel / (lanes * Simd<C>::lines),
                  chunk = projection_block * PackedWeights<S>::panel * static_cast<Index>(sizeof(S));
  const Index loads = rows / Simd<C>::rows * passes * steps / PackedWeights<S>::pair;
  Index turn = 1;
  while (turn < 8 && 2 * turn * chunk <= loads * Ahead::streams * Ahead::line) turn *= 2;
  for (Index r = 0; r < rows;)
    r += with_filled_tile<C>(rows - r, [&]<int R>() __attribute__((always_inline)) {
      project_chunk<C, S, R, 1>(x + r * x_stride, x_stride, steps, weights, 0, first, y + r * PackedWeights<S>::panel,
                                ahead, turn);
    });
}
template <class C, class S>
void PanelProducts<C, S>::row(const C* x, Index steps, const S* weights, Index panel_stride, bool first,
                              C* y) noexcept {
  Ahead none;
  if constexpr (Simd<C>::rows > 1)
    project_chunk<C, S, 1, 4>(x, 0, steps, weights, panel_stride, first, y, none, 1);
  else  // no registers for four panels at once
    for (Index i = 0; i < 4; ++i)
      project_chunk<C, S, 1, 1>(x, 0, steps, weights + i * panel_stride, 0, first, y + i * PackedWeights<S>::panel,
                                none, 1);
}

/// y + bias, of one row and panel.
template <class C>
inline void add_bias(const C* bias, C* y) noexcept {
  for (Index n = 0; n < PackedWeights<C>::panel; n += Simd<C>::width)
    Simd<C>::store(y + n, Simd<C>::add(Simd<C>::load(y + n), Simd<C>::load(bias + n)));
}

/// One panel for all rows of a task; write(r, p, numbers) takes row r's 64 numbers of panel p. A chunk of the panel
/// serves all rows while the next one is requested from memory, which in four streams made 8 rows run at 0.75 instead
/// of 0.62 of the read bandwidth, 4 rows at 0.91 instead of 0.76 (Emerald Rapids). y: scratch [rows, 64].
template <class C, class S, class Write>
inline void project_rows(Set, const C* x, Index x_stride, Index rows, const PackedWeights<S>& weights, Index p, C* y,
                         const Write& write) noexcept {
  const VectorScope scope;
  constexpr Index panel = PackedWeights<S>::panel,
                  quarter = projection_block * panel * static_cast<Index>(sizeof(S)) / Ahead::streams;
  const Index in = weights.in(), chunks = in == 0 ? 1 : ceil_div(in, projection_block);
  for (Index chunk = 0; chunk < chunks; ++chunk) {
    const Index first = chunk * projection_block, steps = in - first < projection_block ? in - first : projection_block;
    const S* next =
        chunk + 1 < chunks ? weights.panel_data(p) + (chunk + 1) * weights.block_stride() : weights.panel_data(p + 1);
    const Ahead ahead =
        chunk + 1 < chunks || (p + 1) * panel < weights.out() ? Ahead(next, quarter, quarter, Ahead::streams) : Ahead();
    PanelProducts<C, S>::rows(x + first, x_stride, rows, steps, weights.panel_data(p) + chunk * weights.block_stride(),
                              chunk == 0, y, ahead);
  }
  for (Index r = 0; r < rows; ++r) {
    add_bias(weights.bias_data(p), y + r * panel);
    write(r, p, y + r * panel);
  }
}

/// One row and the panels p, p + apart, p + 2 apart, p + 3 apart, of which those from `own` on are written. y: scratch
/// [4, 64].
template <class C, class S, class Write>
inline void project_row(Set, const C* x, const PackedWeights<S>& weights, Index p, Index apart, Index own, C* y,
                        const Write& write) noexcept {
  const VectorScope scope;
  constexpr Index panel = PackedWeights<S>::panel;
  const Index in = weights.in(), chunks = in == 0 ? 1 : ceil_div(in, projection_block);
  for (Index chunk = 0; chunk < chunks; ++chunk) {
    const Index first = chunk * projection_block, steps = in - first < projection_block ? in - first : projection_block;
    PanelProducts<C, S>::row(x + first, steps, weights.panel_data(p) + chunk * weights.block_stride(),
                             apart * projection_block * panel, chunk == 0, y);
  }
  for (Index i = 0; i < 4; ++i) {
    if (p + i * apart < own) continue;
    add_bias(weights.bias_data(p + i * apart), y + i * panel);
    write(0, p + i * apart, y + i * panel);
  }
}
