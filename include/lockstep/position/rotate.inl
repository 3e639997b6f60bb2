// The rotation of one head row. Included once for each instruction set; see rotate.hpp.

/// Pairs (a, b) of one row: a' = fma(a, cos, -fl(b sin)), b' = fma(a, sin, fl(b cos)): rule 1.
/// A NaN comes out as the one that results hold: which of two operands' NaNs an instruction takes is its own matter.
template <class Style, class C>
[[gnu::noinline]] void rotate_row(Set, C* row, const C* cos, const C* sin, Index pairs, Index pair_dim) noexcept {
  const VectorScope scope;
  using V = Simd<C>;
  Index i = 0;
  if constexpr (Style::adjacent == false)
    for (; i + V::width <= pairs; i += V::width) {
      C* const other = row + Style::second(0, pair_dim);
      const auto a = V::load(row + i), b = V::load(other + i), c = V::load(cos + i), s = V::load(sin + i);
      V::store(row + i, V::canonical(V::fms(a, c, V::mul(b, s))));
      V::store(other + i, V::canonical(V::fma(a, s, V::mul(b, c))));
    }
  for (; i < pairs; ++i) {
    C& a = row[Style::first(i, pair_dim)];
    C& b = row[Style::second(i, pair_dim)];
    const C turned = canonical(lockstep::fma(a, cos[i], -rounded(b * sin[i])));
    b = canonical(lockstep::fma(a, sin[i], rounded(b * cos[i])));
    a = turned;
  }
}
