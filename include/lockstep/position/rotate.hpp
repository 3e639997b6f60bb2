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

/// What rotary policies have in common: a table, by which they rotate pairs of a row.
template <class Style, class C>
class TableRotation {
 public:
  TableRotation() noexcept = default;
  explicit TableRotation(RopeTable<C> table) noexcept : table_(std::move(table)) {}

  /// Rotates rows that were rotated at any positions p on to p + delta (negative: back), without the magnitude, which
  /// they have: rows [rows, head_dim], each without gaps. The angle delta times inverse frequency is formed in double,
  /// its cosine and sine rounded once. Error: max_shift_error_eps. Errors: those of check_shift(), rows that are
  /// narrower than rotary_dim() or have gaps.
  void shift(View<C, 2> rows, Index delta) const {
    raise_unless_ok(check_shift(delta));
    raise_unless_ok(check_shape("rows", rows, {rows.extent[0], std::max(rows.extent[1], rotary_dim())}));
    if (rows.extent[1] > 1 && rows.stride[1] != 1)
      raise(Status::invalid("rows", "given numbers {} apart, allowed 1", rows.stride[1]));
    shift_rows(rows, delta);
  }
  /// The same for one row of at least rotary_dim() numbers. Precondition: check_shift(delta).
  void shift(C* row, Index delta) const noexcept { shift_rows(View<C, 2>(row, {1, rotary_dim()}, {0, 1}), delta); }
  /// Whether rows can be shifted by `delta` positions.
  Status check_shift(Index delta) const noexcept {
    if (table_.inverse_frequencies().empty())
      return Status::invalid("shift", "given a table without inverse frequencies, allowed one that was made of them");
    double fastest = 1;
    for (const double f : table_.inverse_frequencies()) fastest = f > fastest ? f : fastest;
    if (!(std::abs(static_cast<double>(delta)) * fastest <= max_sin_cos_angle))
      return Status::invalid("shift", "given {} positions, allowed angles from -2^31 to 2^31", delta);
    return {};
  }

  /// How many leading numbers of a row the rotation changes, or leaves between two that it changes.
  Index rotary_dim() const noexcept {
    return table_.empty() ? 0 : Style::second(table_.rotary_dim() / 2 - 1, table_.pair_dim()) + 1;
  }
  /// Equal for policies that rotate alike: style and the table's identity. 0 without a table.
  std::uint64_t identity() const noexcept {
    return table_.empty() ? 0 : identity_with(table_.identity(), Style::adjacent ? 2 : 1);
  }
  const RopeTable<C>& table() const noexcept { return table_; }  ///< the policy's, perhaps empty

 protected:
  void shift_rows(View<C, 2> rows, Index delta) const noexcept {
    if (delta == 0) return;  // a rotation by 0 would turn -0 to +0
    const FloatEnvironment environment;
    constexpr Index at_once = 64;
    C cos[at_once], sin[at_once];
    const std::span<const double> frequencies = table_.inverse_frequencies();
    const Index pairs = static_cast<Index>(frequencies.size());
    for (Index first = 0; first < pairs; first += at_once) {
      const Index count = pairs - first < at_once ? pairs - first : at_once;
      with_fma([&](auto set) { fill_rows(set, delta, 1, frequencies.data() + first, count, 1.0, cos, sin); });
      for (Index row = 0; row < rows.extent[0]; ++row)
        rotate_pairs(rows.data + row * rows.stride[0], first, count, cos, sin);
    }
  }
  /// Rotates pairs first, first + 1, ..., first + pairs - 1 of a row by cos, sin [pairs].
  void rotate_pairs(C* row, Index first, Index pairs, const C* cos, const C* sin) const noexcept {
    row += Style::first(first, table_.pair_dim());
    with_set(instruction_set(), [&](auto set) { rotate_row<Style>(set, row, cos, sin, pairs, table_.pair_dim()); });
  }
  /// Proportional partial rotary takes its pairs from the whole head, so from a head of just that size.
  void check_pair_dim(Index head_dim) const {
    if (table_.pair_dim() != table_.rotary_dim() && table_.pair_dim() != head_dim)
      raise(Status::invalid("proportional_to", "given {}, allowed head_dim {}", table_.pair_dim(), head_dim));
  }

  RopeTable<C> table_;
};

}  // namespace detail

}  // namespace lockstep
