// A user's mask for the library: any pattern of visible keys, given as flags for every head and row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/concepts.hpp>

#include "case.hpp"

namespace cases {

/// Flags that broadcast from the right to [batch, heads, q_len, kv_len], true where a key is visible.
/// Keys beyond the last axis are hidden.
class FlagMask {
 public:
  static constexpr lockstep::PolicyKind policy_kind = lockstep::PolicyKind::mask;

  FlagMask() = default;

  /// `flags` must outlive the mask. An axis of extent 1 stands for all of its indices, except the last one.
  FlagMask(const Tensor& flags, const std::vector<Index>& broadcast_to) : flags_(flags.values.data()) {
    const std::size_t missing = 4 - std::min<std::size_t>(4, flags.shape.size());
    if (flags.shape.size() > 4 || flags.shape.empty())
      throw BadCase("mask: given rank " + std::to_string(flags.shape.size()) + ", allowed 1 to 4");
    Index step = 1;
    for (std::size_t axis = 4; axis-- > missing;) {
      const Index extent = flags.shape[axis - missing];
      const bool spread = extent == 1 && axis != 3;
      if (axis == 3 ? extent > broadcast_to[3] : !spread && extent != broadcast_to[axis])
        throw BadCase("mask: " + to_text(flags.shape) + " does not broadcast to " + to_text(broadcast_to));
      stride_[axis] = spread ? 0 : step;
      step *= extent;
    }
    keys_ = flags.shape.back();
  }

  /// The same mask for a call that begins at this sequence and row.
  FlagMask from(Index sequence, Index row) const {
    FlagMask moved = *this;
    moved.flags_ += sequence * stride_[0] + row * stride_[2];
    return moved;
  }

  lockstep::KeyRange range(lockstep::QueryRow, Index kv_len) const noexcept { return {0, std::min(kv_len, keys_)}; }

  lockstep::Visibility block(lockstep::QueryRow query, lockstep::KeyRange keys) const noexcept {
    Index seen = 0;
    for (Index key = keys.first; key < keys.last; ++key) seen += visible(query, key) ? 1 : 0;
    if (seen == 0) return lockstep::Visibility::none;
    return seen == keys.size() ? lockstep::Visibility::all : lockstep::Visibility::some;
  }

  bool visible(lockstep::QueryRow query, Index key) const noexcept {
    return key < keys_ &&
           flags_[query.sequence * stride_[0] + query.head * stride_[1] + query.row * stride_[2] + key] != 0;
  }

  Index keys_needed(lockstep::QueryRow query) const noexcept {
    Index needed = keys_;
    while (needed > 0 && !visible(query, needed - 1)) --needed;
    return needed;
  }

 private:
  const double* flags_ = nullptr;
  Index stride_[4] = {};
  Index keys_ = 0;
};

static_assert(lockstep::Mask<FlagMask>);

}  // namespace cases
