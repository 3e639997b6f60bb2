// Which policy is taken where none is given: the one header that names concrete policies for the layer and for
// attend().
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

#include "lockstep/cache/contiguous.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/dropout/dropout.hpp"
#include "lockstep/kernel/tiled.hpp"
#include "lockstep/mask/causal.hpp"
#include "lockstep/mask/compose.hpp"
#include "lockstep/plain.hpp"
#include "lockstep/projection/packed.hpp"

namespace lockstep {

namespace detail {

template <class P>
concept Policy = requires {
  { P::policy_kind } -> std::convertible_to<PolicyKind>;
};

template <PolicyKind Kind, class Default, class... Ps>
struct SelectPolicy {
  using type = Default;
};
template <PolicyKind Kind, class Default, class P, class... Ps>
struct SelectPolicy<Kind, Default, P, Ps...> : SelectPolicy<Kind, Default, Ps...> {};
template <PolicyKind Kind, class Default, class P, class... Ps>
  requires OfKind<P, Kind>
struct SelectPolicy<Kind, Default, P, Ps...> {
  using type = P;
};

// A policy that is only a name until it knows its element type says so by `rebind`.
template <class P, class T>
struct Rebind {
  using type = P;
};
template <class P, class T>
  requires requires { typename P::template rebind<T>; }
struct Rebind<P, T> {
  using type = typename P::template rebind<T>;
};

// Which of a constructor's values stands for a policy: the one of its very type, else one that converts to it.
template <class P, class V>
inline constexpr bool stands_for = std::same_as<P, std::remove_cvref_t<V>> || std::convertible_to<V, P>;

template <class P>
P pick_policy() {
  return P{};
}
template <class P, class V, class... Vs>
P pick_policy(V&& value, Vs&&... values) {
  static_assert((!std::same_as<std::remove_cvref_t<V>, std::remove_cvref_t<Vs>> && ...),
                "lockstep: two values of one type given, at most one is allowed");
  if constexpr (!stands_for<P, V> ||
                (!std::same_as<P, std::remove_cvref_t<V>> && (std::same_as<P, std::remove_cvref_t<Vs>> || ...)))
    return pick_policy<P>(std::forward<Vs>(values)...);
  else
    return P(std::forward<V>(value));
}

template <class Sharing>
constexpr bool shares(Index heads, Index kv_heads) noexcept {
  if constexpr (AcceptsHeads<Sharing>)
    return Sharing::accepts(heads, kv_heads);
  else
    return heads >= 1 && kv_heads >= 1;
}

/// Refuses head numbers that the sharing cannot map, or maps beyond the kv heads.
template <class Sharing>
Status check_heads(const Sharing& sharing, Index heads, Index kv_heads) noexcept {
  if (heads < 1 || kv_heads < 1 || heads >= size_limit || !shares<Sharing>(heads, kv_heads))
    return Status::invalid("heads", "given {} query heads over {} kv heads, allowed multiples of these below 2^31",
                           heads, kv_heads);
  for (Index h = 0; h < heads; ++h) {
    const Index g = sharing.kv_head(h, heads, kv_heads);
    if (g < 0 || g >= kv_heads)
      return Status::invalid("head sharing", "given kv head {} for query head {}, allowed 0 to {}", g, h, kv_heads - 1);
  }
  return {};
}

/// Refuses a logit transform's own numbers, and a factor on the query that is none in the compute type C.
template <class C, class L>
Status check_logits(const L& logits, Index head_dim) noexcept {
  if (Status s = check_policy(logits); !s.ok()) return s;
  constexpr auto least = static_cast<double>(std::numeric_limits<C>::min()),
                 most = static_cast<double>(std::numeric_limits<C>::max());
  const double scale = logits.scale(head_dim), size = scale < 0 ? -scale : scale;
  if (scale != 0 && !(size >= least && size <= most))
    return Status::invalid("scale", "given {}, allowed numbers from {} to {} in size, or 0", scale, least, most);
  return {};
}

template <class P>
constexpr const char* name_of() noexcept {
  if constexpr (requires { static_cast<const char*>(P::name); })
    return P::name;
  else
    return "user-defined";
}

}  // namespace detail

/// The policies of a layer with element type T: those of the pack, in any order, and the usual one for each kind that
/// is not given.
template <Element T, class... Ps>
struct PolicySet {
  static_assert((detail::Policy<Ps> && ...),
                "lockstep: every type after the head numbers must be a policy, that is, have a member policy_kind");

  /// The policy of a kind.
  template <PolicyKind Kind, class Default>
  using Select = typename detail::SelectPolicy<Kind, Default, Ps...>::type;
  /// Whether a kind is given once or not at all.
  template <PolicyKind Kind>
  static constexpr bool at_most_one = (0 + ... + int{detail::OfKind<Ps, Kind>}) <= 1;

