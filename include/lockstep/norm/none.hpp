// No normalisation: queries and keys go from the projection to the rotation as they are.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

/// No normalisation: the default.
struct NoNorm {
  static constexpr PolicyKind policy_kind = PolicyKind::norm;
  static constexpr const char* name = "none";
  static constexpr bool active = false;
  static constexpr bool before_rotation = true;
  template <class C>
  void query(C*, Index, Index) const noexcept {}
  template <class C>
  void key(C*, Index, Index) const noexcept {}
};

static_assert(QueryKeyNorm<NoNorm, float> && QueryKeyNorm<NoNorm, double>);

}  // namespace lockstep
