// The plain policy of each kind, taken where none is given: what is small and needs no header of its own.
#pragma once

#include <cmath>
#include <limits>

#include "lockstep/concepts.hpp"

namespace lockstep {

/// Query head h reads kv head h / group_size, group_size = heads / kv_heads (Ainslie et al. 2023, arXiv 2305.13245).
/// group_size 1 is multi-head, kv_heads 1 multi-query attention. The sharing is genuine: a group loads each key once.
struct Grouped {
  static constexpr PolicyKind policy_kind = PolicyKind::heads;
  static constexpr const char* name = "grouped";
  static constexpr bool accepts(Index heads, Index kv_heads) noexcept {
    return kv_heads >= 1 && heads >= kv_heads && heads % kv_heads == 0;
  }
  Index kv_head(Index head, Index heads, Index kv_heads) const noexcept { return head / (heads / kv_heads); }
};

static_assert(HeadSharing<Grouped>);

/// logit = scale (q . k), scale = 1/sqrt(head_dim) unless given (Vaswani et al. 2017). The scale multiplies the query,
/// in the compute type, before the dot product.
struct Scaled {
  static constexpr PolicyKind policy_kind = PolicyKind::logits;
  static constexpr const char* name = "scaled";
  double given = 0;  ///< 0: 1/sqrt(head_dim)

  double scale(Index head_dim) const noexcept {
    return given != 0 ? given : 1 / std::sqrt(static_cast<double>(head_dim));
  }
  template <class C>
  C apply(C logit, QueryRow, Index) const noexcept {
    return logit;
  }
  template <class C>
  void apply(C*, QueryRow, KeyRange) const noexcept {}
};

static_assert(LogitTransform<Scaled, float> && LogitTransform<Scaled, double>);

/// No positions in queries and keys: the default.
struct NoPosition {
  static constexpr PolicyKind policy_kind = PolicyKind::position;
  static constexpr const char* name = "none";
  template <class C>
  void rotate(C*, Index) const noexcept {}
  template <class C>
  void shift(View<C, 2>, Index) const noexcept {}
  template <class C>
  void shift(C*, Index) const noexcept {}
  Status check_shift(Index) const noexcept { return {}; }
  Index rotary_dim() const noexcept { return 0; }
  Index positions() const noexcept { return std::numeric_limits<Index>::max(); }
  std::uint64_t identity() const noexcept { return 0; }
};

static_assert(Position<NoPosition, float>);

/// No bias: the default.
struct NoBias {
  static constexpr PolicyKind policy_kind = PolicyKind::bias;
  static constexpr const char* name = "none";
  template <class C>
  C apply(C logit, QueryRow, Index) const noexcept {
    return logit;
  }
  template <class C>
  void apply(C*, QueryRow, KeyRange) const noexcept {}
};

static_assert(LogitBias<NoBias, float> && LogitBias<NoBias, double>);

/// No sinks: the default.
struct NoSinks {
  static constexpr PolicyKind policy_kind = PolicyKind::sinks;
  static constexpr const char* name = "none";
  static constexpr bool active = false;
  float logit(Index) const noexcept { return -std::numeric_limits<float>::infinity(); }
};

static_assert(SinkLogits<NoSinks, float> && SinkLogits<NoSinks, double>);

/// No normalisation: the default.
struct NoNorm {
  static constexpr PolicyKind policy_kind = PolicyKind::norm;
  static constexpr const char* name = "none";
  static constexpr bool active = false;
  static constexpr bool before_rotation = true;
  template <class C>
  void query(C*, Index, Index) const noexcept {}
  template <class C>
  void key(C*, Index, Index) const noexcept {}
};

static_assert(QueryKeyNorm<NoNorm, float> && QueryKeyNorm<NoNorm, double>);

/// Runs the tasks one after the other: the default.
struct Serial {
  static constexpr PolicyKind policy_kind = PolicyKind::executor;
  static constexpr const char* name = "serial";
  Index concurrency() const noexcept { return 1; }
  template <class F>
  void run(Index n, F&& f) const {
    for (Index i = 0; i < n; ++i) f(i);
  }
};

static_assert(Executor<Serial>);

}  // namespace lockstep
