// The inverse frequencies of rotary pairs, and how models scale them for longer contexts.
#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/contract.hpp"
#include "lockstep/numeric/log.hpp"

namespace lockstep {

/// What a rotary table is made of. The angle of pair i at position p is p base^(-2i/dim), dim = pair_dim().
///
/// Where only a part of a head is rotated, models differ in the dim that the exponents and the pairs are taken from:
/// - partial (GPT-NeoX, GPT-J, Phi): `rotary_dim` alone. Exponents over rotary_dim, pairs within the first rotary_dim
///   numbers of the row.
/// - proportional (Gemma 4): `proportional_to` = head_dim besides. Exponents and pairs are those of the whole head, and
///   only the first rotary_dim/2 pairs turn. Half-split, these are (i, i + head_dim/2).
/// Both agree at position 0 and drift apart with the position.
struct RopeConfig {
  Index rotary_dim = 0;       ///< numbers of a head row that are rotated; even. A layer that builds its own table takes
                              ///< head_dim for 0
  double base = 10000;        ///< the theta of model configurations
  Index positions = 4096;     ///< positions 0 .. positions - 1 are in the table
  Index proportional_to = 0;  ///< head_dim for proportional partial rotary; 0: partial

  /// The width that exponents and pairs are taken from.
  constexpr Index pair_dim() const noexcept { return proportional_to != 0 ? proportional_to : rotary_dim; }
};

/// A context extension: changes the plain inverse frequencies base^(-2i/dim) of a table, in double.
/// - `check(config)`: ok, or which of its own numbers is wrong.
/// - `apply(config, frequencies)`: scales the frequencies of pairs 0, 1, ... in place and returns the magnitude, the
///   factor on every cosine and sine (1 where the kind has none). Called after a check that was ok.
template <class S>
concept FrequencyScaling = requires(const S& s, const RopeConfig& config, std::span<double> frequencies) {
  { s.check(config) } noexcept -> std::same_as<Status>;
  { s.apply(config, frequencies) } noexcept -> std::same_as<double>;
};

/// Plain RoPE.
struct Unscaled {
  Status check(const RopeConfig&) const noexcept { return {}; }
  double apply(const RopeConfig&, std::span<double>) const noexcept { return 1; }
};
static_assert(FrequencyScaling<Unscaled>);

namespace detail {

inline constexpr double two_pi = 0x1.921fb54442d18p+2;

/// base^(-2i/dim) for pairs 0, 1, ...; errors: max_power_error_ulp.
inline void plain_frequencies(const RopeConfig& config, std::span<double> frequencies) noexcept {
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = power(config.base, quotient(-2 * static_cast<double>(i), static_cast<double>(config.pair_dim())));
}

/// frequency (1 - share) + frequency / factor share; exactly one of the two for a share of 0 or 1.
inline double interpolated(double frequency, double factor, double share) noexcept {
  return fma(frequency, rounded(1 - share), rounded(quotient(frequency, factor) * share));
}

/// x within [0, 1].
inline double clamped(double x) noexcept { return x < 0 ? 0 : x > 1 ? 1 : x; }

inline Status check_factor(double factor) noexcept {
  if (!(factor >= 1) || !std::isfinite(factor))
    return Status::invalid("factor", "given {}, allowed finite numbers from 1", factor);
  return {};
}

inline Status check_magnitude(double magnitude) noexcept {
  if (!(magnitude > 0) || !std::isfinite(magnitude))
    return Status::invalid("magnitude", "given {}, allowed positive finite numbers; 1 switches it off", magnitude);
  return {};
}

inline Status check_length(const char* name, Index length, Index least) noexcept {
  if (length < least || length > size_limit)
    return Status::invalid(name, "given {}, allowed {} to 2^31", length, least);
  return {};
}

}  // namespace detail

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
    return first_error(detail::check_factor(factor), detail::check_length("original_length", original_length, 1),
                       detail::check_length("length", length, 0));
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

/// Where the ramp begins and ends.
enum class YarnRamp {
  whole_pairs,  ///< at whole pairs, rounded outwards: the paper's code and `truncate: true`
  exact,        ///< between pairs: `truncate: false`
};

/// 0.1 weight ln(factor) + 1. DeepSeek's mscale and mscale_all_dim are the weights of two of these, and their quotient
/// is the magnitude.
inline double yarn_magnitude(double factor, double weight = 1) noexcept {
  const FloatEnvironment environment;
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
  /// Its first and last pair.
  std::pair<double, double> ramp_ends(const RopeConfig& config) const noexcept {
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

static_assert(FrequencyScaling<LinearScaling> && FrequencyScaling<DynamicNtkScaling> && FrequencyScaling<YarnScaling> &&
              FrequencyScaling<Llama3Scaling> && FrequencyScaling<LongRopeScaling>);

}  // namespace lockstep
