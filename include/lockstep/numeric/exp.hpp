// E(x) = e^x for x <= 0: the one exponential of softmax, in explicit roundings; and tanh for soft-capped logits by the
// same reduction: one path without branches or tables, so that vector code repeats it bit for bit.
#pragma once

#include <bit>
#include <cstdint>

#include "lockstep/numeric/rounded.hpp"

namespace lockstep {

/// The constants of E(x); vector kernels broadcast them and get the same bits. They belong to the numerics contract.
///
/// coefficient[i] belongs to r^i in P(r) ~ 2^r on |r| <= 1/2 + 2^-17: a minimax fit of the relative error under
/// P(0) = 1, rounded to C. Evaluated by fma from the highest power down.
template <class C>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  using Bits = std::uint32_t;
  static constexpr float log2e = 0x1.715476p+0F;
  /// 1.5 * 2^23: adding it rounds to an integer (to nearest even), which then stands in the low bits of the sum.
  static constexpr float integer_shift = 0x1.8p+23F;
  static constexpr int degree = 6;
  static constexpr float coefficient[degree + 1] = {1.0F,           0x1.62e432p-1F,  0x1.ebfbdep-3F, 0x1.c6aeb8p-5F,
                                                    0x1.3b2d4cp-7F, 0x1.5f3e56p-10F, 0x1.41fbbcp-13F};
  static constexpr int mantissa_bits = 23, exponent_bias = 127;
  /// Results with n below this are +0: weights under 2e-31 of the largest, far below the sum's rounding. From here on a
  /// weight times a value of 2^-23 or more is normal; down to the last normal exponent, -126, the weighted sums of rows
  /// whose logits fall far (ALiBi) begin with denormals, for which this kind of CPU takes a microcode assist an
  /// operation: such a prefill ran at 0.69 of the plain one, and runs at 0.98.
  static constexpr float least_exponent = -102.0F;

  /// Error of E(x), where not below the least exponent, <= max_error_ulp + max_error_ulp_per_unit |x|, in units in the
  /// last place of e^x. The second term is the rounding of log2e: at x = -20, where a weight is 2e-9, the sum is 5 ulp,
  /// far below one rounding of the softmax it goes into, so a second constant would buy nothing. Degree 5 would be
  /// at 1.9 ulp near 0.
  static constexpr double max_error_ulp = 1.0, max_error_ulp_per_unit = 0.22;
};

template <>
struct ExpConstants<double> {
  using Bits = std::uint64_t;
  static constexpr double log2e = 0x1.71547652b82fep+0;
  static constexpr double integer_shift = 0x1.8p+52;
  static constexpr int degree = 11;
  static constexpr double coefficient[degree + 1] = {
      0x1.0000000000000p+0,  0x1.62e42fefa39efp-1,  0x1.ebfbdff82c5a4p-3,  0x1.c6b08d7049fe8p-5,
      0x1.3b2ab6fba0117p-7,  0x1.5d87fe78cd6e4p-10, 0x1.4309130ed951fp-13, 0x1.ffcbfba97c1b8p-17,
      0x1.62bfc79be640fp-20, 0x1.b5267ce7384a8p-24, 0x1.e61b522823c5bp-28, 0x1.e79bb0228c3b7p-32};
  static constexpr int mantissa_bits = 52, exponent_bias = 1023;
  /// As for float, with 2^-52.
  static constexpr double least_exponent = -969.0;
  /// As for float; degree 11 keeps the fit at 3e-18.
  static constexpr double max_error_ulp = 1.1, max_error_ulp_per_unit = 0.13;
};

namespace detail {

/// e^x as 2^n P(r): n is the integer next to x log2(e), r the rest.
template <class C>
struct ExpReduction {
  C n;
  C r;
  C scale;  // 2^n, valid for n in the exponent range of normal numbers
};

template <class C>
[[gnu::always_inline]] inline ExpReduction<C> reduce_exp(C x) noexcept {
  using K = ExpConstants<C>;
  using Bits = typename K::Bits;
  // rint(fl(x log2e)) without an instruction that plain x86-64 lacks: the same integer for every magnitude that counts.
  const C shifted = rounded(rounded(x * K::log2e) + K::integer_shift);
  const C n = rounded(shifted - K::integer_shift);
  const Bits integer = std::bit_cast<Bits>(shifted) - std::bit_cast<Bits>(K::integer_shift);
  const Bits biased = integer + static_cast<Bits>(K::exponent_bias);
  return {n, fma(x, K::log2e, -n), std::bit_cast<C>(biased << K::mantissa_bits)};
}

}  // namespace detail

/// E(x) = e^x for x <= 0, rule 6 of the numerics contract: n = rint(fl(x log2e)), r = fma(x, log2e, -n), P(r) by fma
/// Horner, times 2^n; +0 where n < -102, in double -969. E(0) = 1, E(-inf) = +0, E(NaN) = NaN. Error: see
/// ExpConstants. A positive x is outside the contract.
template <detail::BinaryFloat C>
[[gnu::always_inline]] inline C exp_nonpositive(C x) noexcept {
  const detail::ExpReduction<C> reduced = detail::reduce_exp(x);
  const C p = detail::horner(ExpConstants<C>::coefficient, reduced.r);
  // Exact: the product of a power of two that is not denormal either. NaN compares false and comes through; for -inf r
  // is NaN, but the selection takes +0.
  const C scaled = rounded(p * reduced.scale);
  return reduced.n < ExpConstants<C>::least_exponent ? C{0} : scaled;
}

/// The constants of tanh beyond those of E(x); vector kernels broadcast them. They belong to the numerics contract.
///
/// coefficient[i] belongs to r^i in G(r) ~ (e^r - 1 - r) / r^2 on |r| <= log(2) / 2: a minimax fit of the relative
/// error of e^r - 1, rounded to C. From |x| = saturation on, the result is 1.
template <class C>
struct TanhConstants;

template <>
struct TanhConstants<float> {
  static constexpr float saturation = 10.0F, ln2 = 0x1.62e430p-1F;
  static constexpr int degree = 4;
  static constexpr float coefficient[degree + 1] = {0x1.000000p-1F, 0x1.5554b0p-3F, 0x1.555486p-5F, 0x1.1227f4p-7F,
                                                    0x1.6d9900p-10F};
  /// Error in units in the last place of the exact result.
  static constexpr double max_error_ulp = 2.6;
};

template <>
struct TanhConstants<double> {
  static constexpr double saturation = 20.0, ln2 = 0x1.62e42fefa39efp-1;
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
