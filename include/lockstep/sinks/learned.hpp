// Attention sinks: a learned logit for each head that takes weight away from the keys.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/concepts.hpp"

namespace lockstep {

/// weights = softmax over [logits of the visible keys, sink of the head], of which the last is left out (gpt-oss; Xiao
/// et al. 2023, arXiv 2309.17453, as a key of zeros). The sink is in natural units, beyond scale, soft-cap and bias; it
/// joins once, after all keys. A row that sees no key gives zeros, and the sink as its log-sum-exp. `LearnedSinks<>`
/// takes the layer's compute type. Copies share the numbers.
template <class C = void>
class LearnedSinks {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::sinks;
  static constexpr const char* name = "learned";
  static constexpr bool active = true;

  /// No sinks yet, which every layer and attend() refuses.
  LearnedSinks() noexcept = default;
  /// One logit a query head [heads], as stored; copied. -inf is no sink. Errors: NaN and +inf, more than 2^31 heads.
  template <Element S>
    requires std::same_as<compute_t<S>, C>
  explicit LearnedSinks(View<const S, 1> logits) {
    auto own = std::make_shared<const std::vector<C>>(detail::copied<C>("sinks", logits));
    for (std::size_t h = 0; h < own->size(); ++h)
      if (!((*own)[h] < std::numeric_limits<C>::infinity()))
        raise(Status::invalid("sinks", "given {} for head {}, allowed finite numbers and -inf", (*own)[h], h));
    logits_ = std::move(own);
  }

  C logit(Index head) const noexcept { return (*logits_)[static_cast<std::size_t>(head)]; }
  Status check(Index heads) const noexcept {
    const Index given = logits_ == nullptr ? 0 : static_cast<Index>(logits_->size());
    if (given != heads)
      return Status::invalid("sinks", "given {} logits, allowed one for each of {} heads", given, heads);
    return {};
  }

 private:
  std::shared_ptr<const std::vector<C>> logits_;
};

/// The policy before a layer gives it its compute type.
template <>
class LearnedSinks<void> : public detail::Unbound<PolicyKind::sinks, LearnedSinks> {};

static_assert(SinkLogits<LearnedSinks<float>, float> && SinkLogits<LearnedSinks<double>, double>);

}  // namespace lockstep
