// Position interpolation: every angle divided by one factor.
#pragma once

#include "lockstep/position/frequencies.hpp"

namespace lockstep {

/// f' = f / factor: `factor` times the positions in the angles that the model was trained on (Chen et al. 2023, arXiv
/// 2306.15595). "linear" in Hugging Face configurations.
struct LinearScaling {
  double factor = 1;  ///< new length over old, at least 1

  Status check(const RopeConfig&) const noexcept { return detail::check_factor(factor); }

  double apply(const RopeConfig&, std::span<double> frequencies) const noexcept {
    for (double& f : frequencies) f = quotient(f, factor);
    return 1;
  }
};
static_assert(FrequencyScaling<LinearScaling>);

}  // namespace lockstep
