// The natural logarithm of the log-sum-exp, and the extended logarithm that powers are made of.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "lockstep/numeric/double_double.hpp"
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
  constexpr double ln2_high = 0x1.62e42fefa3800p-1;
  constexpr double ln2_low = 0x1.ef35793c76730p-45;
  const detail::LogParts parts = detail::log_parts(x);
  const double whole = rounded(parts.exponent * ln2_high);
  const detail::DoubleDouble sum = detail::fast_two_sum(whole, parts.log_mantissa.high);
  return rounded(sum.high + rounded(sum.low + fma(parts.exponent, ln2_low, parts.log_mantissa.low)));
}

}  // namespace lockstep
