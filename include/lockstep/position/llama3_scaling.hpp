// Llama 3.1's scaling: three bands of wavelengths.
#pragma once

#include "lockstep/position/frequencies.hpp"

namespace lockstep {

/// By the number of turns n = original_length f / (2 pi) that a pair makes within the original length: f' = f/factor
/// below low_frequency_factor turns, f above high_frequency_factor, and between them the mixture of both that is linear
/// in n (The Llama 3 Herd of Models, 2024, arXiv 2407.21783, and its published code; "llama3" in Hugging Face
/// configurations).
struct Llama3Scaling {
  double factor = 8;                 ///< new length over old, at least 1
  Index original_length = 8192;      ///< the context length before the extension
  double low_frequency_factor = 1;   ///< turns below which a pair is scaled in full
  double high_frequency_factor = 4;  ///< turns above which it is left alone

  Status check(const RopeConfig&) const noexcept {
    if (Status s = detail::check_factor(factor); !s.ok()) return s;
    if (Status s = detail::check_length("original_length", original_length, 1); !s.ok()) return s;
    if (!(low_frequency_factor > 0) || !(high_frequency_factor > low_frequency_factor) ||
        !std::isfinite(high_frequency_factor))
      return Status::invalid("low_frequency_factor, high_frequency_factor",
                             "given {}, {}, allowed finite numbers 0 < low < high", low_frequency_factor,
                             high_frequency_factor);
    return {};
  }

  double apply(const RopeConfig&, std::span<double> frequencies) const noexcept {
    const double band = rounded(high_frequency_factor - low_frequency_factor);
    for (double& f : frequencies) {
      const double turns = quotient(rounded(static_cast<double>(original_length) * f), detail::two_pi);
      f = detail::interpolated(f, factor, detail::clamped(quotient(rounded(high_frequency_factor - turns), band)));
    }
    return 1;
  }
};
static_assert(FrequencyScaling<Llama3Scaling>);

}  // namespace lockstep
