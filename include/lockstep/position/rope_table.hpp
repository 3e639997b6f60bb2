// Cosines and sines of rotary positions: computed in double, rounded once, shared by all layers of a model.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/numeric/trig.hpp"
#include "lockstep/position/scaling.hpp"
#include "lockstep/simd/sets.hpp"
#include "lockstep/views.hpp"

namespace lockstep {

#define LOCKSTEP_EACH_SET "lockstep/position/fill.inl"
#include "lockstep/simd/each_fma.inl"

namespace detail {

/// The identity `id` with one more word in it; every word and its place counts, a difference in one bit changes half of
/// the result's. The finish of splitmix64 (Steele, Lea and Flood 2014).
constexpr std::uint64_t identity_with(std::uint64_t id, std::uint64_t word) noexcept {
  std::uint64_t z = (id ^ word) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return z != 0 ? z : 1;  // 0 is no table
}

}  // namespace detail

/// A handle to a table [positions, rotary_dim/2] of cosines and of sines in compute type C; copies share it.
template <class C = float>
class RopeTable {
 public:
  RopeTable() noexcept = default;
  // Moving copies: a layer would make the usual table of what is left.
  RopeTable(const RopeTable&) noexcept = default;
  RopeTable& operator=(const RopeTable&) noexcept = default;

  /// Plain RoPE. Errors: an odd rotary_dim or one below 2 or above 2^31, a base that is not positive and finite,
  /// positions below 0, a proportional_to that is odd or below rotary_dim.
  explicit RopeTable(const RopeConfig& config) : RopeTable(config, Unscaled{}) {}

  /// With frequencies scaled for a longer context (LinearScaling, DynamicNtkScaling, YarnScaling, Llama3Scaling,
  /// LongRopeScaling or one of your own). Angles, cosines and sines in double, times the magnitude, each rounded once.
  /// Errors besides: those of scaling.check(); frequencies that are negative or not finite, or whose angles exceed
  /// 2^31; proportional_to with a magnitude other than 1, which pairs that do not turn would lack.
  template <FrequencyScaling S>
  RopeTable(const RopeConfig& config, const S& scaling) {
    raise_unless_ok(make(config, scaling));
  }

  /// The caller's own cosines and sines, both [positions, rotary_dim/2]; copied. A row may be a position, or a token
  /// with angles of its own: then Options::positions of a forward says which row is whose.
  RopeTable(View<const C, 2> cos, View<const C, 2> sin) {
    raise_unless_ok(check("cos", cos, cos.extent));
    raise_unless_ok(check("sin", sin, cos.extent));
    const Index positions = cos.extent[0], pairs = cos.extent[1];
    auto data = std::make_shared<Data>();
    data->pair_dim = 2 * pairs;
    data->identity = detail::identity_with(static_cast<std::uint64_t>(pairs), 0);
    const auto [own_cos, own_sin] = data->own(positions, pairs);
    for (Index p = 0; p < positions; ++p)
      for (Index i = 0; i < pairs; ++i) {
        own_cos[p * pairs + i] = cos(p, i);
        own_sin[p * pairs + i] = sin(p, i);
        for (const C number : {cos(p, i), sin(p, i)})
          data->identity =
              detail::identity_with(data->identity, std::bit_cast<std::uint64_t>(static_cast<double>(number)));
      }
    data_ = std::move(data);
  }

  /// The same without a copy, each row without gaps: for tokens whose angles are known only when they come. Rows may be
  /// written until a forward reads them, and the memory must outlive every copy of the handle.
  static RopeTable borrowed(View<const C, 2> cos, View<const C, 2> sin) {
    for (const auto& [name, view] : {std::pair{"cos", &cos}, {"sin", &sin}}) {
      raise_unless_ok(check(name, *view, cos.extent));
      if (view->extent[1] > 1 && view->stride[1] != 1)
        raise(Status::invalid(name, "given numbers of a row {} apart, allowed 1", view->stride[1]));
    }
    auto data = std::make_shared<Data>();
    data->cos = cos;
    data->sin = sin;
    data->pair_dim = 2 * cos.extent[1];
    data->identity = detail::identity_with(static_cast<std::uint64_t>(cos.extent[1]), 1);
    RopeTable table;
    table.data_ = std::move(data);
    return table;
  }

  bool empty() const noexcept { return data_ == nullptr; }  ///< no table yet
  /// How many numbers of a row are rotated.
  Index rotary_dim() const noexcept { return empty() ? 0 : 2 * data_->cos.extent[1]; }
  /// The width that their pairs are formed in: rotary_dim, or head_dim for proportional partial rotary.
  Index pair_dim() const noexcept { return empty() ? 0 : data_->pair_dim; }
  Index positions() const noexcept { return empty() ? 0 : data_->cos.extent[0]; }
  /// The rotary_dim/2 cosines of a position, times the magnitude.
  const C* cos(Index position) const noexcept { return data_->cos.data + data_->cos.offset(position, 0); }
  /// The sines alike.
  const C* sin(Index position) const noexcept { return data_->sin.data + data_->sin.offset(position, 0); }
  /// All cosines [positions, rotary_dim/2]; absent without a table.
  View<const C, 2> cosines() const noexcept { return empty() ? View<const C, 2>{} : data_->cos; }
  /// All sines alike.
  View<const C, 2> sines() const noexcept { return empty() ? View<const C, 2>{} : data_->sin; }
  /// Angle per position of each pair, scaled; empty for the caller's own cosines and sines.
  std::span<const double> inverse_frequencies() const noexcept {
    return empty() ? std::span<const double>{} : std::span<const double>(data_->frequencies);
  }
  /// The factor on every cosine and sine; 1 for the caller's own, which are taken as they are.
  double magnitude() const noexcept { return empty() ? 1 : data_->magnitude; }
  /// Tells tables apart by rotary_dim, pairs, inverse frequencies and magnitude, not by the number of positions; the
  /// caller's own by all their numbers, and borrowed ones by their width alone. The same on every machine; 0 for an
  /// empty handle.
  std::uint64_t identity() const noexcept { return empty() ? 0 : data_->identity; }

