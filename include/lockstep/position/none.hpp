// No position: queries and keys stay as projected.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

struct NoPosition {
  static constexpr PolicyKind policy_kind = PolicyKind::position;
  static constexpr const char* name = "none";
  template <class C>
  void rotate(C*, Index) const noexcept {}
  Index rotary_dim() const noexcept { return 0; }
  Index positions() const noexcept { return std::numeric_limits<Index>::max(); }
};

static_assert(Position<NoPosition, float>);

}  // namespace lockstep
