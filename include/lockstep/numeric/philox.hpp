// Philox4x32-10: random bits as a pure function of key and counter, for dropout.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

/// 128 bits in, 128 bits out, four words each.
using PhiloxBlock = std::array<std::uint32_t, 4>;

/// 64 bits that choose one of the independent streams.
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Philox4x32 with ten rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
///
/// A bijection of counters for each key. Having no state, it gives one (query, key) pair the same word in any order of
/// evaluation, for one row or many.
constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, PhiloxKey key) noexcept {
  constexpr std::uint64_t multiplier[] = {0xd2511f53, 0xcd9e8d57};
  constexpr PhiloxKey weyl = {0x9e3779b9, 0xbb67ae85};  // golden ratio, sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = multiplier[0] * counter[0];
    const std::uint64_t second = multiplier[1] * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += weyl[0];
    key[1] += weyl[1];
  }
  return counter;
}

}  // namespace lockstep
