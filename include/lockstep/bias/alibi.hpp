// ALiBi: each head lowers a logit in proportion to the distance of its key.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "lockstep/bias/add.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/numeric/power.hpp"

namespace lockstep {

/// The slope of a head (Press et al. 2021, arXiv 2108.12409, and the authors' code for other head counts): with n the
/// largest power of two up to `heads`, 2^(-8 (h + 1) / n) for the first n heads; the others take the slopes of 2 n
/// heads in turn, every second one from the first: 2^(-4 (2 (h - n) + 1) / n). Error: max_power_error_ulp, before it is
/// rounded to the compute type.
inline double alibi_slope(Index head, Index heads) noexcept {
  Index n = 1;
  while (n <= heads / 2) n *= 2;
  const Index steps = head < n ? 2 * (head + 1) : 2 * (head - n) + 1;
  return power(2, -4 * static_cast<double>(steps) / static_cast<double>(n));
}

/// logit = fma(slope of the head, float(key place - query place), logit): 0 for the query's own key, falling towards
/// the past, rising towards the future (which causal masks hide). No rotary positions are needed. `Alibi<>` takes the
/// layer's compute type; a layer gives a default-constructed one the slopes of its head count. Copies share the slopes.
///
/// Cost at 2048 tokens, head_dim 128, 8 heads on Emerald Rapids: 2 %.
template <class C = void>
class Alibi {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::bias;
  static constexpr const char* name = "alibi";

  /// No slopes yet.
  Alibi() noexcept = default;
  // Moving copies: a layer would give what is left the usual slopes.
  Alibi(const Alibi&) noexcept = default;
  Alibi& operator=(const Alibi&) noexcept = default;
  /// The slopes of that many heads. Errors: a number below 1 or above 2^31.
  explicit Alibi(Index heads) { prepare(heads); }
  /// The caller's own slopes [heads], as positive numbers; copied.
  explicit Alibi(View<const C, 1> slopes) {
    raise_unless_ok(detail::check_shape("slopes", slopes, slopes.extent));
    auto own = std::make_shared<std::vector<C>>(static_cast<std::size_t>(slopes.extent[0]));
    for (Index h = 0; h < slopes.extent[0]; ++h) {
      if (!std::isfinite(slopes(h)))
        raise(Status::invalid("slopes", "given {} for head {}, allowed finite numbers", slopes(h), h));
      (*own)[static_cast<std::size_t>(h)] = slopes(h);
    }
    slopes_ = std::move(own);
  }

  void prepare(Index heads) {
    if (slopes_ != nullptr) return;
    constexpr Index most = Index{1} << 31;
    if (heads < 1 || heads > most) raise(Status::invalid("heads", "given slopes for {}, allowed 1 to 2^31", heads));
    const FloatEnvironment environment;
    auto own = std::make_shared<std::vector<C>>(static_cast<std::size_t>(heads));
    for (Index h = 0; h < heads; ++h) (*own)[static_cast<std::size_t>(h)] = static_cast<C>(alibi_slope(h, heads));
    slopes_ = std::move(own);
  }
  Status check(Index heads) const noexcept {
    if (this->heads() != heads)
      return Status::invalid("bias", "given slopes of {} heads, allowed {}", this->heads(), heads);
    return {};
  }

  Index heads() const noexcept { return slopes_ == nullptr ? 0 : static_cast<Index>(slopes_->size()); }
  /// The factor on key place - query place.
  C slope(Index head) const noexcept { return (*slopes_)[static_cast<std::size_t>(head)]; }

  C apply(C logit, QueryRow q, Index key) const noexcept {
    return fma(slope(q.head), static_cast<C>(key - q.place), logit);
  }
  void apply(C* s, QueryRow q, KeyRange keys) const noexcept {
    // So near that distances are exact in every compute type, stepwise too.
    constexpr Index near = Index{1} << 23;
    const Index first = keys.first - q.place;
    if (first > -near && first < near && keys.size() < near)
      return with_set(instruction_set(),
                      [&](auto set) { add_slope(set, s, keys.size(), slope(q.head), static_cast<C>(first)); });
    for (Index i = 0; i < keys.size(); ++i) s[i] = apply(s[i], q, keys.first + i);
  }

 private:
  std::shared_ptr<const std::vector<C>> slopes_;
};

/// The policy before a layer gives it its compute type.
template <>
class Alibi<void> : public detail::Unbound<PolicyKind::bias, Alibi> {};

static_assert(LogitBias<Alibi<float>, float> && LogitBias<Alibi<double>, double>);

}  // namespace lockstep
