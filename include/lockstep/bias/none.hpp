// No bias: logits stay as the transform left them.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

/// No bias: the default.
struct NoBias {
  static constexpr PolicyKind policy_kind = PolicyKind::bias;
  static constexpr const char* name = "none";
  template <class C>
  C apply(C logit, QueryRow, Index) const noexcept {
    return logit;
  }
  template <class C>
  void apply(C*, QueryRow, KeyRange) const noexcept {}
};

static_assert(LogitBias<NoBias, float> && LogitBias<NoBias, double>);

}  // namespace lockstep
