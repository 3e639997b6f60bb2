// Seeded random numbers, without anything of the library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

using Index = std::int64_t;

inline std::size_t at(Index i) noexcept { return static_cast<std::size_t>(i); }

/// splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
  /// Uniform in [-1, 1).
  double uniform() noexcept {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
  }

 private:
  std::uint64_t state_;
};

}  // namespace bench
