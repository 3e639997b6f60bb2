// YaRN: slow pairs are interpolated, fast ones stay, a ramp lies between; queries and keys grow by a magnitude.
#pragma once

#include <optional>

#include "lockstep/numeric/log.hpp"
#include "lockstep/position/frequencies.hpp"

namespace lockstep {

/// Where the ramp begins and ends.
enum class YarnRamp {
  whole_pairs,  ///< at whole pairs, rounded outwards: the paper's code and `truncate: true`
  exact,        ///< between pairs: `truncate: false`
};

/// 0.1 weight ln(factor) + 1. DeepSeek's mscale and mscale_all_dim are the weights of two of these, and their quotient
/// is the magnitude.
inline double yarn_magnitude(double factor, double weight = 1) noexcept {
  return factor > 1 ? fma(rounded(0.1 * weight), log_positive(factor), 1.0) : 1;
}

/// YaRN (Peng et al. 2023, arXiv 2309.00071): f_i' = f_i (1 - r_i) + f_i/factor r_i. The ramp r rises over the pairs
/// from 0, where a pair turns beta_fast times within the original length, to 1, where it turns beta_slow times; pair
/// i(n) = dim ln(original_length/(2 pi n)) / (2 ln base) turns n times. Cosines and sines are multiplied by the
/// magnitude, so logits by its square: sqrt(1/t) of the paper, "attention_factor" in Hugging Face configurations.
struct YarnScaling {
  double factor = 1;                      ///< new length over old, at least 1
  Index original_length = 0;              ///< the context length before the extension
  double beta_fast = 32;                  ///< turns from which on a pair is left alone
  double beta_slow = 1;                   ///< turns up to which a pair is interpolated
  YarnRamp ramp = YarnRamp::whole_pairs;  ///< `truncate` of configurations
  std::optional<double> magnitude{};      ///< the final factor, in place of yarn_magnitude(factor); 1 switches it off

  Status check(const RopeConfig& config) const noexcept {
    if (Status s = detail::check_factor(factor); !s.ok()) return s;
    if (Status s = detail::check_length("original_length", original_length, 1); !s.ok()) return s;
    if (!(beta_slow > 0) || !(beta_fast >= beta_slow) || !std::isfinite(beta_fast))
      return Status::invalid("beta_fast, beta_slow", "given {}, {}, allowed finite numbers beta_fast >= beta_slow > 0",
                             beta_fast, beta_slow);
    if (!(config.base > 1)) return Status::invalid("base", "given {}, allowed numbers above 1 for YaRN", config.base);
    if (const auto [first, last] = ramp_ends(config); first > last)
      return Status::invalid(
          "original_length",
          "given {}, allowed lengths in which some pair turns beta_slow {} times and not all turn beta_fast {} times",
          original_length, beta_slow, beta_fast);
    return magnitude ? detail::check_magnitude(*magnitude) : Status{};
  }

  double apply(const RopeConfig& config, std::span<double> frequencies) const noexcept {
    auto [first, last] = ramp_ends(config);
    if (first == last) last = rounded(last + 0.001);  // a step
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double share = detail::clamped(quotient(rounded(static_cast<double>(i) - first), rounded(last - first)));
      frequencies[i] = detail::interpolated(frequencies[i], factor, share);
    }
    return magnitude.value_or(yarn_magnitude(factor));
  }

 private:
  struct Ends {
    double first, last;
  };
  Ends ramp_ends(const RopeConfig& config) const noexcept {
    double first = pair_of_turns(config, beta_fast), last = pair_of_turns(config, beta_slow);
    if (ramp == YarnRamp::whole_pairs) {
      first = std::floor(first);
      last = std::ceil(last);
    }
    // The last end is held below dim, not dim/2, as in the paper's code.
    const double most = static_cast<double>(config.pair_dim() - 1);
    return {first > 0 ? first : 0, last < most ? last : most};
  }
  double pair_of_turns(const RopeConfig& config, double turns) const noexcept {
    const double wavelength = quotient(static_cast<double>(original_length), rounded(turns * detail::two_pi));
    return quotient(rounded(static_cast<double>(config.pair_dim()) * log_positive(wavelength)),
                    rounded(2 * log_positive(config.base)));
  }
};
static_assert(FrequencyScaling<YarnScaling>);

}  // namespace lockstep
