// Sine and cosine of a rotation angle, in double, for the rotary tables.
#pragma once

#include <bit>
#include <cstdint>

#include "lockstep/numeric/rounded.hpp"

namespace lockstep {

/// Sine and cosine of one angle.
struct SinCos {
  double sin;  ///< of the angle
  double cos;  ///< of the same angle
};

/// Largest |angle| for which the error is stated.
inline constexpr double max_sin_cos_angle = 0x1p+31;

/// Error of both results in units in the last place of the exact result, also next to the zeros.
inline constexpr double max_sin_cos_error_ulp = 0.8;

/// sin and cos of an angle in radians, |angle| <= 2^31, in a fixed order of roundings.
///
/// The angle is reduced by n pi/2 in three parts (Cody and Waite 1980, with fma): n times the first leaves an exact
/// difference, as n has 31 bits and the difference no bit below 2^-53; the others are carried as a pair. Then minimax
/// polynomials on |r| <= pi/4: sin r = r + r^3 S(r^2) (absolute error 4e-18), cos r = 1 - r^2/2 + r^4 C(r^2) (5e-20).
/// NaN for infinity and NaN. Force-inlined, so that the caller's target region decides how an fma is done.
[[gnu::always_inline]] inline SinCos sin_cos(double angle) noexcept {
  constexpr double two_over_pi = 0x1.45f306dc9c883p-1;
  constexpr double half_pi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
  constexpr double integer_shift = 0x1.8p+52;  // adding it rounds to an integer, found in the low bits of the sum
  constexpr double sin_series[] = {-0x1.5555555555549p-3, 0x1.111111110f861p-7,   -0x1.a01a019c0e4cfp-13,
                                   0x1.71de3574bb133p-19, -0x1.ae5e63ce0db78p-26, 0x1.5d9246f1e4158p-33};
  constexpr double cos_series[] = {0x1.555555555554cp-5,   -0x1.6c16c16c15162p-10, 0x1.a01a019caef30p-16,
                                   -0x1.27e4f807d5dc0p-22, 0x1.1ee9ea6c95bcdp-29,  -0x1.8fadd05a971f1p-37};

  const std::uint64_t bits = std::bit_cast<std::uint64_t>(angle);
  if (bits << 1 == 0) return {angle, 1.0};  // keeps the sign of zero, whatever the flags say of it

  const double shifted = rounded(rounded(angle * two_over_pi) + integer_shift);
  const double n = rounded(shifted - integer_shift);
  const double first = fma(-n, half_pi[0], angle);
  const detail::DoubleDouble second = detail::two_product(n, half_pi[1]);
  const detail::DoubleDouble rest = detail::two_sum(first, -second.high);
  const detail::DoubleDouble r = detail::fast_two_sum(rest.high, fma(-n, half_pi[2], rounded(rest.low - second.low)));

  const detail::DoubleDouble z = detail::two_product(r.high, r.high);
  const double half_z = 0.5 * z.high;  // exact
  const double base = rounded(1.0 - half_z);
  const double base_error = rounded(rounded(1.0 - base) - half_z);

  const double cube = rounded(r.high * z.high);
  const double sin_tail = fma(cube, detail::horner(sin_series, z.high), rounded(r.low * base));
  const double sine = rounded(r.high + sin_tail);

  const double fourth = rounded(z.high * z.high);
  const double cross = fma(-r.high, r.low, fma(-0.5, z.low, base_error));
  const double cosine = rounded(base + fma(fourth, detail::horner(cos_series, z.high), cross));

  const std::uint64_t quarters = std::bit_cast<std::uint64_t>(shifted);
  const double s = quarters & 1 ? cosine : sine, c = quarters & 1 ? sine : cosine;
  return {quarters & 2 ? -s : s, (quarters + 1) & 2 ? -c : c};
}

}  // namespace lockstep
