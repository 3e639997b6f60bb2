// A user's mask for the library: another mask, with each sequence's first query at a place that the case gives.
#pragma once

#include <span>

#include <lockstep/concepts.hpp>

#include "case.hpp"

namespace cases {

/// `mask` as it would be if the query of row i stood at offsets[sequence] + i, wherever the call puts it.
template <lockstep::Mask M>
class Placed {
 public:
  static constexpr lockstep::PolicyKind policy_kind = lockstep::PolicyKind::mask;

  Placed() = default;
  Placed(M mask, std::span<const Index> offsets) : mask_(mask), offsets_(offsets) {}

  lockstep::KeyRange range(lockstep::QueryRow q, Index kv_len) const noexcept { return mask_.range(moved(q), kv_len); }
  lockstep::Visibility block(lockstep::QueryRow q, lockstep::KeyRange keys) const noexcept {
    return mask_.block(moved(q), keys);
  }
  bool visible(lockstep::QueryRow q, Index key) const noexcept { return mask_.visible(moved(q), key); }
  Index keys_needed(lockstep::QueryRow q) const noexcept { return mask_.keys_needed(moved(q)); }
  lockstep::Status check() const noexcept { return mask_.check(); }

 private:
  lockstep::QueryRow moved(lockstep::QueryRow q) const noexcept {
    q.place = offsets_[static_cast<std::size_t>(q.sequence)] + q.row;
    return q;
  }

  M mask_;
  std::span<const Index> offsets_;
};

}  // namespace cases
