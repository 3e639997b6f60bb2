// The causal mask: a query sees its own key and all before it; with the first query's place given by the caller instead
// of the cache length; with a prefix that all see; and no mask: every key that is present.
#pragma once

#include <Eigen/Core>
#include <limits>
#include <span>

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Visible: key <= place, where place = offset + row and offset is the number of keys before the first query. With a
/// cache this is the bottom-right aligned triangle; for a whole prompt (offset 0) the usual one (Vaswani et al. 2017).
struct Causal {
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "causal";

  KeyRange range(QueryRow q, Index kv_len) const noexcept { return intersection({0, q.place + 1}, {0, kv_len}); }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::all; }
  bool visible(QueryRow q, Index key) const noexcept { return key <= q.place; }
  Index keys_needed(QueryRow q) const noexcept { return q.place + 1; }
};

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

static_assert(Mask<Causal> && Mask<NoMask> && Mask<OffsetCausal> && Mask<PrefixLm>);

/// The additive matrix [q_len, kv_len] of the causal mask: 0 where query i sees key j (j <= i + offset), minus infinity
/// elsewhere. Errors: a length below 0, an offset beyond 2^62 on either side.
template <class T = float>
Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> causal_mask(Index q_len, Index kv_len, Index offset) {
  constexpr Index most = std::numeric_limits<Eigen::Index>::max();
  if (q_len < 0 || kv_len < 0 || q_len > most || kv_len > most)
    raise(Status::invalid("q_len, kv_len", "given {}, {}, allowed 0 to {} each", q_len, kv_len, most));
  raise_unless_ok(detail::check_offset(offset));
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> mask(q_len, kv_len);
  for (Index i = 0; i < q_len; ++i)
    for (Index j = 0; j < kv_len; ++j)
      mask(i, j) = Causal{}.visible({.row = i, .place = i + offset}, j) ? T(0) : -std::numeric_limits<T>::infinity();
  return mask;
}

}  // namespace lockstep
