// No mask: every query sees every key that is present.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Bidirectional attention. Rows see keys that come later, so a layer takes it in one full forward only: a cached
/// forward, whose later chunks would have changed earlier rows, is refused. attend() takes it over whatever keys it is
/// given.
struct NoMask {
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "none";

  KeyRange range(QueryRow, Index kv_len) const noexcept { return {0, kv_len}; }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::all; }
  bool visible(QueryRow, Index) const noexcept { return true; }
  Index keys_needed(QueryRow) const noexcept { return all_keys; }
};

static_assert(Mask<NoMask>);

}  // namespace lockstep
