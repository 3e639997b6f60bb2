// No sinks: the weights of a row sum to 1.
#pragma once

#include "lockstep/concepts.hpp"

namespace lockstep {

/// No sinks: the default.
struct NoSinks {
  static constexpr PolicyKind policy_kind = PolicyKind::sinks;
  static constexpr const char* name = "none";
  static constexpr bool active = false;
  float logit(Index) const noexcept { return -std::numeric_limits<float>::infinity(); }
};

static_assert(SinkLogits<NoSinks, float> && SinkLogits<NoSinks, double>);

}  // namespace lockstep
