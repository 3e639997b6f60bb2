// Attention dropout for training-mode forwards: a counter-based pattern that no chunking or batch mate can change.
#pragma once

#include <cmath>

#include "lockstep/concepts.hpp"
#include "lockstep/numeric/philox.hpp"

namespace lockstep {

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
