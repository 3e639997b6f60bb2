// The prefix language model's mask: the prefix is seen by every row, the rest causally.
#pragma once

#include <span>

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Visible: key < prefix, or key <= place (Raffel et al. 2020, section 3.2.1). One prefix length for all sequences, or
/// one for each (borrowed, at least as many as the call has sequences). 0 is Causal. A row inside the prefix sees later
/// keys, so the whole prefix must be present with it: a chunk that ends within the prefix is refused. Refused: lengths
/// below 0.
class PrefixLm {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "prefix LM";

  PrefixLm() noexcept = default;
  /// The length of every sequence's prefix.
  explicit PrefixLm(Index prefix) noexcept : prefix_(prefix) {}
  /// The length of each sequence's prefix; borrowed.
  explicit PrefixLm(std::span<const Index> prefixes) noexcept : prefixes_(prefixes), each_(true) {}

  KeyRange range(QueryRow q, Index kv_len) const noexcept {
    const KeyRange seen = intersection({0, keys_needed(q)}, {0, kv_len});
    return seen.empty() ? KeyRange{} : seen;
  }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::all; }
  bool visible(QueryRow q, Index key) const noexcept { return key < keys_needed(q); }
  Index keys_needed(QueryRow q) const noexcept {
    const Index prefix = each_ ? prefixes_[static_cast<std::size_t>(q.sequence)] : prefix_;
    return q.place + 1 > prefix ? q.place + 1 : prefix;
  }

  Status check() const noexcept { return allowed(prefix_); }
  Status check(Index sequences, Index, Index) const noexcept {
    if (!each_) return {};
    if (static_cast<Index>(prefixes_.size()) < sequences)
      return Status::invalid("mask", "given %zu prefix lengths, allowed one for each of %" PRId64 " sequences",
                             prefixes_.size(), sequences);
    for (Index b = 0; b < sequences; ++b)
      if (Status s = allowed(prefixes_[static_cast<std::size_t>(b)]); !s.ok()) return s;
    return {};
  }

 private:
  static Status allowed(Index prefix) noexcept {
    return prefix < 0 ? Status::invalid("mask", "given a prefix of %" PRId64 " keys, allowed at least 0", prefix)
                      : Status{};
  }

  Index prefix_ = 0;
  std::span<const Index> prefixes_;
  bool each_ = false;
};

static_assert(Mask<PrefixLm>);

}  // namespace lockstep
