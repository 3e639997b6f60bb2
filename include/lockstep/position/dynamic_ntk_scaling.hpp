// Dynamic NTK scaling: the base grows with the length of the sequence.
#pragma once

#include "lockstep/position/frequencies.hpp"

namespace lockstep {

/// base' = base growth^(dim/(dim-2)), growth = factor length/original_length - (factor - 1), for a sequence of `length`
/// tokens; plain RoPE up to original_length ("NTK-aware" scaling, Peng et al. 2023, arXiv 2309.00071, 3.1 and 3.3;
/// "dynamic" in Hugging Face configurations).
///
/// So f_i' = f_i growth^(-2i/(dim-2)): the highest frequency stays, the lowest is divided by growth. A table is of one
/// length: keys rotated for another one do not go with it.
struct DynamicNtkScaling {
  double factor = 1;          ///< at least 1
  Index original_length = 0;  ///< the context length in training
  Index length = 0;           ///< of the sequence at hand

  Status check(const RopeConfig&) const noexcept {
    if (Status s = detail::check_factor(factor); !s.ok()) return s;
    if (Status s = detail::check_length("original_length", original_length, 1); !s.ok()) return s;
    return detail::check_length("length", length, 0);
  }

  double apply(const RopeConfig& config, std::span<double> frequencies) const noexcept {
    const double beyond = length > original_length ? static_cast<double>(length - original_length) : 0;
    const double growth = fma(factor, quotient(beyond, static_cast<double>(original_length)), 1.0);
    // Pair 0 keeps its frequency, also where dim = 2 leaves nothing to divide by.
    for (std::size_t i = 1; i < frequencies.size(); ++i) {
      const double exponent = quotient(-2 * static_cast<double>(i), static_cast<double>(config.pair_dim() - 2));
      frequencies[i] = rounded(frequencies[i] * power(growth, exponent));
    }
    return 1;
  }
};
static_assert(FrequencyScaling<DynamicNtkScaling>);

}  // namespace lockstep
