// LongRoPE: a searched factor for each pair, one list for short sequences and one for long ones.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "lockstep/numeric/log.hpp"
#include "lockstep/position/frequencies.hpp"

namespace lockstep {

/// LongRoPE (Ding et al. 2024, arXiv 2402.13753): f_i' = f_i / factor_i, by the long factors if the sequence is longer
/// than the original length, else by the short ones. Cosines and sines are multiplied by the magnitude, for either list
/// sqrt(1 + ln(extended_length/original_length) / ln(original_length)) unless given.
///
/// A table is of one list: keys rotated by the other one do not go with it.
struct LongRopeScaling {
  std::vector<double> short_factors{};  ///< [rotary_dim/2]
  std::vector<double> long_factors{};   ///< [rotary_dim/2]
  Index original_length = 0;            ///< the context length before the extension
  Index extended_length = 0;            ///< and after it ("max_position_embeddings")
  Index length = 0;                     ///< of the sequence at hand
  std::optional<double> magnitude{};    ///< the final factor, in place of the formula; 1 switches it off

  Status check(const RopeConfig& config) const noexcept {
    for (const auto& [name, factors] : {std::pair{"short_factors", &short_factors}, {"long_factors", &long_factors}}) {
      if (static_cast<Index>(factors->size()) != config.rotary_dim / 2)
        return Status::invalid(name, "given {} factors, allowed rotary_dim/2 = {}", factors->size(),
                               config.rotary_dim / 2);
      for (const double factor : *factors)
        if (!(factor > 0) || !std::isfinite(factor))
          return Status::invalid(name, "given {}, allowed positive finite numbers", factor);
    }
    if (Status s = detail::check_length("original_length", original_length, 2); !s.ok()) return s;
    if (Status s = detail::check_length("length", length, 0); !s.ok()) return s;
    if (magnitude) return detail::check_magnitude(*magnitude);
    return detail::check_length("extended_length", extended_length, original_length);
  }

  double apply(const RopeConfig&, std::span<double> frequencies) const noexcept {
    const std::vector<double>& factors = length > original_length ? long_factors : short_factors;
    for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = quotient(frequencies[i], factors[i]);
    if (magnitude) return *magnitude;
    const double original = static_cast<double>(original_length);
    const double growth = quotient(static_cast<double>(extended_length), original);
    return std::sqrt(rounded(1 + quotient(log_positive(growth), log_positive(original))));
  }
};
static_assert(FrequencyScaling<LongRopeScaling>);

}  // namespace lockstep
