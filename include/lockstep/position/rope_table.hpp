// Cosines and sines of rotary positions: computed in double, rounded once, shared by all layers of a model.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "lockstep/numeric/power.hpp"
#include "lockstep/numeric/trig.hpp"
#include "lockstep/views.hpp"

namespace lockstep {

struct RopeConfig {
  Index rotary_dim =
      0;  ///< numbers of a head row that are rotated; even. A layer that builds its own table takes head_dim for 0
  double base = 10000;     ///< angle of pair i at position p: p base^(-2i/rotary_dim)
  Index positions = 4096;  ///< positions 0 .. positions - 1 are in the table
};

/// A handle to a table [positions, rotary_dim/2] of cosines and of sines in compute type C; copies share it.
template <class C = float>
class RopeTable {
 public:
  RopeTable() noexcept = default;

  /// Angles, cosines and sines in double, each rounded once. Errors: an odd rotary_dim or one below 2 or above 2^31, a
  /// base that is not positive and finite, positions below 0.
  explicit RopeTable(const RopeConfig& config) {
    raise_unless_ok(check(config));
    const FloatEnvironment environment;
    auto data = std::make_shared<Data>(config.rotary_dim, config.positions);
    std::vector<double> frequency(static_cast<std::size_t>(data->pairs));
    for (Index i = 0; i < data->pairs; ++i)
      frequency[static_cast<std::size_t>(i)] =
          power(config.base, -2 * static_cast<double>(i) / static_cast<double>(config.rotary_dim));
    for (Index p = 0; p < data->positions; ++p)
      for (Index i = 0; i < data->pairs; ++i) {
        const SinCos angle = sin_cos(static_cast<double>(p) * frequency[static_cast<std::size_t>(i)]);
        data->cos[static_cast<std::size_t>(p * data->pairs + i)] = static_cast<C>(angle.cos);
        data->sin[static_cast<std::size_t>(p * data->pairs + i)] = static_cast<C>(angle.sin);
      }
    data_ = std::move(data);
  }

  /// The caller's own cosines and sines, both [positions, rotary_dim/2]; copied.
  RopeTable(View<const C, 2> cos, View<const C, 2> sin) {
    raise_unless_ok(detail::check_shape("cos", cos, cos.extent));
    raise_unless_ok(detail::check_shape("sin", sin, cos.extent));
    auto data = std::make_shared<Data>(2 * cos.extent[1], cos.extent[0]);
    for (Index p = 0; p < data->positions; ++p)
      for (Index i = 0; i < data->pairs; ++i) {
        data->cos[static_cast<std::size_t>(p * data->pairs + i)] = cos(p, i);
        data->sin[static_cast<std::size_t>(p * data->pairs + i)] = sin(p, i);
      }
    data_ = std::move(data);
  }

  bool empty() const noexcept { return data_ == nullptr; }
  Index rotary_dim() const noexcept { return empty() ? 0 : 2 * data_->pairs; }
  Index positions() const noexcept { return empty() ? 0 : data_->positions; }
  /// The rotary_dim/2 cosines of a position.
  const C* cos(Index position) const noexcept { return data_->cos.data() + position * data_->pairs; }
  const C* sin(Index position) const noexcept { return data_->sin.data() + position * data_->pairs; }

 private:
  struct Data {
    Data(Index rotary_dim, Index positions_)
        : pairs(rotary_dim / 2),
          positions(positions_),
          cos(static_cast<std::size_t>(pairs * positions)),
          sin(static_cast<std::size_t>(pairs * positions)) {}
    Index pairs, positions;
    std::vector<C> cos, sin;
  };

  static Status check(const RopeConfig& config) noexcept {
    if (config.rotary_dim < 2 || config.rotary_dim % 2 != 0 || config.rotary_dim > (Index{1} << 31))
      return Status::invalid("rotary_dim", "given %" PRId64 ", allowed even numbers from 2 to 2^31", config.rotary_dim);
    if (!(config.base > 0) || !std::isfinite(config.base))
      return Status::invalid("base", "given %g, allowed positive finite numbers", config.base);
    if (config.positions < 0 || config.positions > (Index{1} << 31))
      return Status::invalid("positions", "given %" PRId64 ", allowed 0 to 2^31", config.positions);
    // Below 1 a base raises frequencies above 1, at most to 1/base; sines are good up to angles of 2^31.
    if (static_cast<double>(config.positions) / config.base > 0x1p31)
      return Status::invalid("base", "given %g with %" PRId64 " positions, allowed angles up to 2^31", config.base,
                             config.positions);
    return {};
  }

  std::shared_ptr<const Data> data_;
};

}  // namespace lockstep