  static_assert(at_most_one<PolicyKind::position>, "lockstep: two position policies given, at most one is allowed");
  static_assert(at_most_one<PolicyKind::mask>,
                "lockstep: two masks given, at most one is allowed; combine them with And<A, B>");
  static_assert(at_most_one<PolicyKind::heads>, "lockstep: two head-sharing policies given, at most one is allowed");
  static_assert(at_most_one<PolicyKind::logits>, "lockstep: two logit transforms given, at most one is allowed");
  static_assert(at_most_one<PolicyKind::bias>, "lockstep: two logit biases given, at most one is allowed");
  static_assert(at_most_one<PolicyKind::sinks>, "lockstep: two kinds of sinks given, at most one is allowed");
  static_assert(at_most_one<PolicyKind::norm>, "lockstep: two q/k norms given, at most one is allowed");
  static_assert(at_most_one<PolicyKind::cache>, "lockstep: two caches given, at most one is allowed");
  static_assert(at_most_one<PolicyKind::dropout>, "lockstep: two dropout policies given, at most one is allowed");
  static_assert(at_most_one<PolicyKind::weights>, "lockstep: two weight formats given, at most one is allowed");
  static_assert(at_most_one<PolicyKind::kernel>, "lockstep: two kernels given, at most one is allowed");
  static_assert(at_most_one<PolicyKind::executor>, "lockstep: two executors given, at most one is allowed");

  using Compute = compute_t<T>;
  using Position = typename detail::Rebind<Select<PolicyKind::position, NoPosition>, Compute>::type;
  using Mask = Select<PolicyKind::mask, Causal>;
  using Sharing = Select<PolicyKind::heads, Grouped>;
  using Logits = Select<PolicyKind::logits, Scaled>;
  using Bias = typename detail::Rebind<Select<PolicyKind::bias, NoBias>, Compute>::type;
  using Sinks = typename detail::Rebind<Select<PolicyKind::sinks, NoSinks>, Compute>::type;
  using Norm = typename detail::Rebind<Select<PolicyKind::norm, NoNorm>, Compute>::type;
  using Cache = typename detail::Rebind<Select<PolicyKind::cache, ContiguousCache<>>, T>::type;
  using Dropout = Select<PolicyKind::dropout, NoDropout>;
  using Weights = typename detail::Rebind<Select<PolicyKind::weights, WeightStorage<>>, T>::type;
  using Kernel = Select<PolicyKind::kernel, Tiled>;
  using Executor = Select<PolicyKind::executor, Serial>;

  static_assert(lockstep::Position<Position, Compute>,
                "lockstep: the position policy does not offer what concept Position asks, const and noexcept");
  static_assert(lockstep::Mask<Mask>, "lockstep: the mask does not offer what concept Mask asks, const and noexcept");
  static_assert(!detail::mask_adds<Mask> || AddingMask<Mask, Compute>,
                "lockstep: the mask adds to logits of another type than those of this layer: an additive mask holds "
                "numbers of the layer's element type or of a narrower one");
  static_assert(HeadSharing<Sharing>,
                "lockstep: the head-sharing policy does not offer what concept HeadSharing asks, const and noexcept");
  static_assert(LogitTransform<Logits, Compute>,
                "lockstep: the logit transform does not offer what concept LogitTransform asks, const and noexcept");
  static_assert(LogitBias<Bias, Compute>,
                "lockstep: the bias does not offer what concept LogitBias asks, const and noexcept");
  static_assert(SinkLogits<Sinks, Compute>,
                "lockstep: the sinks do not offer what concept SinkLogits asks, const and noexcept");
  static_assert(QueryKeyNorm<Norm, Compute>,
                "lockstep: the q/k norm does not offer what concept QueryKeyNorm asks, const and noexcept");
  static_assert(KeyValueCache<Cache>, "lockstep: the cache does not offer what concept KeyValueCache asks");
  static_assert(std::same_as<compute_t<typename Cache::Storage>, Compute>,
                "lockstep: the cache's storage must be computed in the layer's compute type: double for double, float, "
                "half, bfloat16 or int8 for the others");
  static_assert(DropoutPattern<Dropout>,
                "lockstep: the dropout policy does not offer what concept DropoutPattern asks, const and noexcept");
  static_assert(WeightFormat<Weights>, "lockstep: the weight format does not offer what concept WeightFormat asks");
  static_assert(std::same_as<compute_t<typename Weights::Storage>, Compute>,
                "lockstep: the weights' storage must be computed in the layer's compute type");
  static_assert(AttentionKernel<Kernel>, "lockstep: the kernel does not offer what concept AttentionKernel asks");
  static_assert(lockstep::Executor<Executor>, "lockstep: the executor does not offer what concept Executor asks");
  static_assert(
      !requires { requires Sharing::repeats; } || requires { requires Kernel::repeats_heads; },
      "lockstep: RepeatedHeads is offered under kernel Materialized only: it exists for comparison");
};

/// Whether dropout takes part.
enum class Mode { inference, training };

}  // namespace lockstep
