// Products of register tiles: some rows times some 16-lane lines, one fma chain a number. Included once for each
// instruction set.

/// Calls f(0), f(1), ... f(N - 1) with compile-time numbers, so that arrays of registers stay registers at every
/// optimisation level that inlines.
template <int N, class F>
[[gnu::always_inline]] inline void unroll(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>{}), ...);
  }(std::make_integer_sequence<int, N>{});
}

/// Vectors of one line of 16 lanes.
template <class C>
inline constexpr int per_line = static_cast<int>(lanes / Simd<C>::width);

/// Sums of R rows by N lines.
template <class C, int R, int N>
struct RegisterTile {
  using Reg = typename Simd<C>::Reg;
  static constexpr std::size_t vectors = static_cast<std::size_t>(N) * per_line<C>;
  Reg sum[static_cast<std::size_t>(R)][vectors];

  [[gnu::always_inline]] inline void clear() noexcept {
    unroll<R>([&](auto r) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) { sum[r][v] = Simd<C>::zero(); });
    });
  }
  [[gnu::always_inline]] inline void step(const C* a, Index a_stride, const Reg (&b)[vectors]) noexcept {
    unroll<R>([&](auto r) __attribute__((always_inline)) { step_row<r>(a[r * a_stride], b); });
  }
  template <int Row>
  [[gnu::always_inline]] inline void step_row(C a, const Reg (&b)[vectors]) noexcept {
    const Reg factor = Simd<C>::broadcast(a);
    unroll<vectors>([&](auto v)
                        __attribute__((always_inline)) { sum[Row][v] = Simd<C>::fma(factor, b[v], sum[Row][v]); });
  }
};

/// Where lines of 16 lanes lie in memory: line l at (l / Group) group_stride + (l % Group) line_stride, steps Step
/// elements apart.
template <int Group, Index Step>
struct LinePlaces {
  Index line_stride;
  Index group_stride = 0;
  static constexpr Index step = Step;
  [[gnu::always_inline]] inline Index operator()(int line) const noexcept {
    return (line / Group) * group_stride + (line % Group) * line_stride;
  }
};

/// The numbers that step k multiplies: N lines. 16-bit storage has two steps in one line of pairs.
template <class C, class S, int N>
struct Lines {
  using Reg = typename Simd<C>::Reg;
  static constexpr std::size_t vectors = static_cast<std::size_t>(N) * per_line<C>;
  static constexpr bool paired = sizeof(S) == 2;

  template <class Places>
  [[gnu::always_inline]] static inline void load(const S* b, Places places, Index k, Reg (&line)[vectors]) noexcept {
    if constexpr (paired) {
      Reg other[vectors];
      if (k % 2 == 0)
        load_pair(b, places, k, line, other);
      else
        load_pair(b, places, k - 1, other, line);
    } else {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        line[v] = Simd<C>::load(b + places(v / per_line<C>) + k * Places::step + (v % per_line<C>)*Simd<C>::width);
      });
    }
  }
  template <class Places>
  [[gnu::always_inline]] static inline void load_pair(const S* b, Places places, Index even, Reg (&first)[vectors],
                                                      Reg (&second)[vectors]) noexcept {
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      Simd<C>::load_pair(b + places(v / per_line<C>) + even * Places::step + (v % per_line<C>)*2 * Simd<C>::width,
                         first[v], second[v]);
    });
  }
};

/// tile[r][line] = fma chain over k in [first, last) of a[r a_stride + k] b[line][k], going on from what the tile
/// holds. Calls each_load(k) beside every load of lines.
template <class S, class C, int R, int N, class Places, class EachLoad>
[[gnu::always_inline]] inline void reduce(RegisterTile<C, R, N>& tile, const C* a, Index a_stride, const S* b,
                                          Places places, Index first, Index last, EachLoad&& each_load) noexcept {
  using Line = Lines<C, S, N>;
  using Reg = typename Simd<C>::Reg;
  Index k = first;
  if constexpr (Line::paired) {
    if (k < last && k % 2 != 0) {
      Reg line[Line::vectors];
      Line::load(b, places, k, line);
      tile.step(a + k, a_stride, line);
      ++k;
    }
    for (; k + 2 <= last; k += 2) {
      Reg even[Line::vectors], odd[Line::vectors];
      Line::load_pair(b, places, k, even, odd);
      each_load(k);
      tile.step(a + k, a_stride, even);
      tile.step(a + k + 1, a_stride, odd);
    }
  }
  for (; k < last; ++k) {
    Reg line[Line::vectors];
    Line::load(b, places, k, line);
    each_load(k);
    tile.step(a + k, a_stride, line);
  }
}

