// E(x) of many numbers in vectors. Included once for each instruction set; see exp_main.cpp.

/// e[i] = E(x[i]) for n numbers, n a multiple of 16.
template <class C>
[[gnu::noinline]] void exp_row(Set, const C* x, Index n, C* e) noexcept {
  const VectorScope scope;
  using V = Simd<C>;
  for (Index i = 0; i < n; i += V::width) {
    typename V::Reg p[1] = {V::load(x + i)};
    exp_nonpositive<C>(p);
    V::store(e + i, p[0]);
  }
}
