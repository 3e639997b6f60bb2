// The inverse frequencies of rotary pairs, and what it takes to scale them for longer contexts.
#pragma once

#include <cmath>
#include <concepts>
#include <span>

#include "lockstep/contract.hpp"
#include "lockstep/numeric/power.hpp"

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
  if (length < least || length > (Index{1} << 31))
    return Status::invalid(name, "given {}, allowed {} to 2^31", length, least);
  return {};
}

}  // namespace detail

}  // namespace lockstep
