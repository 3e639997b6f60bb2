// Root-mean-square normalisation of a row. Included once for each instruction set; see qk_norm.hpp.

/// The sum of n squares: 16 lanes from +0, number d in lane d mod 16 by fma, folded as the weights of a block are.
template <class C>
[[gnu::always_inline]] inline C sum_of_squares(const C* x, Index n) noexcept {
  using V = Simd<C>;
  typename V::Reg sum[per_line<C>];
  unroll<per_line<C>>([&](auto v) __attribute__((always_inline)) { sum[v] = V::zero(); });
  const auto add = [&](const C* line) __attribute__((always_inline)) {
    unroll<per_line<C>>([&](auto v) __attribute__((always_inline)) {
      const auto part = V::load(line + v * V::width);
      sum[v] = V::fma(part, part, sum[v]);
    });
  };
  Index d = 0;
  for (; d + lanes <= n; d += lanes) add(x + d);
  if (d < n) {
    C rest[lanes] = {};
    for (Index i = d; i < n; ++i) rest[i - d] = x[i];
    add(rest);
  }
  return V::fold_sum(sum);
}

/// x = fl(fl(x r) weight), r = 1 / sqrt(fl(fl(sum of squares / n) + epsilon)), each step rounded once. NaNs come out as
/// the one that results hold.
template <class C>
[[gnu::noinline]] void rms_norm(Set, C* x, const C* weight, Index n, C epsilon) noexcept {
  const VectorScope scope;
  using V = Simd<C>;
  const C mean = quotient(sum_of_squares(x, n), static_cast<C>(n));
  const C r = quotient(C(1), rounded(std::sqrt(rounded(mean + epsilon))));
  const auto factor = V::broadcast(r);
  Index d = 0;
  for (; d + V::width <= n; d += V::width)
    V::store(x + d, V::canonical(V::mul(V::mul(V::load(x + d), factor), V::load(weight + d))));
  for (; d < n; ++d) x[d] = canonical(rounded(rounded(x[d] * r) * weight[d]));
}
