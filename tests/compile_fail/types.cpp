// expect: the element type must be float, double, Eigen::half or Eigen::bfloat16
// expect: the mask does not offer what concept Mask asks
// expect: the mask does not offer what concept Mask asks, const and noexcept
// expect: x must be a matrix
// expect: y must be a writable matrix
// expect: the cache's storage must be computed in the layer's compute type
// expect: the position policy does not offer what concept Position asks
// expect: the logit transform does not offer what concept LogitTransform asks
// expect: Heads must be at least 1, or Dynamic
// expect: two caches given, at most one is allowed
// expect: the weights' storage must be computed in the layer's compute type
// expect: the executor does not offer what concept Executor asks
// expect: the executor does not offer what concept Executor asks
// expect: the mask does not offer what concept Mask asks, const and noexcept
// expect: the logit transform does not offer what concept LogitTransform asks, const and noexcept
// expect: the cache must be of the layer's own type
// expect: draft trees are offered under kernels Tiled and Specification
// expect: an_error_text_needs_as_many_places_as_values|consteval function .*ErrorText
// expect: an_error_text_needs_as_many_places_as_values|consteval function .*ErrorText
// expect: two values of one type given, at most one is allowed
// expect: no matching (member )?function
// Element types, storage and policies that lack something.
#include <lockstep/lockstep.hpp>

#include <Eigen/Core>

namespace ls = lockstep;

using Element = float;
using Mask = ls::Causal;
using Storage = ls::ContiguousCache<float>;
using Position = ls::NoPosition;
using Logits = ls::Scaled;
using Executor = ls::Serial;

struct WithoutNeed {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  ls::KeyRange range(ls::QueryRow, ls::Index kv_len) const noexcept { return {0, kv_len}; }
  ls::Visibility block(ls::QueryRow, ls::KeyRange) const noexcept { return ls::Visibility::all; }
  bool visible(ls::QueryRow, ls::Index) const noexcept { return true; }
};
struct ThrowingPair : ls::Causal {
  bool visible(ls::QueryRow, ls::Index) const { return true; }
};
struct CheckMayThrow : ls::Causal {
  ls::Status check() const { return {}; }
};
struct SaysOneNumber : ls::Causal {
  ls::Status check() const noexcept {
#if LOCKSTEP_BAD == 18
    return ls::Status::invalid("mask", "given {}, allowed {}", 1);
#elif LOCKSTEP_BAD == 19
    return ls::Status::invalid("mask", "given {:d}", 1);
#else
    return ls::Status::invalid("mask", "given {}", 1);
#endif
  }
};
struct TransformMayThrow : ls::Scaled {
  float apply(float s, ls::QueryRow, ls::Index) const { return s; }
  void apply(float*, ls::QueryRow, ls::KeyRange) const {}
};
struct RotatesFloatsOnly {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::position;
  void rotate(const float*, ls::Index) noexcept {}
  ls::Index rotary_dim() const noexcept { return 2; }
  ls::Index positions() const noexcept { return 2; }
};
struct WithoutBlockForm {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::logits;
  double scale(ls::Index) const noexcept { return 1; }
  float apply(float s, ls::QueryRow, ls::Index) const noexcept { return s; }
};
struct WithoutConcurrency {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::executor;
  template <class F>
  void run(ls::Index n, F&& f) const {
    for (ls::Index i = 0; i < n; ++i) f(i);
  }
};

struct RunsFunctionPointersOnly {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::executor;
  ls::Index concurrency() const noexcept { return 1; }
  void run(ls::Index n, void (*f)(ls::Index) noexcept) const {
    for (ls::Index i = 0; i < n; ++i) f(i);
  }
};

#if LOCKSTEP_BAD == 1
using Layer = ls::Attention<int, 4, 2>;
#elif LOCKSTEP_BAD == 2
using Layer = ls::Attention<Element, 4, 2, WithoutNeed>;
#elif LOCKSTEP_BAD == 3
using Layer = ls::Attention<Element, 4, 2, ThrowingPair>;
#elif LOCKSTEP_BAD == 6
using Layer = ls::Attention<Element, 4, 2, ls::ContiguousCache<double>>;
#elif LOCKSTEP_BAD == 7
using Layer = ls::Attention<Element, 4, 2, RotatesFloatsOnly>;
#elif LOCKSTEP_BAD == 8
using Layer = ls::Attention<Element, 4, 2, WithoutBlockForm>;
#elif LOCKSTEP_BAD == 9
using Layer = ls::Attention<Element, 0, 2>;
#elif LOCKSTEP_BAD == 10
using Layer = ls::Attention<Element, 4, 2, ls::ContiguousCache<>, ls::ContiguousCache<Eigen::half>>;
#elif LOCKSTEP_BAD == 11
using Layer = ls::Attention<Element, 4, 2, ls::WeightStorage<double>>;
#elif LOCKSTEP_BAD == 12
using Layer = ls::Attention<Element, 4, 2, WithoutConcurrency>;
#elif LOCKSTEP_BAD == 13
using Layer = ls::Attention<Element, 4, 2, RunsFunctionPointersOnly>;
#elif LOCKSTEP_BAD == 14
using Layer = ls::Attention<Element, 4, 2, CheckMayThrow>;
#elif LOCKSTEP_BAD == 15
using Layer = ls::Attention<Element, 4, 2, TransformMayThrow>;
#elif LOCKSTEP_BAD == 17
using Layer = ls::Attention<Element, 4, 2, ls::Materialized>;
#else
using Layer = ls::Attention<Element, 4, 2, Mask, Storage, Position, Logits, Executor>;
#endif

template <class L>
void use(const L& layer) {
#if LOCKSTEP_BAD == 4
  const Eigen::MatrixXd x(1, 8);
#else
  const Eigen::MatrixXf x(1, 8);
#endif
#if LOCKSTEP_BAD == 5
  Eigen::MatrixXi y(1, 8);
#else
  Eigen::MatrixXf y(1, 8);
#endif
  layer.forward(x, y);
#if LOCKSTEP_BAD == 16
  ls::RingCache<Element> cache(layer.cache_shape(), 4);
#else
  auto cache = layer.make_cache(4);
#endif
#if LOCKSTEP_BAD == 16 || LOCKSTEP_BAD == 17
  const ls::Index parents[] = {-1};
  layer.forward_tree(x, parents, cache, y);
#else
  (void)cache;
#endif
}

void use(const ls::LayerWeights<Element>& weights) {
#if LOCKSTEP_BAD == 20
  const Layer layer{{.hidden = 8, .head_dim = 2}, weights, ls::Causal{}, ls::Causal{}};
#else
  const Layer layer{{.hidden = 8, .head_dim = 2}, weights, ls::Causal{}};
#endif
  use(layer);
}

struct Shifts {
#if LOCKSTEP_BAD == 21
  void shift(float*, ls::Index) const {}
#else
  void shift(float*, ls::Index) const noexcept {}
#endif
  ls::Status check_shift(ls::Index) const noexcept { return {}; }
};
void use(Storage& cache) { cache.drop_oldest(0, Shifts{}); }

int main() {}
