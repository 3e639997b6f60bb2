// Conversions between the storage types (half, bfloat16, int8 codes with a common scale) and the compute types, the
// same bits in every build.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

#include "lockstep/contract.hpp"
#include "lockstep/numeric/rounded.hpp"

namespace lockstep {

namespace detail {

/// binary16 bits -> float, exact. Works on bit patterns; the one float operation, on denormals, has normal operands and
/// result, so the flush modes of the processor do not reach it.
constexpr float float_from_half_bits(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  // Rebias the exponent by 127 - 15; infinity and NaN go on to float's all-ones exponent.
  const std::uint32_t rebias = magnitude >= 0x7c00u ? 2u * (112u << 23) : 112u << 23;
  const std::uint32_t normal = (magnitude << 13) + rebias;
  // A denormal half is magnitude * 2^-24, a normal float.
  const std::uint32_t denormal =
      std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  return std::bit_cast<float>(sign | (magnitude < 0x0400u ? denormal : normal));
}

/// float -> binary16 bits, to nearest even; NaN -> 0x7e00, beyond the range -> infinity, denormals kept.
constexpr std::uint16_t half_bits_from_float(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  // Normal results: 13 bits go; adding just under half of their range, or half where the kept part is odd, ties to
  // even. A carry into the exponent is right, also into infinity.
  const std::uint32_t normal = (magnitude - (112u << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Denormal results count units of 2^-24: shift the significand, with its leading one, by 126 - exponent. From 25 on
  // nothing is left, so 31 stands for more.
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t shift = exponent > 112u ? 14u : (exponent < 95u ? 31u : 126u - exponent);
  const std::uint32_t significand = (magnitude & 0x007fffffu) | 0x00800000u;
  const std::uint32_t denormal = (significand + ((1u << (shift - 1u)) - 1u) + ((significand >> shift) & 1u)) >> shift;
  std::uint32_t result = sign | (magnitude < (113u << 23) ? denormal : normal);
  result = magnitude >= 0x47800000u ? sign | 0x7c00u : result;  // 2^16 and more
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  return static_cast<std::uint16_t>(result);
}

/// bfloat16 bits -> float, exact: the upper half of a float.
constexpr float float_from_bfloat16_bits(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// float -> bfloat16 bits, to nearest even; NaN -> 0x7fc0, beyond the range -> infinity, denormals kept.
constexpr std::uint16_t bfloat16_bits_from_float(float value) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t result = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : result);
}

}  // namespace detail

/// x, or the positive quiet NaN without payload for any NaN: processors differ in the NaN they make. Works on bit
/// patterns: a comparison would trap on denormals where the host has unmasked that, and numbers are stored in its
/// environment.
[[gnu::always_inline]] inline float canonical(float x) noexcept {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits);
}
/// The same in double.
[[gnu::always_inline]] inline double canonical(double x) noexcept {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  return std::bit_cast<double>(
      (bits & ~(std::uint64_t{1} << 63)) > std::uint64_t{0x7ff} << 52 ? std::uint64_t{0x7ff8} << 48 : bits);
}

/// A stored value in its compute type: exact, denormals included; NaN stays NaN. The identity for float and double; the
/// code itself for int8.
template <class S, class C = compute_t<S>>
  requires std::same_as<C, compute_t<S>>
[[gnu::always_inline]] inline C widen(S value) noexcept {
  if constexpr (std::same_as<S, Eigen::half>) {
    return detail::float_from_half_bits(std::bit_cast<std::uint16_t>(value));
  } else if constexpr (std::same_as<S, Eigen::bfloat16>) {
    return detail::float_from_bfloat16_bits(std::bit_cast<std::uint16_t>(value));
  } else {
    return static_cast<C>(value);
  }
}

/// A computed value rounded once, to nearest even, to storage type S: beyond the range -> infinity, denormals kept,
/// NaN -> the canonical positive quiet NaN of S. For float and double nothing else.
template <Element S, class C>
  requires std::same_as<C, compute_t<S>>
[[gnu::always_inline]] inline S narrow(C value) noexcept {
  if constexpr (std::same_as<S, Eigen::half>) {
    return std::bit_cast<Eigen::half>(detail::half_bits_from_float(value));
  } else if constexpr (std::same_as<S, Eigen::bfloat16>) {
    return std::bit_cast<Eigen::bfloat16>(detail::bfloat16_bits_from_float(value));
  } else {
    return canonical(value);
  }
}

/// The scale of numbers whose largest magnitude is `largest` (finite): fl(largest / 127). +0 where all are 0, and where
/// the quotient is below the range of float; then all codes are 0.
[[gnu::always_inline]] inline float int8_scale(float largest) noexcept { return quotient(largest, 127.0F); }

/// The code of a finite x under a scale: x / scale, rounded once, then to the nearest integer, ties to even; within
/// [-127, 127]. |x - code scale| <= scale (1/2 + 2^-16) where the scale is a normal number.
[[gnu::always_inline]] inline std::int8_t int8_code(float x, float scale) noexcept {
  if (scale == 0) return 0;
  // Beyond 2^23 a float has no fraction: adding and subtracting 1.5 2^23 rounds to an integer, without a libm call.
  constexpr float shift = 0x1.8p23F;
  const float code = rounded(rounded(quotient(x, scale) + shift) - shift);
  // A denormal scale has few bits, so that the quotient may pass 127.
  return static_cast<std::int8_t>(code > 127 ? 127.0F : code < -127 ? -127.0F : code);
}

}  // namespace lockstep
