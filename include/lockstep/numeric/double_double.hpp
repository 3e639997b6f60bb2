// Sums and products with their rounding errors: pairs of doubles for the tables and logarithms.
#pragma once

#include "lockstep/numeric/rounded.hpp"

namespace lockstep::detail {

/// The unevaluated sum high + low, |low| <= ulp(high) / 2 after each function here.
///
/// Error-free transforms after Dekker (1971) and Knuth (TAOCP 2, 4.2.2), the product by fma. Each sum passes the
/// barrier: regrouped, its error would come out as 0.
struct DoubleDouble {
  double high;
  double low;
};

/// a + b exactly, where |a| >= |b| or a = 0. Three operations.
[[gnu::always_inline]] inline DoubleDouble fast_two_sum(double a, double b) noexcept {
  const double sum = rounded(a + b);
  const double b_in_sum = rounded(sum - a);
  return {sum, rounded(b - b_in_sum)};
}

/// a + b exactly. Six operations.
[[gnu::always_inline]] inline DoubleDouble two_sum(double a, double b) noexcept {
  const double sum = rounded(a + b);
  const double b_in_sum = rounded(sum - a);
  const double a_in_sum = rounded(sum - b_in_sum);
  return {sum, rounded(rounded(a - a_in_sum) + rounded(b - b_in_sum))};
}

/// a b exactly (short of underflow).
[[gnu::always_inline]] inline DoubleDouble two_product(double a, double b) noexcept {
  const double product = rounded(a * b);
  return {product, fma(a, b, -product)};
}

/// a b with a relative error below 2^-102.
inline DoubleDouble product(DoubleDouble a, DoubleDouble b) noexcept {
  const DoubleDouble p = two_product(a.high, b.high);
  return fast_two_sum(p.high, fma(a.high, b.low, fma(a.low, b.high, p.low)));
}

/// a b with a relative error below 2^-103.
inline DoubleDouble product(DoubleDouble a, double b) noexcept {
  const DoubleDouble p = two_product(a.high, b);
  return fast_two_sum(p.high, fma(a.low, b, p.low));
}

/// a + b where |a| >= |b.high| or a = 0.
inline DoubleDouble fast_sum(double a, DoubleDouble b) noexcept {
  const DoubleDouble s = fast_two_sum(a, b.high);
  return fast_two_sum(s.high, rounded(s.low + b.low));
}

}  // namespace lockstep::detail
