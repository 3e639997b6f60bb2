// The causal mask with the first query's place given by the caller instead of the cache length.
#pragma once

#include <span>

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Visible: key <= offset + row. A negative offset is allowed: rows with offset + row < 0 see nothing and give zeros.
/// One offset for all sequences, or one for each (borrowed, at least as many as the call has sequences), -2^62 to 2^62.
class OffsetCausal {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "causal from a given offset";

  OffsetCausal() noexcept = default;
  /// The place of row 0 in every sequence.
  explicit OffsetCausal(Index offset) noexcept : offset_(offset) {}
  /// The place of row 0 in each sequence; borrowed.
  explicit OffsetCausal(std::span<const Index> offsets) noexcept : offsets_(offsets), each_(true) {}

  KeyRange range(QueryRow q, Index kv_len) const noexcept {
    const KeyRange seen = intersection({0, last(q) + 1}, {0, kv_len});
    return seen.empty() ? KeyRange{} : seen;
  }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::all; }
  bool visible(QueryRow q, Index key) const noexcept { return key <= last(q); }
  Index keys_needed(QueryRow q) const noexcept { return last(q) + 1; }

  Status check() const noexcept { return allowed(offset_); }
  Status check(Index sequences, Index, Index) const noexcept {
    if (!each_) return {};
    if (static_cast<Index>(offsets_.size()) < sequences)
      return Status::invalid("mask", "given %zu offsets, allowed one for each of %" PRId64 " sequences",
                             offsets_.size(), sequences);
    for (Index b = 0; b < sequences; ++b)
      if (Status s = allowed(offsets_[static_cast<std::size_t>(b)]); !s.ok()) return s;
    return {};
  }

 private:
  static Status allowed(Index offset) noexcept {
    return detail::check_offset(offset).ok()
               ? Status{}
               : Status::invalid("mask", "given an offset of %" PRId64 ", allowed -2^62 to 2^62", offset);
  }
  Index last(QueryRow q) const noexcept {
    return (each_ ? offsets_[static_cast<std::size_t>(q.sequence)] : offset_) + q.row;
  }

  Index offset_ = 0;
  std::span<const Index> offsets_;
  bool each_ = false;
};

static_assert(Mask<OffsetCausal>);

}  // namespace lockstep
