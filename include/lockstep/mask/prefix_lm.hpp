// The prefix language model's mask: the prefix is seen by every row, the rest causally.
#pragma once

#include "lockstep/mask/per_sequence.hpp"

namespace lockstep {

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

static_assert(Mask<PrefixLm>);

}  // namespace lockstep
