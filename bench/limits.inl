// Loops at the machine's limits. Included once for each instruction set; see limits.hpp.

template <class V, int... Chain>
[[gnu::always_inline]] inline void fma_step(typename V::Reg* sum, typename V::Reg factor, typename V::Reg term,
                                            std::integer_sequence<int, Chain...>) noexcept {
  ((sum[Chain] = V::fma(sum[Chain], factor, term)), ...);
}

/// `steps` multiply-adds in each of `Chains` registers: 2 * Chains * width FLOP a step.
template <class V, int Chains>
[[gnu::noinline]] float fma_loop(Index steps, float factor, float term) noexcept {
  typename V::Reg sum[Chains];
  for (int c = 0; c < Chains; ++c) sum[c] = V::broadcast(static_cast<float>(c));
  const typename V::Reg a = V::broadcast(factor), b = V::broadcast(term);
  for (Index i = 0; i < steps; ++i) fma_step<V>(sum, a, b, std::make_integer_sequence<int, Chains>{});
  float lane[V::width], total = 0;
  for (int c = 0; c < Chains; ++c) {
    V::store(lane, sum[c]);
    total += lane[0];
  }
  return total;
}

template <class V, int... Stream>
[[gnu::always_inline]] inline void read_lines(typename V::Reg* sum, const float* from, Index part,
                                              std::integer_sequence<int, Stream...>) noexcept {
  for (Index v = 0; v < ls::lanes; v += V::width)
    ((sum[Stream] = V::add(sum[Stream], V::load(from + Stream * part + v))), ...);
}

/// Reads `lines` lines of 64 bytes from `from`, and from each `part` numbers further, `Streams` in step.
template <class V, int Streams>
[[gnu::noinline]] float read_streams(const float* from, Index part, Index lines) noexcept {
  typename V::Reg sum[Streams];
  for (int s = 0; s < Streams; ++s) sum[s] = V::zero();
  for (Index i = 0; i < lines; ++i)
    read_lines<V>(sum, from + i * ls::lanes, part, std::make_integer_sequence<int, Streams>{});
  float lane[V::width], total = 0;
  for (int s = 0; s < Streams; ++s) {
    V::store(lane, sum[s]);
    total += lane[0];
  }
  return total;
}
