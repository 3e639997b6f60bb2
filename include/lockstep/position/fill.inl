// Cosines and sines of rows of a rotary table. Included once for each way of getting a fused multiply-add; see
// rope_table.hpp.

/// cos, sin [rows, pairs] of the angles (first + row) frequency[pair], times the magnitude: in double, rounded once.
template <class C>
[[gnu::noinline]] void fill_rows(Set, Index first, Index rows, const double* frequency, Index pairs, double magnitude,
                                 C* cos, C* sin) noexcept {
  for (Index row = 0; row < rows; ++row) {
    const double position = static_cast<double>(first + row);
    for (Index i = 0; i < pairs; ++i) {
      const SinCos angle = sin_cos(rounded(position * frequency[i]));
      cos[row * pairs + i] = static_cast<C>(rounded(angle.cos * magnitude));
      sin[row * pairs + i] = static_cast<C>(rounded(angle.sin * magnitude));
    }
  }
}
