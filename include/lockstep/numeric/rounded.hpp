// The points where a rounding is fixed: a barrier against fusion and regrouping, the one fused multiply-add and
// polynomials by it, quotients; and sums and products with their rounding errors.
#pragma once

#include <concepts>
#include <cstddef>

namespace lockstep {

namespace detail {

/// What functions that share a name with one of <cmath> are templates over: where a program's using-directives show
/// both, overload resolution prefers the library's, which is no template, to an ambiguity.
template <class C>
concept BinaryFloat = std::same_as<C, float> || std::same_as<C, double>;

// Under -fassociative-math clang takes an fma that the target lacks for a product and a sum, unless the operation
// itself is exempt. Older versions heed the exemption for operands of conversions only, hence one that is undone at
// once and costs nothing.
[[gnu::always_inline]] inline float fused(float a, float b, float c) noexcept {
#if defined(__clang__)
#pragma clang fp reassociate(off) contract(off)
  return static_cast<float>(static_cast<double>(__builtin_fmaf(a, b, c)));
#else
  return __builtin_fmaf(a, b, c);
#endif
}
[[gnu::always_inline]] inline double fused(double a, double b, double c) noexcept {
#if defined(__clang__)
#pragma clang fp reassociate(off) contract(off)
  return static_cast<double>(static_cast<long double>(__builtin_fma(a, b, c)));
#else
  return __builtin_fma(a, b, c);
#endif
}

}  // namespace detail

/// x itself, as a value the compiler can no longer see through: whatever produced it has been rounded once.
///
/// Compilers fuse a product into an addition across statements (-ffp-contract=fast, the default of some), and under the
/// unsafe math flags they also regroup sums. A product that feeds an addition, and a sum whose rounding error is
/// computed from it, pass through here. Costs no instruction.
template <detail::BinaryFloat C>
[[gnu::always_inline]] inline C rounded(C x) noexcept {
#if defined(__SSE2__)
  asm("" : "+x"(x));
  return x;
#elif defined(__aarch64__)
  asm("" : "+w"(x));
  return x;
#else
  const volatile C stored = x;
  return stored;
#endif
}

/// a b + c with a single rounding, in every build: an instruction where the target has one, else the C library's exact
/// (slow) function. Force-inlined, so that a kernel's target region decides.
template <detail::BinaryFloat C>
[[gnu::always_inline]] inline C fma(C a, C b, C c) noexcept {
  return detail::fused(a, b, c);
}

namespace detail {

/// sum over i >= First of coefficient[i] x^(i - First), by fma from the highest power down. Written out: no loop is
/// left to the optimiser.
template <std::size_t First = 0, class C, std::size_t Count>
[[gnu::always_inline]] inline C horner(const C (&coefficient)[Count], C x) noexcept {
  if constexpr (First == Count - 1) {
    return coefficient[First];
  } else {
    return fma(horner<First + 1>(coefficient, x), x, coefficient[First]);
  }
}

}  // namespace detail

/// numerator / divisor with a single rounding. Under -freciprocal-math several divisions by one value would become
/// products with its reciprocal; here each division has operands of its own.
template <class C>
[[gnu::always_inline]] inline C quotient(C numerator, C divisor) noexcept {
#if defined(__SSE2__)
  asm("" : "+x"(numerator), "+x"(divisor));
#elif defined(__aarch64__)
  asm("" : "+w"(numerator), "+w"(divisor));
#else
  numerator = rounded(numerator);
  divisor = rounded(divisor);
#endif
  return rounded(numerator / divisor);
}

namespace detail {

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

}  // namespace detail

}  // namespace lockstep