 private:
  struct Data {
    /// Memory for all cosines, then all sines.
    std::pair<C*, C*> own(Index positions, Index pairs) {
      owned = std::make_unique_for_overwrite<C[]>(static_cast<std::size_t>(2 * positions * pairs));
      C* const sines = owned.get() + positions * pairs;
      cos = View<const C, 2>::contiguous(owned.get(), {positions, pairs});
      sin = View<const C, 2>::contiguous(sines, {positions, pairs});
      return {owned.get(), sines};
    }
    View<const C, 2> cos{}, sin{};  // [positions, pairs]
    Index pair_dim = 0;
    std::unique_ptr<C[]> owned{};
    std::vector<double> frequencies{};
    double magnitude = 1;
    std::uint64_t identity = 0;
  };

  /// What the constructor does. Errors are returned: where raising does not unwind, the host's floating-point
  /// environment must be back before.
  template <class S>
  Status make(const RopeConfig& config, const S& scaling) {
    if (Status s = check(config); !s.ok()) return s;
    const FloatEnvironment environment;
    if (Status s = scaling.check(config); !s.ok()) return s;
    std::vector<double> frequencies(static_cast<std::size_t>(config.rotary_dim / 2));
    detail::plain_frequencies(config, frequencies);
    const double magnitude = scaling.apply(config, frequencies);
    if (Status s = check(config, frequencies, magnitude); !s.ok()) return s;

    auto data = std::make_shared<Data>();
    data->pair_dim = config.pair_dim();
    data->magnitude = magnitude;
    data->identity = detail::identity_with(static_cast<std::uint64_t>(config.rotary_dim),
                                           static_cast<std::uint64_t>(config.pair_dim()));
    for (const double f : frequencies)
      data->identity = detail::identity_with(data->identity, std::bit_cast<std::uint64_t>(f));
    data->identity = detail::identity_with(data->identity, std::bit_cast<std::uint64_t>(magnitude));
    const auto own = data->own(config.positions, config.rotary_dim / 2);
    with_fma([&](auto set) {
      fill_rows(set, 0, config.positions, frequencies.data(), config.rotary_dim / 2, magnitude, own.first, own.second);
    });
    data->frequencies = std::move(frequencies);
    data_ = std::move(data);
    return {};
  }

  static Status check(const char* name, View<const C, 2> view, const std::array<Index, 2>& allowed) noexcept {
    if (view.extent[0] > detail::size_limit || view.extent[1] > detail::size_limit / 2)
      return Status::invalid(name, "given {}, allowed up to 2^31 positions of 2^30 pairs", view.extent);
    return detail::check_shape(name, view, allowed);
  }
  static Status check(const RopeConfig& config) noexcept {
    if (config.rotary_dim < 2 || config.rotary_dim % 2 != 0 || config.rotary_dim > detail::size_limit)
      return Status::invalid("rotary_dim", "given {}, allowed even numbers from 2 to 2^31", config.rotary_dim);
    if (!(config.base > 0) || !std::isfinite(config.base))
      return Status::invalid("base", "given {}, allowed positive finite numbers", config.base);
    if (Status s = detail::check_length("positions", config.positions, 0); !s.ok()) return s;
    if (config.pair_dim() < config.rotary_dim || config.pair_dim() % 2 != 0 || config.pair_dim() > detail::size_limit)
      return Status::invalid("proportional_to", "given {}, allowed 0 or even numbers from rotary_dim {} to 2^31",
                             config.proportional_to, config.rotary_dim);
    // Below 1 a base raises frequencies above 1, at most to 1/base; sines are good up to angles of 2^31.
    if (static_cast<double>(config.positions) / config.base > max_sin_cos_angle)
      return Status::invalid("base", "given {} with {} positions, allowed angles up to 2^31", config.base,
                             config.positions);
    return {};
  }

  /// What came out of the scaling.
  static Status check(const RopeConfig& config, std::span<const double> frequencies, double magnitude) noexcept {
    for (const double f : frequencies)
      if (!(f >= 0) || !(f * static_cast<double>(config.positions) <= max_sin_cos_angle))
        return Status::invalid(
            "scaling",
            "given an inverse frequency of {} with {} positions, allowed numbers from 0 and angles up to 2^31", f,
            config.positions);
    if (Status s = detail::check_magnitude(magnitude); !s.ok()) return s;
    if (config.pair_dim() != config.rotary_dim && magnitude != 1)
      return Status::invalid("proportional_to",
                             "given with a magnitude of {}, allowed 1: pairs that do not turn would not grow",
                             magnitude);
    return {};
  }

  std::shared_ptr<const Data> data_;
};

}  // namespace lockstep
