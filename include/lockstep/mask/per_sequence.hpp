// Masks that see keys from the first one on, up to a number of each sequence's own: the causal mask with the first
// query's place given by the caller instead of the cache length, and the prefix language model's mask.
#pragma once

#include <span>

#include "lockstep/concepts.hpp"

namespace lockstep {

namespace detail {

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
    return intersection({0, mask().keys_needed(q)}, {0, kv_len});
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
  ByteRange memory() const noexcept { return bytes_of(numbers_); }

 protected:
  Index number(QueryRow q) const noexcept { return each_ ? numbers_[static_cast<std::size_t>(q.sequence)] : number_; }

 private:
  const M& mask() const noexcept { return static_cast<const M&>(*this); }

  Index number_ = 0;
  std::span<const Index> numbers_;
  bool each_ = false;
};

}  // namespace detail

/// Visible: key <= offset + row, the offset being the place of row 0. A negative one is allowed: rows with offset + row
/// < 0 see nothing and give zeros. One offset for all sequences, or one for each (borrowed, at least as many as the
/// call has sequences), -2^62 to 2^62.
class OffsetCausal : public detail::PerSequence<OffsetCausal> {
 public:
  static constexpr const char* name = "causal from a given offset";
  using PerSequence::PerSequence;

  Index keys_needed(QueryRow q) const noexcept { return number(q) + q.row + 1; }

 private:
  friend PerSequence;
  static constexpr const char* numbers = "offsets";
  static Status allowed(Index offset) noexcept {
    return detail::check_offset(offset).ok()
               ? Status{}
               : Status::invalid("mask", "given an offset of {}, allowed -2^62 to 2^62", offset);
  }
};

/// Visible: key < prefix, or key <= place (Raffel et al. 2020, section 3.2.1). One prefix length for all sequences, or
/// one for each (borrowed, at least as many as the call has sequences). 0 is Causal. A row inside the prefix sees later
/// keys, so the whole prefix must be present with it: a chunk that ends within the prefix is refused. Refused: lengths
/// below 0.
class PrefixLm : public detail::PerSequence<PrefixLm> {
 public:
  static constexpr const char* name = "prefix LM";
  using PerSequence::PerSequence;

  Index keys_needed(QueryRow q) const noexcept {
    const Index prefix = number(q);
    return q.place + 1 > prefix ? q.place + 1 : prefix;
  }

 private:
  friend PerSequence;
  static constexpr const char* numbers = "prefix lengths";
  static Status allowed(Index prefix) noexcept {
    return prefix < 0 ? Status::invalid("mask", "given a prefix of {} keys, allowed at least 0", prefix) : Status{};
  }
};

static_assert(Mask<OffsetCausal> && Mask<PrefixLm>);

}  // namespace lockstep
