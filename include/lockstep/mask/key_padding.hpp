// Key padding: flags per sequence and key that say which keys are tokens and which are padding.
#pragma once

#include "lockstep/concepts.hpp"
#include "lockstep/mask/scan.hpp"

namespace lockstep {

/// Visible: flags[sequence, key]. Any pattern; keys are counted over the whole sequence, cached ones included, so flags
/// are [batch, kv_len] (more columns than keys are allowed). Padding still counts as a place. Borrows the flags. Usual
/// use: `Causal & KeyPadding`.
class KeyPadding {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::mask;
  static constexpr const char* name = "key padding";

  KeyPadding() noexcept = default;
  /// flags [batch, kv_len]: true for tokens.
  explicit KeyPadding(View<const bool, 2> flags) noexcept : flags_(flags) {}

  KeyRange range(QueryRow, Index kv_len) const noexcept { return {0, kv_len}; }
  Visibility block(QueryRow q, KeyRange keys) const noexcept {
    return detail::scanned(keys, [&](Index key) { return visible(q, key); });
  }
  bool visible(QueryRow q, Index key) const noexcept { return flags_(q.sequence, key); }
  Index keys_needed(QueryRow) const noexcept { return all_keys; }
  KeyRange narrowed(QueryRow q, KeyRange keys) const noexcept {
    return detail::trimmed(keys, [&](Index key) { return visible(q, key); });
  }

  Status check(Index sequences, Index, Index kv_len) const noexcept {
    const std::array<Index, 2> least{sequences, kv_len};
    if (flags_.extent[0] < sequences || flags_.extent[1] < kv_len)
      return Status::invalid("mask", "given key flags {}, allowed at least {}", flags_.extent, least);
    return detail::check_shape("mask", flags_, flags_.extent);
  }

 private:
  View<const bool, 2> flags_;
};

static_assert(Mask<KeyPadding>);

}  // namespace lockstep
