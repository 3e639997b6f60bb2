// Attention dropout for training-mode forwards: a counter-based pattern that no chunking or batch mate can change.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "lockstep/concepts.hpp"

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

/// No dropout: the default.
struct NoDropout {
  static constexpr PolicyKind policy_kind = PolicyKind::dropout;
  static constexpr const char* name = "none";
  static constexpr bool active = false;
  struct Pattern {
    bool kept(Index, Index, Index) const noexcept { return true; }
    double factor() const noexcept { return 1; }
  };
  Pattern bind(std::uint32_t) const noexcept { return {}; }
};

/// Each attention weight is left out with probability `probability` in [0, 1) (Srivastava et al. 2014), in training
/// mode only; what is kept is multiplied by 1/(1 - probability). Word `key place mod 4` of Philox4x32-10 (Salmon et al.
/// 2011) with key (seed, stream) and counter (key place / 4, query place, head, high parts of both places) decides:
/// kept iff word >= probability 2^32.
struct Dropout {
  static constexpr PolicyKind policy_kind = PolicyKind::dropout;
  static constexpr const char* name = "dropout";
  static constexpr bool active = true;

  double probability = 0;  ///< in [0, 1)
  std::uint32_t seed = 0;  ///< of the pattern

  Status check() const noexcept {
    if (!(probability >= 0 && probability < 1))
      return Status::invalid("dropout probability", "given {}, allowed 0 <= p < 1", probability);
    return {};
  }

  struct Pattern {
    std::uint64_t threshold;
    PhiloxKey key;
    double factor_;

    bool kept(Index head, Index query, Index key_place) const noexcept {
      const auto q = static_cast<std::uint64_t>(query), k = static_cast<std::uint64_t>(key_place) / 4;
      const PhiloxBlock counter{static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(q),
                                static_cast<std::uint32_t>(head),
                                static_cast<std::uint32_t>((k >> 32) << 16 | (q >> 32))};
      return philox4x32_10(counter, key)[static_cast<std::size_t>(key_place % 4)] >= threshold;
    }
    double factor() const noexcept { return factor_; }
  };
  Pattern bind(std::uint32_t stream) const noexcept {
    // The product is exact; the least whole number from it on is the first word that is kept.
    return {static_cast<std::uint64_t>(std::ceil(probability * 4294967296.0)), {seed, stream}, 1 / (1 - probability)};
  }
};

static_assert(DropoutPattern<NoDropout> && DropoutPattern<Dropout>);

}  // namespace lockstep
