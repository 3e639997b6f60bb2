// Rotary position embedding: pairs of numbers of a head row are rotated by an angle proportional to the position, or to
// the one of three positions (time, height, width) that turns them.
#pragma once

#include <array>

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

/// M-RoPE (Qwen2-VL, Wang et al. 2024, arXiv 2409.12191): the rotary pairs are split into consecutive sections; the
/// pairs of section s turn by the angle of the token's position on axis s (temporal, height, width) and keep the
/// frequencies that they have in plain RoPE. A token of text has the same position on all axes, and the bits of Rope.
///
/// The `position` of a token is its row in `positions` [tokens, 3], which is borrowed: rows may be written until a
/// forward reads them. A layer counts rows by the cache's length, or takes them from Options::positions, as for a batch
/// whose sequences share one list.
template <class Style = HalfSplit, class C = void>
class MultimodalRope : public detail::TableRotation<Style, C> {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::position;
  static constexpr const char* name = Style::adjacent ? "interleaved multimodal rope" : "half-split multimodal rope";
  using Sections = std::array<Index, 3>;  ///< pairs that turn with time, height, width

  /// `sections`: the number of pairs of each axis, together rotary_dim/2. Errors: an empty table, other sections,
  /// positions that are not [tokens, 3].
  MultimodalRope(RopeTable<C> table, const Sections& sections, View<const Index, 2> positions)
      : detail::TableRotation<Style, C>(std::move(table)), sections_(sections), list_(positions) {
    raise_unless_ok(check());
  }

  /// Errors: a table that is proportional to another head_dim.
  void prepare(Index head_dim) { this->check_pair_dim(head_dim); }

  void rotate(C* row, Index position) const noexcept {
    Index first = 0;
    for (std::size_t axis = 0; axis < sections_.size(); ++axis) {
      const Index at = list_(position, static_cast<Index>(axis));
      this->rotate_pairs(row, first, sections_[axis], table_.cos(at) + first, table_.sin(at) + first);
      first += sections_[axis];
    }
  }

  /// Whether the table knows what stands in a row of the list. A layer asks before it rotates.
  Status check_position(Index position) const noexcept {
    for (Index axis = 0; axis < list_.extent[1]; ++axis)
      if (const Index at = list_(position, axis); at < 0 || at >= table_.positions())
        return Status::invalid("positions", "given {} on axis {} of row {}, allowed 0 to {}", at, axis, position,
                               table_.positions() - 1);
    return {};
  }

  /// Rows of the list.
  Index positions() const noexcept { return list_.extent[0]; }
  detail::ByteRange memory() const noexcept { return detail::bytes_of(list_); }
  /// As Rope::identity, with the sections; what stands in the list does not count.
  std::uint64_t identity() const noexcept {
    std::uint64_t id = detail::TableRotation<Style, C>::identity();
    for (const Index pairs : sections_) id = detail::identity_with(id, static_cast<std::uint64_t>(pairs));
    return id;
  }
  const Sections& sections() const noexcept { return sections_; }  ///< as constructed

 private:
  Status check() const noexcept {
    const auto [time, height, width] = sections_;
    const Index pairs = table_.rotary_dim() / 2;
    if (table_.empty()) return Status::invalid("table", "given an empty one, allowed one with positions");
    if (time < 0 || height < 0 || width < 0 || time > pairs || height > pairs || width > pairs ||
        time + height + width != pairs)
      return Status::invalid("sections", "given {}, {}, {} pairs, allowed rotary_dim/2 = {} together", time, height,
                             width, pairs);
    return detail::check_shape("positions", list_, {list_.extent[0], 3});
  }

  using detail::TableRotation<Style, C>::table_;

  Sections sections_;
  View<const Index, 2> list_;
};

/// The policy before a layer gives it its compute type.
template <class Style>
class MultimodalRope<Style, void> : public detail::Unbound<PolicyKind::position, MultimodalRope, Style> {};

static_assert(Position<MultimodalRope<HalfSplit, float>, float>);

}  // namespace lockstep
