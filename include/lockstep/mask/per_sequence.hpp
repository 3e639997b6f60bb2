// What masks have in common that see keys from the first one on, up to a number of each sequence's own.
#pragma once

#include <span>

#include "lockstep/concepts.hpp"

namespace lockstep::detail {

/// A row sees the keys before `keys_needed(q)` of the mask M, which says of a number by `allowed(n)` what is wrong with
/// it, and by `numbers` what they are called.
template <class M>
class PerSequence {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::mask;

  PerSequence() noexcept = default;
  /// One number for every sequence.
  explicit PerSequence(Index number) noexcept : number_(number) {}
  /// One for each sequence; borrowed.
  explicit PerSequence(std::span<const Index> numbers) noexcept : numbers_(numbers), each_(true) {}

  KeyRange range(QueryRow q, Index kv_len) const noexcept {
    const KeyRange seen = intersection({0, mask().keys_needed(q)}, {0, kv_len});
    return seen.empty() ? KeyRange{} : seen;
  }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::all; }
  bool visible(QueryRow q, Index key) const noexcept { return key < mask().keys_needed(q); }

  Status check() const noexcept { return M::allowed(number_); }
  Status check(Index sequences, Index, Index) const noexcept {
    if (!each_) return {};
    if (static_cast<Index>(numbers_.size()) < sequences)
      return Status::invalid("mask", "given {} {}, allowed one for each of {} sequences", numbers_.size(), M::numbers,
                             sequences);
    for (const Index number : numbers_.first(static_cast<std::size_t>(sequences)))
      if (Status s = M::allowed(number); !s.ok()) return s;
    return {};
  }

 protected:
  Index number(QueryRow q) const noexcept { return each_ ? numbers_[static_cast<std::size_t>(q.sequence)] : number_; }

 private:
  const M& mask() const noexcept { return static_cast<const M&>(*this); }

  Index number_ = 0;
  std::span<const Index> numbers_;
  bool each_ = false;
};

}  // namespace lockstep::detail
