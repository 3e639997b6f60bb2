// Biases by the distance of a key: a slope for each head (ALiBi), or one learned number for each head and distance, or
// for each head and bucket of distances (T5).
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "lockstep/concepts.hpp"
#include "lockstep/numeric/log.hpp"
#include "lockstep/numeric/rounded.hpp"
#include "lockstep/simd/sets.hpp"

namespace lockstep {

#define LOCKSTEP_EACH_SET "lockstep/bias/distance.inl"
#include "lockstep/simd/each_set.inl"

/// The slope of a head (Press et al. 2021, arXiv 2108.12409, and the authors' code for other head counts): with n the
/// largest power of two up to `heads`, 2^(-8 (h + 1) / n) for the first n heads; the others take the slopes of 2 n
/// heads in turn, every second one from the first: 2^(-4 (2 (h - n) + 1) / n). Error: max_power_error_ulp, before it is
/// rounded to the compute type.
inline double alibi_slope(Index head, Index heads) noexcept {
  const FloatEnvironment environment;
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
  /// The caller's own slopes [heads], as positive numbers; copied. Errors: numbers that are not finite, more than 2^31
  /// heads.
  explicit Alibi(View<const C, 1> slopes) {
    auto own = std::make_shared<const std::vector<C>>(detail::copied<C>("slopes", slopes));
    for (std::size_t h = 0; h < own->size(); ++h)
      if (!std::isfinite((*own)[h]))
        raise(Status::invalid("slopes", "given {} for head {}, allowed finite numbers", (*own)[h], h));
    slopes_ = std::move(own);
  }

  void prepare(Index heads) {
    if (slopes_ != nullptr) return;
    if (heads < 1 || heads > detail::size_limit)
      raise(Status::invalid("heads", "given slopes for {}, allowed 1 to 2^31", heads));
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

/// How T5 sorts distances into buckets (Raffel et al. 2020, arXiv 1910.10683): half of them hold one distance each, the
/// others grow by a constant factor up to max_distance, and all that is beyond shares the last one.
struct RelativeBuckets {
  Index num_buckets = 32;      ///< in both directions together
  Index max_distance = 128;    ///< from here on all share a bucket
  bool bidirectional = false;  ///< half of the buckets for keys after the query; else those count as distance 0

  /// The bucket of a key that stands `distance` = key place - query place away. A distance on the edge between two
  /// buckets belongs to the farther one.
  Index bucket(Index distance) const noexcept {
    const Index count = bidirectional ? num_buckets / 2 : num_buckets, single = count / 2;
    const Index side = bidirectional && distance > 0 ? count : 0;
    const Index past = distance > -max_distance ? -distance : max_distance;  // farther ones share a bucket
    const Index away = distance < 0 ? past : bidirectional ? distance : 0;
    if (away < single) return side + away;
    if (away >= max_distance) return side + count - 1;
    const FloatEnvironment environment;
    const double whole = static_cast<double>(single);
    const double place = log_positive(static_cast<double>(away) / whole) /
                         log_positive(static_cast<double>(max_distance) / whole) * static_cast<double>(count - single);
    // Where an edge is a whole number, the logarithms' rounding must not decide.
    constexpr double edge = 1e-12;
    const Index later = single + static_cast<Index>(place + edge * static_cast<double>(count));
    return side + (later < count - 1 ? later : count - 1);
  }

  Status check() const noexcept {
    constexpr Index limit = Index{1} << 20;
    const Index least = bidirectional ? 4 : 2;
    if (num_buckets < least || num_buckets > limit || (bidirectional && num_buckets % 2 != 0))
      return Status::invalid("num_buckets", "given {}, allowed {} numbers from {} to 2^20", num_buckets,
                             bidirectional ? "even" : "all", least);
    const Index single = (bidirectional ? num_buckets / 2 : num_buckets) / 2;
    if (max_distance <= single || max_distance > limit)
      return Status::invalid("max_distance", "given {}, allowed above {} and up to 2^20", max_distance, single);
    return {};
  }
};

/// logit = fl(logit + table[head, distance]), distance = key place - query place; the ends of the table stand for all
/// that is beyond. T5 has no scale on its logits: give Scaled{1} with its weights. `RelativeBias<>` takes the layer's
/// compute type. Copies share the table.
template <class C = void>
class RelativeBias {
 public:
  static constexpr PolicyKind policy_kind = PolicyKind::bias;
  static constexpr const char* name = "relative";

  /// No table yet, which every layer and attend() refuses.
  RelativeBias() noexcept = default;

  /// A plain table [heads, distances], its first column for distance `first`; copied. Errors: a table without columns,
  /// or of more than 2^31 numbers.
  template <Element S>
    requires std::same_as<compute_t<S>, C>
  RelativeBias(View<const S, 2> table, Index first) {
    raise_unless_ok(detail::check_shape("table", table, table.extent));
    constexpr Index limit = detail::size_limit;
    if (table.extent[1] < 1 || table.extent[1] > limit || first < -limit || first > limit)
      raise(Status::invalid("table", "given {} distances from {}, allowed at least 1 and ends within +-2^31",
                            table.extent[1], first));
    fill(table.extent[0], {first, first + table.extent[1]},
         [&](Index head, Index distance) { return static_cast<C>(table(head, distance - first)); });
  }

  /// A learned table [num_buckets, heads], as T5 checkpoints have it (relative_attention_bias.weight); copied. Errors:
  /// buckets out of range, a table of another height.
  template <Element S>
    requires std::same_as<compute_t<S>, C>
  RelativeBias(const RelativeBuckets& buckets, View<const S, 2> table) {
    raise_unless_ok(buckets.check());
    raise_unless_ok(detail::check_shape("table", table, {buckets.num_buckets, table.extent[1]}));
    fill(table.extent[1], {-buckets.max_distance, buckets.max_distance + 1},
         [&](Index head, Index distance) { return static_cast<C>(table(buckets.bucket(distance), head)); });
  }

  Status check(Index heads) const noexcept {
    const Index given = table_ == nullptr ? 0 : table_->heads;
    if (given != heads) return Status::invalid("bias", "given a table for {} heads, allowed {}", given, heads);
    return {};
  }

  C apply(C logit, QueryRow q, Index key) const noexcept {
    const KeyRange known = table_->distances;
    const Index distance = key - q.place;
    const Index at = distance < known.first ? known.first : distance < known.last ? distance : known.last - 1;
    return rounded(logit + table_->of(q.head)[at - known.first]);
  }
  void apply(C* s, QueryRow q, KeyRange keys) const noexcept {
    const KeyRange known = table_->distances;
    const C* bias = table_->of(q.head);
    // How many of the keys stand before the first distance, and before the one after the last.
    const Index n = keys.size(), first = std::clamp(q.place + known.first - keys.first, Index{0}, n),
                last = std::clamp(q.place + known.last - keys.first, first, n);
    with_set(instruction_set(), [&](auto set) {
      if (first > 0) add_numbers<0>(set, s, bias, first);
      if (last > first)
        add_numbers<1>(set, s + first, bias + (keys.first + first - q.place - known.first), last - first);
      if (n > last) add_numbers<0>(set, s + last, bias + (known.size() - 1), n - last);
    });
  }

 private:
  struct Table {
    Index heads;
    KeyRange distances;
    std::vector<C> values;  // [heads, distances]
    const C* of(Index head) const noexcept { return values.data() + head * distances.size(); }
  };
  template <class F>
  void fill(Index heads, KeyRange distances, F&& value) {
    if (heads > detail::size_limit / distances.size())
      raise(Status::invalid("table", "given {} heads of {} distances, allowed 2^31 numbers in all", heads,
                            distances.size()));
    auto table = std::make_shared<Table>(
        Table{heads, distances, std::vector<C>(static_cast<std::size_t>(heads * distances.size()))});
    for (Index h = 0; h < heads; ++h)
      for (Index d = 0; d < distances.size(); ++d)
        table->values[static_cast<std::size_t>(h * distances.size() + d)] = value(h, distances.first + d);
    table_ = std::move(table);
  }

  std::shared_ptr<const Table> table_;
};

/// The policy before a layer gives it its compute type.
template <>
class RelativeBias<void> : public detail::Unbound<PolicyKind::bias, RelativeBias> {};

static_assert(LogitBias<RelativeBias<float>, float> && LogitBias<RelativeBias<double>, double>);

}  // namespace lockstep
