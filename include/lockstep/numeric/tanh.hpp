// tanh for soft-capped logits: one path without branches or tables, so that vector code repeats it bit for bit.
#pragma once

#include <bit>

#include "lockstep/numeric/exp.hpp"

namespace lockstep {

/// The constants of tanh beyond those of E(x); vector kernels broadcast them. They belong to the numerics contract.
///
/// coefficient[i] belongs to r^i in G(r) ~ (e^r - 1 - r) / r^2 on |r| <= log(2) / 2: a minimax fit of the relative
/// error of e^r - 1, rounded to C. From |x| = saturation on, the result is 1.
template <class C>
struct TanhConstants;

template <>
struct TanhConstants<float> {
  static constexpr float saturation = 10.0F;
  static constexpr float ln2 = 0x1.62e430p-1F;
  static constexpr int degree = 4;
  static constexpr float coefficient[degree + 1] = {0x1.000000p-1F, 0x1.5554b0p-3F, 0x1.555486p-5F, 0x1.1227f4p-7F,
                                                    0x1.6d9900p-10F};
  /// Error in units in the last place of the exact result.
  static constexpr double max_error_ulp = 2.6;
};

template <>
struct TanhConstants<double> {
  static constexpr double saturation = 20.0;
  static constexpr double ln2 = 0x1.62e42fefa39efp-1;
  static constexpr int degree = 9;
  static constexpr double coefficient[degree + 1] = {
      0x1.0000000000005p-1,  0x1.555555555555cp-3,  0x1.55555555520fcp-5,  0x1.111111110e6e8p-7,
      0x1.6c16c17f3558ep-10, 0x1.a01a01b5d0f9cp-13, 0x1.a019a68c7f31cp-16, 0x1.71ddea164ccb4p-19,
      0x1.28a2a492e2a8ep-22, 0x1.af76903191c3dp-26};
  static constexpr double max_error_ulp = 2.6;
};

/// tanh(x) in explicit roundings, at most TanhConstants<float>::max_error_ulp from exact; odd bit for bit, +-1 at
/// +-infinity, NaN stays NaN.
///
/// tanh a = -m / (2 + m) with m = e^x - 1, x = -2a, which loses nothing at small a: with n = rint(fl(x log2e)) as in E
/// and r = fma(-n, log 2, x), which is x itself where n = 0, m = 2^n (r + r^2 G(r)) + (2^n - 1).
template <detail::BinaryFloat C>
[[gnu::always_inline]] inline C tanh(C x) noexcept {
  using K = TanhConstants<C>;
  using Bits = typename ExpConstants<C>::Bits;
  constexpr Bits sign_bit = Bits{1} << (sizeof(C) * 8 - 1);
  const Bits bits = std::bit_cast<Bits>(x);
  const C magnitude = std::bit_cast<C>(bits & ~sign_bit);
  const C a = magnitude > K::saturation ? K::saturation : magnitude;  // NaN stays
  const C minus_twice = rounded(C{-2} * a);                           // exact
  const detail::ExpReduction<C> reduced = detail::reduce_exp(minus_twice);
  const C r = fma(-reduced.n, K::ln2, minus_twice);
  const C rise = fma(rounded(r * r), detail::horner(K::coefficient, r), r);
  const C m = fma(rise, reduced.scale, rounded(reduced.scale - C{1}));
  const C result = quotient(-m, rounded(C{2} + m));
  return std::bit_cast<C>((std::bit_cast<Bits>(result) & ~sign_bit) | (bits & sign_bit));
}

}  // namespace lockstep
