// Root-mean-square normalisation of queries and keys between projection and attention.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "lockstep/concepts.hpp"
#include "lockstep/simd/sets.hpp"

namespace lockstep {

#define LOCKSTEP_EACH_SET "lockstep/norm/rms.inl"
#include "lockstep/simd/each_set.inl"

/// x = x / sqrt(mean of squares + epsilon), times a weight for each number, in place (Zhang and Sennrich 2019, arXiv
/// 1910.07467). The sum of squares has 16 lanes, lane d mod 16, folded (i, i + 8), (i, i + 4), (i, i + 2), (i, i + 1);
/// every other step is rounded once. Error: below 8 units in the last place for rows of up to 256 numbers.
template <class C>
void rms_norm(C* x, const C* weight, Index n, C epsilon) noexcept {
  with_set(instruction_set(), [&](auto set) { rms_norm(set, x, weight, n, epsilon); });
}

/// The norm comes before the rotation, as in Qwen 3 and Gemma 3.
struct BeforeRope {
  static constexpr bool before_rotation = true;
};
/// The norm comes after the rotation.
struct AfterRope {
  static constexpr bool before_rotation = false;
};

/// Each head row is normalised alone; weights [head_dim] serve all heads (Qwen 3, Gemma 3).
struct PerHead {
  static constexpr bool whole = false;  ///< one norm a head
  static constexpr const char* name = "rms norm of each head";
};
/// All heads of a token are normalised as one row; weights [heads head_dim] and [kv_heads head_dim] (OLMo 2).
struct WholeWidth {
  static constexpr bool whole = true;  ///< one norm over all heads
  static constexpr const char* name = "rms norm of all heads";
};

/// Root-mean-square normalisation of queries and keys, each with a learned weight. Gemma's checkpoints hold the weight
/// minus 1: add it. `QkNorm<Order, Scope>` takes the layer's compute type; its value is a `Layer::Norm`. Copies share
/// the weights.
template <class Order = BeforeRope, class Scope = PerHead, class C = void>
class QkNorm {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::norm;
  static constexpr const char* name = Scope::name;
  static constexpr bool active = true;
  static constexpr bool before_rotation = Order::before_rotation;

  /// No weights yet, which every layer refuses.
  QkNorm() noexcept = default;
  /// Weights as stored, copied. Errors: an epsilon that is negative or not finite, more than 2^31 weights.
  template <Element S>
    requires std::same_as<compute_t<S>, C>
  QkNorm(View<const S, 1> query_weight, View<const S, 1> key_weight, double epsilon = 1e-6) {
    if (!(epsilon >= 0 && epsilon <= static_cast<double>(std::numeric_limits<C>::max())))
      raise(Status::invalid("epsilon", "given {}, allowed finite numbers from 0", epsilon));
    weights_ = std::make_shared<const Weights>(
        Weights{detail::copied<C>("query_norm", query_weight), detail::copied<C>("key_norm", key_weight)});
    const FloatEnvironment environment;
    epsilon_ = static_cast<C>(epsilon);
  }

  Status check(Index heads, Index kv_heads, Index head_dim) const noexcept {
    const Index query = Scope::whole ? heads * head_dim : head_dim, key = Scope::whole ? kv_heads * head_dim : head_dim;
    const Index given_query = weights_ == nullptr ? 0 : static_cast<Index>(weights_->query.size()),
                given_key = weights_ == nullptr ? 0 : static_cast<Index>(weights_->key.size());
    if (given_query != query) return Status::invalid("query_norm", "given {} weights, allowed {}", given_query, query);
    if (given_key != key) return Status::invalid("key_norm", "given {} weights, allowed {}", given_key, key);
    return {};
  }

  void query(C* rows, Index heads, Index head_dim) const noexcept {
    normalise(rows, heads, head_dim, weights_->query.data());
  }
  void key(C* rows, Index kv_heads, Index head_dim) const noexcept {
    normalise(rows, kv_heads, head_dim, weights_->key.data());
  }

 private:
  struct Weights {
    std::vector<C> query, key;
  };
  void normalise(C* rows, Index heads, Index head_dim, const C* weight) const noexcept {
    if constexpr (Scope::whole)
      rms_norm(rows, weight, heads * head_dim, epsilon_);
    else
      for (Index h = 0; h < heads; ++h) rms_norm(rows + h * head_dim, weight, head_dim, epsilon_);
  }

  std::shared_ptr<const Weights> weights_;
  C epsilon_ = 0;
};

/// The policy before a layer gives it its compute type.
template <class Order, class Scope>
class QkNorm<Order, Scope, void> : public detail::Unbound<PolicyKind::norm, QkNorm, Order, Scope> {
 public:
  static constexpr bool active = true;
};

static_assert(QueryKeyNorm<QkNorm<BeforeRope, PerHead, float>, float> &&
              QueryKeyNorm<QkNorm<AfterRope, WholeWidth, double>, double>);

}  // namespace lockstep
