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
class Rope : public detail::TableRotation<Style, C> {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::position;
  static constexpr const char* name = Style::name;

  Rope() noexcept = default;
  /// Rotates by this table.
  Rope(RopeTable<C> table) noexcept : detail::TableRotation<Style, C>(std::move(table)) {}

  /// Errors: a table that is proportional to another head_dim.
  void prepare(Index head_dim) {
    if (table_.empty()) table_ = RopeTable<C>(RopeConfig{.rotary_dim = head_dim});
    this->check_pair_dim(head_dim);
  }

  void rotate(C* row, Index position) const noexcept {
    this->rotate_pairs(row, 0, table_.rotary_dim() / 2, table_.cos(position), table_.sin(position));
  }

  Index positions() const noexcept { return table_.positions(); }

 private:
  using detail::TableRotation<Style, C>::table_;
};

/// The policy before a layer gives it its compute type.
template <class Style>
class Rope<Style, void> : public detail::Unbound<PolicyKind::position, Rope, Style> {};

static_assert(Position<Rope<HalfSplit, float>, float> && Position<Rope<Interleaved, double>, double>);

}  // namespace lockstep
