// Loops at the machine's limits. Included once for each instruction set; see limits.hpp.

/// As many chains as the registers hold beside the two factors: more than latency times issue width on any CPU of the
/// set.
inline constexpr int fma_chains = Simd<float>::rows > 1
                                      ? static_cast<int>(Simd<float>::rows* Simd<float>::lines* lanes /
                                                         Simd<float>::width)
                                      : 8;

/// `steps` multiply-adds in each chain, fma_flops() in all.
[[gnu::noinline]] inline float fma_loop(Set, Index steps, float factor, float term) noexcept {
  using V = Simd<float>;
  typename V::Reg sum[fma_chains];
  for (int c = 0; c < fma_chains; ++c) sum[c] = V::broadcast(static_cast<float>(c));
  const typename V::Reg a = V::broadcast(factor), b = V::broadcast(term);
  for (Index i = 0; i < steps; ++i)
    unroll<fma_chains>([&](auto c) __attribute__((always_inline)) { sum[c] = V::fma(sum[c], a, b); });
  float lane[V::width], total = 0;
  for (int c = 0; c < fma_chains; ++c) {
    V::store(lane, sum[c]);
    total += lane[0];
  }
  return total;
}
constexpr Index fma_flops(Set, Index steps) noexcept { return 2 * steps * fma_chains * Simd<float>::width; }

/// Reads `lines` lines of 64 bytes from `from`, and from each `part` numbers further, `Streams` in step.
template <int Streams>
[[gnu::noinline]] float read_streams(Set, const float* from, Index part, Index lines) noexcept {
  using V = Simd<float>;
  typename V::Reg sum[Streams];
  for (int s = 0; s < Streams; ++s) sum[s] = V::zero();
  for (Index i = 0; i < lines; ++i)
    for (Index v = 0; v < lanes; v += V::width)
      unroll<Streams>([&](auto s) __attribute__((always_inline)) {
        sum[s] = V::add(sum[s], V::load(from + i * lanes + s * part + v));
      });
  float lane[V::width], total = 0;
  for (int s = 0; s < Streams; ++s) {
    V::store(lane, sum[s]);
    total += lane[0];
  }
  return total;
}
