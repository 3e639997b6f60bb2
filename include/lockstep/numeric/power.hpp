// Real powers of a positive base: inverse frequencies and the slopes of distance biases.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "lockstep/numeric/double_double.hpp"
#include "lockstep/numeric/exp.hpp"
#include "lockstep/numeric/log.hpp"
#include "lockstep/numeric/rounded.hpp"

namespace lockstep {

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
  const std::int64_t exponent = static_cast<std::int64_t>(n);
  const std::int64_t half = exponent / 2;
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
