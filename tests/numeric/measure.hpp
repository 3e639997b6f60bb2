// What the tests of scalar functions share: bit hashes, errors in units in the last place, sample sweeps.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace numeric_test {

// The C library's function itself: under unsafe math flags a call by name may become inexact inline code.
inline double (*const volatile reference_exp)(double) = ::exp;
inline long double (*const volatile reference_exp_long)(long double) = ::expl;

/// A hash of result bits in order. Goldens are its values: any build that rounds one sample differently shows.
class BitHash {
 public:
  void add(std::uint64_t bits) { state_ = std::rotl((state_ ^ bits) * 0x9e3779b97f4a7c15U, 29); }
  void add(float value) { add(std::uint64_t{std::bit_cast<std::uint32_t>(value)}); }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

/// |value - exact| in units in the last place of exact in type C (of the least normal number where it is denormal).
/// The reference is wider than C: long double for double, double or long double for float.
template <class C, class Reference>
double error_ulp(C value, Reference exact) {
  using Limits = std::numeric_limits<C>;
  int exponent = 0;
  std::frexp(exact, &exponent);
  if (exponent < Limits::min_exponent) exponent = Limits::min_exponent;
  const Reference difference = std::fabs(static_cast<Reference>(value) - exact);
  return static_cast<double>(std::ldexp(difference, Limits::digits - exponent));
}

/// Deterministic samples, the same on every platform.
class Samples {
 public:
  /// Uniform in [low, high]; one fma, so that goldens may rest on it.
  double uniform(double low, double high) { return std::fma(unit(), high - low, low); }

  /// Every bit pattern of a positive finite double is equally likely.
  double positive_bits() { return std::bit_cast<double>(next() % 0x7ff0000000000000U); }

  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

 private:
  double unit() { return static_cast<double>(static_cast<std::int64_t>(next() >> 11)) * 0x1p-53; }

  std::uint64_t state_ = 1;
};

}  // namespace numeric_test
