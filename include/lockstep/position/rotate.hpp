// Rotations of the pairs of a head row, for the rotary policies.
#pragma once

#include "lockstep/numeric/rounded.hpp"
#include "lockstep/position/rope_table.hpp"
#include "lockstep/simd/sets.hpp"
#include "lockstep/views.hpp"

namespace lockstep {

/// Pairs (i, i + pair_dim/2), as in GPT-NeoX and Hugging Face checkpoints.
struct HalfSplit {
  static constexpr bool adjacent = false;  ///< numbers of a pair lie apart
  static constexpr const char* name = "half-split rope";
  /// Index of a pair's first number in the row.
  static constexpr Index first(Index pair, Index) noexcept { return pair; }
  /// Index of its second number.
  static constexpr Index second(Index pair, Index pair_dim) noexcept { return pair + pair_dim / 2; }
};

/// Pairs (2i, 2i + 1), as in the paper, GPT-J and llama2.c checkpoints.
struct Interleaved {
  static constexpr bool adjacent = true;  ///< numbers of a pair lie side by side
  static constexpr const char* name = "interleaved rope";
  /// Index of a pair's first number in the row.
  static constexpr Index first(Index pair, Index) noexcept { return 2 * pair; }
  /// Index of its second number.
  static constexpr Index second(Index pair, Index) noexcept { return 2 * pair + 1; }
};

#define LOCKSTEP_EACH_SET "lockstep/position/rotate.inl"
#include "lockstep/simd/each_set.inl"

namespace detail {

/// Rotates pairs first, first + 1, ..., first + pairs - 1 of a row by cos, sin [pairs].
template <class Style, class C>
void rotate_pairs(C* row, Index first, Index pairs, Index pair_dim, const C* cos, const C* sin) noexcept {
  row += Style::first(first, pair_dim);
  with_set(instruction_set(), [&](auto set) { rotate_row<Style>(set, row, cos, sin, pairs, pair_dim); });
}

/// How many leading numbers of a row a table's rotation changes, or leaves between two that it changes.
template <class Style, class C>
Index rotated_width(const RopeTable<C>& table) noexcept {
  return table.empty() ? 0 : Style::second(table.rotary_dim() / 2 - 1, table.pair_dim()) + 1;
}

/// Proportional partial rotary takes its pairs from the whole head, so from a head of just that size.
template <class C>
Status check_pair_dim(const RopeTable<C>& table, Index head_dim) noexcept {
  if (table.pair_dim() != table.rotary_dim() && table.pair_dim() != head_dim)
    return Status::invalid("proportional_to", "given %" PRId64 ", allowed head_dim %" PRId64, table.pair_dim(),
                           head_dim);
  return {};
}

/// A table's identity under a style.
template <class Style, class C>
std::uint64_t identity_of(const RopeTable<C>& table) noexcept {
  return table.empty() ? 0 : identity_with(table.identity(), Style::adjacent ? 2 : 1);
}

/// Whether rows rotated by a table can be shifted by `delta` positions.
template <class C>
Status check_shift(const RopeTable<C>& table, Index delta) noexcept {
  if (table.inverse_frequencies().empty())
    return Status::invalid("shift", "given a table without inverse frequencies, allowed one that was made of them");
  double fastest = 1;
  for (const double f : table.inverse_frequencies()) fastest = f > fastest ? f : fastest;
  if (!(std::abs(static_cast<double>(delta)) * fastest <= max_sin_cos_angle))
    return Status::invalid("shift", "given %" PRId64 " positions, allowed angles from -2^31 to 2^31", delta);
  return {};
}

/// Rotates rows [rows, head_dim] on by `delta` positions.
template <class Style, class C>
void shift_rows(const RopeTable<C>& table, View<C, 2> rows, Index delta) noexcept {
  if (delta == 0) return;  // a rotation by 0 would turn -0 to +0
  const FloatEnvironment environment;
  constexpr Index at_once = 64;
  C cos[at_once], sin[at_once];
  const std::span<const double> frequencies = table.inverse_frequencies();
  const Index pairs = static_cast<Index>(frequencies.size());
  for (Index first = 0; first < pairs; first += at_once) {
    const Index count = pairs - first < at_once ? pairs - first : at_once;
    with_fma([&](auto set) { fill_rows(set, delta, 1, frequencies.data() + first, count, 1.0, cos, sin); });
    for (Index row = 0; row < rows.extent[0]; ++row)
      rotate_pairs<Style>(rows.data + row * rows.stride[0], first, count, table.pair_dim(), cos, sin);
  }
}

}  // namespace detail

}  // namespace lockstep
