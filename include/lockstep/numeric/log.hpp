// The natural logarithm, and real powers of a positive base: log-sum-exp, inverse frequencies, slopes of distance
// biases.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "lockstep/numeric/exp.hpp"
#include "lockstep/numeric/rounded.hpp"

namespace lockstep {

namespace detail {

/// log(x) = exponent log(2) + log_mantissa, the mantissa in [sqrt(1/2), sqrt(2)).
struct LogParts {
  double exponent;
  DoubleDouble log_mantissa;
};

inline constexpr DoubleDouble ln2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

/// Precondition: x positive and finite. Relative error of log_mantissa < 2^-63.
///
/// With s = (m - 1) / (m + 1): log m = 2 atanh s = s (2 + z (2/3 + z R(z))), z = s^2 <= 0.0295; R is a minimax fit
/// of relative error 5e-18. Everything but R is carried in pairs.
inline LogParts log_parts(double x) noexcept {
  constexpr double remainder[] = {0x1.999999999999ap-2, 0x1.2492492492522p-2, 0x1.c71c71c6ea8a9p-3,
                                  0x1.745d177aa7ee1p-3, 0x1.3b1395cb4cb2fp-3, 0x1.1118c937bbe73p-3,
                                  0x1.df7c8767c8b5bp-4, 0x1.e030ec15abd4fp-4};
  constexpr DoubleDouble two_thirds{0x1.5555555555555p-1, 0x1.5555555555555p-55};
  constexpr std::uint64_t sqrt_half = 0x3fe6a09e667f3bcd;

  std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  std::int64_t exponent = 0;
  if (bits < (std::uint64_t{1} << 52)) {
    // A denormal is its integer times 2^-1074; by integers, so that no flush mode sees it.
    bits = std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(bits)));
    exponent = -1074;
  }
  const std::int64_t shift = static_cast<std::int64_t>(bits - sqrt_half) >> 52;
  exponent += shift;
  const double mantissa = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(shift) << 52));

  const double f = rounded(mantissa - 1.0);  // exact
  const DoubleDouble divisor = fast_two_sum(2.0, f);
  const double s_high = quotient(f, divisor.high);
  const double residue = fma(-s_high, divisor.low, fma(-s_high, divisor.high, f));
  const DoubleDouble s = fast_two_sum(s_high, quotient(residue, divisor.high));

  const DoubleDouble z = product(s, s);
  const double tail = fma(z.high, horner(remainder, z.high), two_thirds.low);
  const DoubleDouble cubic = product(z, fast_two_sum(two_thirds.high, tail));
  return {static_cast<double>(exponent), product(s, fast_sum(2.0, cubic))};
}

}  // namespace detail

/// How far log_positive() is from exact at most, in ulp.
inline constexpr double max_log_error_ulp = 0.51;

/// The natural logarithm of x >= 0 in a fixed order of roundings, at most max_log_error_ulp from exact. log(+-0) =
/// -inf, log(inf) = inf, NaN for NaN and below 0. float callers round the result once.
inline double log_positive(double x) noexcept {
  using Limits = std::numeric_limits<double>;
  if (x == 0.0) return -Limits::infinity();
  if (!(x > 0.0)) return Limits::quiet_NaN();
  if (x > Limits::max()) return x;
  // The leading 42 bits of log(2), times any exponent exact, and the rest.
  constexpr double ln2_high = 0x1.62e42fefa3800p-1, ln2_low = 0x1.ef35793c76730p-45;
  const detail::LogParts parts = detail::log_parts(x);
  const double whole = rounded(parts.exponent * ln2_high);
  const detail::DoubleDouble sum = detail::fast_two_sum(whole, parts.log_mantissa.high);
  return rounded(sum.high + rounded(sum.low + fma(parts.exponent, ln2_low, parts.log_mantissa.low)));
}

namespace detail {

/// 2^n as a double, -1022 <= n <= 1023.
inline double power_of_two(std::int64_t n) noexcept {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

/// 2^(x.high + x.low) for -1080 < x.high < 1025.
inline double exp2_pair(DoubleDouble x) noexcept {
  using K = ExpConstants<double>;
  const double shifted = rounded(x.high + K::integer_shift);
  const double n = rounded(shifted - K::integer_shift);
  const DoubleDouble f = fast_two_sum(rounded(x.high - n), x.low);

  // 2^f = 1 + f ln 2 + f^2 Q(f): the linear term as a pair, the rest is below 0.07 and needs one double.
  const double curved = rounded(rounded(f.high * f.high) * horner<2>(K::coefficient, f.high));
  const DoubleDouble linear = two_product(f.high, ln2.high);
  const DoubleDouble one_plus = fast_two_sum(1.0, linear.high);
  const double low_f = rounded(rounded(f.low * ln2.high) * one_plus.high);
  const double low = rounded(fma(f.high, ln2.low, linear.low) + low_f);
  const double mantissa = rounded(one_plus.high + rounded(curved + rounded(one_plus.low + low)));

  // In two factors, since n may lie outside the exponents of normal numbers.
  const std::int64_t exponent = static_cast<std::int64_t>(n), half = exponent / 2;
  return rounded(rounded(mantissa * power_of_two(half)) * power_of_two(exponent - half));
}

}  // namespace detail

/// Error of power() in units in the last place, where the result is normal.
inline constexpr double max_power_error_ulp = 0.7;

/// base^exponent for a positive finite base and a finite exponent, in a fixed order of roundings; exact where base and
/// result are powers of two. Beyond the range: infinity or +0. NaN for any other base.
///
/// 2^(exponent log2(base)), the logarithm and the product carried in pairs of doubles.
inline double power(double base, double exponent) noexcept {
  using Limits = std::numeric_limits<double>;
  constexpr detail::DoubleDouble log2e{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
  if (!(base > 0.0 && base <= Limits::max())) return Limits::quiet_NaN();
  const detail::LogParts parts = detail::log_parts(base);
  const detail::DoubleDouble log2 = detail::fast_sum(parts.exponent, detail::product(parts.log_mantissa, log2e));
  const detail::DoubleDouble power_log = detail::product(log2, exponent);
  if (power_log.high >= 1025.0) return Limits::infinity();
  if (power_log.high <= -1080.0) return 0.0;
  if (!(power_log.high < 1025.0)) return Limits::quiet_NaN();
  return detail::exp2_pair(power_log);
}

}  // namespace lockstep