/// f.template operator()<R>() with the tallest register tile that `rows` fill: the one that fills the registers, then
/// 4, 2, 1.
template <class C, class F>
[[gnu::always_inline]] inline Index with_filled_tile(Index rows, F&& f) {
  constexpr int tallest = static_cast<int>(Simd<C>::rows);
  if (rows >= tallest) return f.template operator()<tallest>(), tallest;
  if constexpr (tallest > 4)
    if (rows >= 4) return f.template operator()<4>(), 4;
  if constexpr (tallest > 2)
    if (rows >= 2) return f.template operator()<2>(), 2;
  return f.template operator()<1>(), 1;
}

/// Memory that will be read next: `runs` pieces of run_bytes, run_stride apart. Lines of it are requested while other
/// work runs, of four pieces at once, since one core reads four streams faster than one: decode rose from 0.76 to 0.95
/// of the read bandwidth with 4 heads a group, from 0.69 to 0.91 with 8, from 0.80 to 0.95 with one (Emerald Rapids;
/// eight streams gave no more).
struct Ahead {
  static constexpr int streams = 4;
  static constexpr Index line = 64;

  const char* start = nullptr;  // of the runs at work
  const char* at = nullptr;
  Index run_bytes = 0;
  Index run_stride = 0;
  Index runs_left = 0;
  Index apart[streams] = {};  // from `at` to each stream's next line; of streams that are not there, `at` once more

  Ahead() noexcept = default;
  Ahead(const void* base, Index bytes, Index stride, Index runs) noexcept
      : start(static_cast<const char*>(base)), run_bytes(bytes), run_stride(stride), runs_left(runs) {
    begin();
  }
  void begin() noexcept {
    at = start;
    for (Index i = 0; i < streams; ++i) apart[i] = i < runs_left ? i * run_stride : 0;
  }

  /// Requests the next line of each stream, beside one load of `turn`, a power of two; loads are numbered.
  [[gnu::always_inline]] inline void request(Index load, Index turn) noexcept {
    if ((load & (turn - 1)) != 0 || runs_left <= 0) return;
    unroll<streams>([&](auto i) __attribute__((always_inline)) { __builtin_prefetch(at + apart[i], 0, 2); });
    at += line;
    if (at - start < run_bytes) return;
    if ((runs_left -= streams) <= 0) return;
    start += streams * run_stride;
    begin();
  }
};

/// Asks for the lines of a later step, so that they come from the second-level cache into the first in time. Prefill
/// with full register tiles on Emerald Rapids: no more than 2 % where the core is alone, up to 6 % where its neighbours
/// are busy; 16 steps gave as much.
template <int N, class S, class Places>
[[gnu::always_inline]] inline void fetch_lines(const S* b, Places places, Index k) noexcept {
  constexpr Index steps_ahead = 8;
  unroll<N>([&](auto l) __attribute__((always_inline)) {
    __builtin_prefetch(b + places(l) + (k + steps_ahead) * Places::step, 0, 3);
  });
}

/// E(x) on N vectors at once, with the steps of exp_nonpositive(): each step on all of them, so that none waits for the
/// one before it.
template <class C, std::size_t N>
[[gnu::always_inline]] inline void exp_nonpositive(typename Simd<C>::Reg (&x)[N]) noexcept {
  using K = ExpConstants<C>;
  using V = Simd<C>;
  const auto each = [](auto&& f) __attribute__((always_inline)) { unroll<static_cast<int>(N)>(f); };
  const auto log2e = V::broadcast(K::log2e);
  typename V::Reg n[N], p[N];
  each([&](auto v) __attribute__((always_inline)) { n[v] = V::mul(x[v], log2e); });
  each([&](auto v) __attribute__((always_inline)) { n[v] = V::round(n[v]); });
  each([&](auto v) __attribute__((always_inline)) { x[v] = V::fms(x[v], log2e, n[v]); });
  each([&](auto v) __attribute__((always_inline)) { p[v] = V::broadcast(K::coefficient[K::degree]); });
  unroll<K::degree>([&](auto i) __attribute__((always_inline)) {
    const auto c = V::broadcast(K::coefficient[K::degree - 1 - i]);
    each([&](auto v) __attribute__((always_inline)) { p[v] = V::fma(p[v], x[v], c); });
  });
  each([&](auto v) __attribute__((always_inline)) { x[v] = V::scale_by_power(p[v], n[v]); });
}
