// Numbers that tell rotary tables apart, so that a cache can know which one its keys were rotated with.
#pragma once

#include <cstdint>

namespace lockstep::detail {

/// The identity `id` with one more word in it; every word and its place counts, a difference in one bit changes half of
/// the result's. The finish of splitmix64 (Steele, Lea and Flood 2014).
constexpr std::uint64_t identity_with(std::uint64_t id, std::uint64_t word) noexcept {
  std::uint64_t z = (id ^ word) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return z != 0 ? z : 1;  // 0 is no table
}

}  // namespace lockstep::detail
