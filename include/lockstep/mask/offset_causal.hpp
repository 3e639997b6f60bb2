// The causal mask with the first query's place given by the caller instead of the cache length.
#pragma once

#include "lockstep/mask/per_sequence.hpp"

namespace lockstep {

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

static_assert(Mask<OffsetCausal>);

}  // namespace lockstep
