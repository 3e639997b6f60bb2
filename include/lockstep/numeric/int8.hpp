// Numbers as 8-bit codes with a common scale: how int8 caches store a head row.
#pragma once

#include <cstdint>

#include "lockstep/contract.hpp"
#include "lockstep/numeric/rounded.hpp"

namespace lockstep {

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
