// Rotary position embedding: pairs of numbers of a head row are rotated by an angle proportional to the position.
#pragma once

#include "lockstep/concepts.hpp"
#include "lockstep/numeric/rounded.hpp"
#include "lockstep/position/rope_table.hpp"
#include "lockstep/simd/sets.hpp"

namespace lockstep {

/// Pairs (i, i + rotary_dim/2), as in GPT-NeoX and Hugging Face checkpoints.
struct HalfSplit {
  static constexpr bool adjacent = false;
  static constexpr const char* name = "half-split rope";
  static constexpr Index first(Index pair, Index) noexcept { return pair; }
  static constexpr Index second(Index pair, Index rotary_dim) noexcept { return pair + rotary_dim / 2; }
};

/// Pairs (2i, 2i + 1), as in the paper, GPT-J and llama2.c checkpoints.
struct Interleaved {
  static constexpr bool adjacent = true;
  static constexpr const char* name = "interleaved rope";
  static constexpr Index first(Index pair, Index) noexcept { return 2 * pair; }
  static constexpr Index second(Index pair, Index) noexcept { return 2 * pair + 1; }
};

namespace portable {
#include "lockstep/position/rotate.inl"
}
#if defined(__x86_64__)
#include "lockstep/simd/region_avx2_begin.inl"
namespace avx2 {
#include "lockstep/position/rotate.inl"
}
#include "lockstep/simd/region_end.inl"
#include "lockstep/simd/region_avx512_begin.inl"
namespace avx512 {
#include "lockstep/position/rotate.inl"
}
#include "lockstep/simd/region_end.inl"
#elif defined(__aarch64__)
namespace neon {
#include "lockstep/position/rotate.inl"
}
#endif

/// RoPE (Su et al. 2021, arXiv 2104.09864): a' = a cos t - b sin t, b' = a sin t + b cos t, t = position
/// base^(-2i/rotary_dim), each with one fma on a rounded product. Numbers from rotary_dim on keep their bits (partial
/// rotary). The value is a table; a layer without one builds the default table for its head_dim. `Rope<Style>` takes
/// the layer's compute type.
template <class Style = HalfSplit, class C = void>
class Rope {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::position;
  static constexpr const char* name = Style::name;

  Rope() noexcept = default;
  Rope(RopeTable<C> table) noexcept : table_(std::move(table)) {}

  void prepare(Index head_dim) {
    if (table_.empty()) table_ = RopeTable<C>(RopeConfig{.rotary_dim = head_dim});
  }

  void rotate(C* row, Index position) const noexcept {
    const C* cos = table_.cos(position);
    const C* sin = table_.sin(position);
    const Index pairs = table_.rotary_dim() / 2;
    switch (instruction_set()) {
#if defined(__x86_64__)
      case InstructionSet::avx512:
        return avx512::rotate_row<Style>(row, cos, sin, pairs);
      case InstructionSet::avx2:
        return avx2::rotate_row<Style>(row, cos, sin, pairs);
#elif defined(__aarch64__)
      case InstructionSet::neon:
        return neon::rotate_row<Style>(row, cos, sin, pairs);
#endif
      default:
        return portable::rotate_row<Style>(row, cos, sin, pairs);
    }
  }

  Index rotary_dim() const noexcept { return table_.rotary_dim(); }
  Index positions() const noexcept { return table_.positions(); }
  const RopeTable<C>& table() const noexcept { return table_; }

 private:
  RopeTable<C> table_;
};

/// The name of the policy before a layer gives it its compute type.
template <class Style>
class Rope<Style, void> {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::position;
  template <class C>
  using rebind = Rope<Style, C>;
};

static_assert(Position<Rope<HalfSplit, float>, float> && Position<Rope<Interleaved, double>, double>);

}  // namespace lockstep
