// No position: queries and keys stay as projected.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

/// No positions in queries and keys: the default.
struct NoPosition {
  static constexpr PolicyKind policy_kind = PolicyKind::position;
  static constexpr const char* name = "none";
  template <class C>
  void rotate(C*, Index) const noexcept {}
  template <class C>
  void shift(View<C, 2>, Index) const noexcept {}
  template <class C>
  void shift(C*, Index) const noexcept {}
  Status check_shift(Index) const noexcept { return {}; }
  Index rotary_dim() const noexcept { return 0; }
  Index positions() const noexcept { return std::numeric_limits<Index>::max(); }
  std::uint64_t identity() const noexcept { return 0; }
};

static_assert(Position<NoPosition, float>);

}  // namespace lockstep
