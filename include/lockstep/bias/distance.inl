// Biases of a row in vectors. Included once for each instruction set; see distance.hpp.

/// s[i] = fma(slope, first + i, s[i]) for n logits; first and first + n are whole numbers below 2^24.
template <class C>
[[gnu::noinline]] void add_slope(Set, C* s, Index n, C slope, C first) noexcept {
  const VectorScope scope;
  using V = Simd<C>;
  C steps[V::width];
  for (Index i = 0; i < V::width; ++i) steps[i] = first + static_cast<C>(i);
  auto distance = V::load(steps);
  const auto step = V::broadcast(static_cast<C>(V::width)), factor = V::broadcast(slope);
  Index i = 0;
  for (; i + V::width <= n; i += V::width) {
    V::store(s + i, V::fma(factor, distance, V::load(s + i)));
    distance = V::add(distance, step);  // exact
  }
  for (C d = first + static_cast<C>(i); i < n; ++i, d += 1) s[i] = lockstep::fma(slope, d, s[i]);
}

/// s[i] = fl(s[i] + bias[i Step]) for n logits; Step is 1, or 0 where they have one bias in common.
template <Index Step, class C>
[[gnu::noinline]] void add_numbers(Set, C* s, const C* bias, Index n) noexcept {
  const VectorScope scope;
  using V = Simd<C>;
  Index i = 0;
  for (; i + V::width <= n; i += V::width)
    V::store(s + i, V::add(V::load(s + i), Step == 0 ? V::broadcast(*bias) : V::load(bias + i)));
  for (; i < n; ++i) s[i] = rounded(s[i] + bias[i * Step]);
}
