// Rotary position embedding: pairs of numbers of a head row are rotated by an angle proportional to the position.
#pragma once

#include "lockstep/concepts.hpp"
#include "lockstep/position/rope_table.hpp"
#include "lockstep/position/rotate.hpp"

namespace lockstep {

/// A shifted row is off by at most this many epsilons of the norm of each pair, beside what rounding the angle in
/// double does (2^-53 of it).
inline constexpr double max_shift_error_eps = 1.7;

/// RoPE (Su et al. 2021, arXiv 2104.09864): a' = a cos t - b sin t, b' = a sin t + b cos t, t = position
/// base^(-2i/rotary_dim), each with one fma on a rounded product. Numbers that belong to no rotated pair keep their
/// bits (partial rotary). The value is a table; a layer without one builds the default table for its head_dim.
/// `Rope<Style>` takes the layer's compute type.
template <class Style = HalfSplit, class C = void>
class Rope {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::position;
  static constexpr const char* name = Style::name;

  Rope() noexcept = default;
  /// Rotates by this table.
  Rope(RopeTable<C> table) noexcept : table_(std::move(table)) {}

  /// Errors: a table that is proportional to another head_dim.
  void prepare(Index head_dim) {
    if (table_.empty()) table_ = RopeTable<C>(RopeConfig{.rotary_dim = head_dim});
    raise_unless_ok(detail::check_pair_dim(table_, head_dim));
  }

  void rotate(C* row, Index position) const noexcept {
    detail::rotate_pairs<Style>(row, 0, table_.rotary_dim() / 2, table_.pair_dim(), table_.cos(position),
                                table_.sin(position));
  }

  /// Rotates rows that were rotated at any positions p on to p + delta (negative: back), without the magnitude, which
  /// they have: rows [rows, head_dim], each without gaps. The angle delta times inverse frequency is formed in double,
  /// its cosine and sine rounded once. Error: max_shift_error_eps. Precondition: check_shift(delta).
  void shift(View<C, 2> rows, Index delta) const noexcept { detail::shift_rows<Style>(table_, rows, delta); }
  void shift(C* row, Index delta) const noexcept { shift(View<C, 2>(row, {1, rotary_dim()}, {0, 1}), delta); }
  Status check_shift(Index delta) const noexcept { return detail::check_shift(table_, delta); }

  Index rotary_dim() const noexcept { return detail::rotated_width<Style>(table_); }
  Index positions() const noexcept { return table_.positions(); }
  /// Equal for policies that rotate alike: style and the table's identity. 0 without a table.
  std::uint64_t identity() const noexcept { return detail::identity_of<Style>(table_); }
  const RopeTable<C>& table() const noexcept { return table_; }  ///< empty before prepare(), where none was given

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
