// Soft-capped logits in vectors. Included once for each instruction set; see soft_cap.hpp.

/// -|tanh x| from x <= 0 (NaN stays): the same steps as lockstep::tanh(), with every sign turned so that no negation is
/// needed.
template <class C>
[[gnu::always_inline]] inline typename Simd<C>::Reg minus_tanh(typename Simd<C>::Reg x) noexcept {
  using K = TanhConstants<C>;
  using V = Simd<C>;
  const auto minus_twice = V::mul(V::broadcast(2), V::larger(x, V::broadcast(-K::saturation)));
  const auto n = V::round(V::mul(minus_twice, V::broadcast(ExpConstants<C>::log2e)));
  const auto r = V::fma(n, V::broadcast(-K::ln2), minus_twice);
  auto g = V::broadcast(K::coefficient[K::degree]);
  unroll<K::degree>([&](auto i) __attribute__((always_inline)) {
    g = V::fma(g, r, V::broadcast(K::coefficient[K::degree - 1 - i]));
  });
  const auto rise = V::fma(V::mul(r, r), g, r);
  const auto power = V::scale_by_power(V::broadcast(1), n);
  const auto m = V::fma(rise, power, V::sub(power, V::broadcast(1)));
  return V::div(m, V::add(V::broadcast(2), m));
}

/// s = fl(cap tanh(fl(s / cap))) for n logits: rule 2. Bound by the two divisions; the first one as a product with the
/// reciprocal, corrected to the rounded quotient, was no faster.
template <class C>
[[gnu::noinline]] void soft_cap(Set, C* s, Index n, C cap) noexcept {
  const VectorScope scope;
  using V = Simd<C>;
  const auto c = V::broadcast(cap);
  const auto capped = [&](const C* from) __attribute__((always_inline)) {
    const auto x = V::div(V::load(from), c);
    return V::mul(c, V::with_sign_of(minus_tanh<C>(V::with_sign_of(x, V::broadcast(-1))), x));
  };
  Index i = 0;
  for (; i + V::width <= n; i += V::width) V::store(s + i, capped(s + i));
  if (i == n) return;
  C rest[V::width] = {};
  for (Index k = i; k < n; ++k) rest[k - i] = s[k];
  V::store(rest, capped(rest));
  for (Index k = i; k < n; ++k) s[k] = rest[k - i];
}
