// Grouped-query attention: consecutive query heads share one kv head.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Query head h reads kv head h / group_size, group_size = heads / kv_heads (Ainslie et al. 2023, arXiv 2305.13245).
/// group_size 1 is multi-head, kv_heads 1 multi-query attention. The sharing is genuine: a group loads each key once.
struct Grouped {
  static constexpr PolicyKind policy_kind = PolicyKind::heads;
  static constexpr const char* name = "grouped";
  static constexpr bool accepts(Index heads, Index kv_heads) noexcept {
    return kv_heads >= 1 && heads >= kv_heads && heads % kv_heads == 0;
  }
  Index kv_head(Index head, Index heads, Index kv_heads) const noexcept { return head / (heads / kv_heads); }
};

static_assert(HeadSharing<Grouped>);

}  // namespace lockstep
