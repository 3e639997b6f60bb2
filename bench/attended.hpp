// One call of attend() with all that it needs taken beforehand, and the check of its result.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/attend.hpp"
#include "lockstep/kernel/specification.hpp"
#include "numbers.hpp"

namespace bench {

/// FLOP of causal attention: a row that sees n keys multiplies and adds 2 n head_dim numbers.
inline double causal_flops(Index q_len, Index kv_len, Index heads, Index head_dim) {
  const auto q = static_cast<double>(q_len), kv = static_cast<double>(kv_len);
  return 4 * static_cast<double>(heads * head_dim) * (q * (kv - q) + q * (q + 1) / 2);
}

/// All query heads of a call read one kv head: what the check of one group asks of the specification.
struct OneKvHead {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::heads;
  Index kv_head_ = 0;
  Index kv_head(Index, Index, Index) const noexcept { return kv_head_; }
};

/// Queries [batch, q_len, heads, head_dim] and the options of a call over caches that store S.
template <class S, class... Policies>
class Attended {
 public:
  using Cache = ls::ContiguousCache<S>;
  using C = ls::compute_t<S>;
  using Options = ls::AttendOptions<C, Policies...>;
  using Set = typename Options::Set;

  Attended(Index batch, Index q_len, Index heads, ls::CacheShape shape, Options options)
      : batch_(batch), q_len_(q_len), heads_(heads), shape_(shape), options_(std::move(options)) {
    query_ = numbers<C>(batch * q_len * heads * shape.head_dim, 3);
    context_.resize(at(batch * q_len * heads * shape.v_head_dim));
  }
  Attended(const Attended&) = delete;
  Attended& operator=(const Attended&) = delete;

  Options& options() noexcept { return options_; }
  const ls::AlignedVector<C>& context() const noexcept { return context_; }

  /// One cache, or a list of one a sequence. The first call takes the workspace.
  template <class K>
  void run(const K& caches) {
    const auto query = ls::View<const C, 4>::contiguous(query_.data(), {batch_, q_len_, heads_, shape_.head_dim});
    if (!workspace_) {
      memory_.resize(at(ls::attend_workspace_bytes<Policies...>(query, caches, options_)));
      workspace_.emplace(memory_.data(), static_cast<Index>(memory_.size()));
      options_.workspace = &*workspace_;
    }
    ls::attend<Policies...>(query, caches,
                            ls::View<C, 4>::contiguous(context_.data(), {batch_, q_len_, heads_, shape_.v_head_dim}),
                            options_);
  }

  /// Whether the first sequence's last rows are the specification's: its bits, or within a tolerance above 0; in one
  /// group of heads, or in all where heads have numbers of their own. Precondition: run() has been called with this
  /// cache first. `mask` sees these rows as the call's mask does; dropout counts heads from 0, so it is checked in the
  /// first group.
  bool right(const Cache& cache, double tolerance, const typename Set::Mask& mask) const {
    const Index rows = q_len_ < 3 ? q_len_ : 3, first = q_len_ - rows;
    const Index query_width = heads_ * shape_.head_dim, width = heads_ * shape_.v_head_dim;
    constexpr bool all_heads = !std::same_as<typename Set::Bias, ls::NoBias> || Set::Sinks::active;
    const Index group = all_heads ? heads_ : heads_ / shape_.kv_heads;
    const Index kv_head = all_heads || options_.mode == ls::Mode::training ? 0 : shape_.kv_heads - 1;
    using Sharing = std::conditional_t<all_heads, ls::Grouped, OneKvHead>;
    ls::AttendOptions<C, typename Set::Mask, typename Set::Logits, typename Set::Bias, typename Set::Sinks,
                      typename Set::Dropout, Sharing, ls::Specification>
        options;
    options.mask = mask;
    options.logits = options_.logits;
    options.bias = options_.bias;
    options.sinks = options_.sinks;
    options.dropout = options_.dropout;
    options.mode = options_.mode;
    if constexpr (!all_heads) options.sharing.kv_head_ = kv_head;
    ls::AlignedVector<C> expected(at(rows * group * shape_.v_head_dim)), given;
    ls::attend<typename Set::Mask, typename Set::Logits, typename Set::Bias, typename Set::Sinks, typename Set::Dropout,
               Sharing, ls::Specification>(
        ls::View<const C, 3>(query_.data() + first * query_width + kv_head * group * shape_.head_dim,
                             {rows, group, shape_.head_dim}, {query_width, shape_.head_dim, 1}),
        cache, ls::View<C, 3>::contiguous(expected.data(), {rows, group, shape_.v_head_dim}), options);
    for (Index i = 0; i < rows; ++i) {
      const C* row = context_.data() + (first + i) * width + kv_head * group * shape_.v_head_dim;
      given.insert(given.end(), row, row + group * shape_.v_head_dim);
    }
    return tolerance > 0 ? close(given, expected, tolerance) : same_bits(given, expected);
  }
  bool right(const Cache& cache) const { return right(cache, 0, options_.mask); }

 private:
  Index batch_, q_len_, heads_;
  ls::CacheShape shape_;
  Options options_;
  ls::AlignedVector<C> query_, context_;
  ls::AlignedVector<std::byte> memory_;
  std::optional<ls::Workspace> workspace_;
};

}  // namespace bench
