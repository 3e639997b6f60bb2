// Attention over parts of the keys, which joins to the bits of attention over all of them.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "lockstep/attend.hpp"
#include "lockstep/kernel/specification.hpp"

namespace lockstep {

/// The unnormalised softmax states of some queries over some splits: the places [1024 s, 1024 s + 1024) of split s.
/// What several workers, or a cache that sequences share and the one that goes on from it, bring to one row.
template <class C>
class Partial {
 public:
  /// No splits, of no queries: what moving leaves, too.
  Partial() noexcept = default;
  Partial(const Partial&) = default;
  Partial(Partial&& other) noexcept { swap(other); }
  Partial& operator=(Partial other) noexcept {
    swap(other);
    return *this;
  }

  Index q_len() const noexcept { return q_len_; }
  Index heads() const noexcept { return heads_; }
  Index v_head_dim() const noexcept { return v_head_dim_; }
  /// The places of each split, in order. The last one may end early.
  const std::vector<KeyRange>& splits() const noexcept { return splits_; }

  /// Empties it for other queries; memory is kept.
  void reset(Index q_len, Index heads, Index v_head_dim) noexcept {
    q_len_ = q_len;
    heads_ = heads;
    v_head_dim_ = v_head_dim;
    splits_.clear();
    state_.clear();
    sum_.clear();
  }
  /// Room for the splits of `places`, which follow those that are there. Errors: memory that cannot be had; then no
  /// split is added.
  KeptSplits<C> append(KeyRange places) {
    const Index before = static_cast<Index>(splits_.size()),
                all = before + (places.empty() ? 0 : ceil_div(places.size(), split_keys));
    state_.resize(static_cast<std::size_t>(Workspace::product(all, q_len_, heads_)));
    sum_.resize(static_cast<std::size_t>(Workspace::product(all, q_len_, heads_, v_head_dim_)));
    splits_.reserve(static_cast<std::size_t>(all));
    for (Index first = places.first; first < places.last; first += split_keys)
      splits_.push_back(intersection(places, {first, first + split_keys}));
    KeptSplits<C> kept = states();
    kept.state += before * q_len_ * heads_;
    kept.sum += before * q_len_ * heads_ * v_head_dim_;
    return kept;
  }
  /// Where the weighted sums lie.
  detail::ByteRange memory() const noexcept { return detail::bytes_of(View<const C, 1>(sum_)); }
  /// The states in memory, for kernels.
  KeptSplits<C> states() noexcept { return {state_.data(), sum_.data(), q_len_, heads_, v_head_dim_}; }
  /// The states of the splits, in order of places.
  KeptSplits<const C> states() const noexcept { return {state_.data(), sum_.data(), q_len_, heads_, v_head_dim_}; }

  /// All of another partial's splits and these, in place order. Errors: partials of other sizes, a split that both
  /// have, a split that ends early before another one.
  void merge(const Partial& other) {
    raise_unless_ok(check_merge(other));
    Partial both;
    both.reset(q_len_, heads_, v_head_dim_);
    for (std::size_t a = 0, b = 0; a < splits_.size() || b < other.splits_.size();) {
      const bool mine = b == other.splits_.size() || (a < splits_.size() && splits_[a].first < other.splits_[b].first);
      mine ? both.take(*this, a++) : both.take(other, b++);
    }
    *this = std::move(both);
  }
  /// Whether merge() would take it: ok, or the error that it would raise.
  Status check_merge(const Partial& other) const noexcept {
    if (other.q_len_ != q_len_ || other.heads_ != heads_ || other.v_head_dim_ != v_head_dim_)
      return Status::invalid("partial", "given {} queries of {} heads and v_head_dim {}, allowed {} of {} and {}",
                             other.q_len_, other.heads_, other.v_head_dim_, q_len_, heads_, v_head_dim_);
    for (const KeyRange& mine : splits_)
      for (const KeyRange& its : other.splits_) {
        if (mine.first == its.first)
          return Status::invalid("partial", "given the split of place {} again, allowed each split once", its.first);
        const KeyRange& earlier = mine.first < its.first ? mine : its;
        if (earlier.size() < split_keys)
          return Status::invalid(
              "partial", "given a split that ends at place {} before another one, allowed to end at multiples of {}",
              earlier.last, split_keys);
      }
    return {};
  }

 private:
  void swap(Partial& other) noexcept {
    std::swap(q_len_, other.q_len_);
    std::swap(heads_, other.heads_);
    std::swap(v_head_dim_, other.v_head_dim_);
    splits_.swap(other.splits_);
    state_.swap(other.state_);
    sum_.swap(other.sum_);
  }
  void take(const Partial& from, std::size_t split) {
    const KeptSplits<C> to = append(from.splits_[split]);
    const Index states = q_len_ * heads_, at = static_cast<Index>(split) * states;
    std::copy_n(from.state_.data() + at, states, to.state);
    std::copy_n(from.sum_.data() + at * v_head_dim_, states * v_head_dim_, to.sum);
  }

  Index q_len_ = 0, heads_ = 0, v_head_dim_ = 0;
  std::vector<KeyRange> splits_;
  std::vector<SplitState<C>> state_;  // [splits, q_len, heads]
  std::vector<C> sum_;                // [splits, q_len, heads, v_head_dim]
};

/// What attend_partial() takes beside queries and cache.
template <class C, class... Policies>
struct PartialOptions {
  using Set = PolicySet<C, Policies...>;
  static_assert(!Set::Norm::active && !Set::Dropout::active,
                "lockstep::attend_partial: a q/k norm is for layers, and dropout for whole rows");
  static_assert(!Set::Sinks::active, "lockstep::attend_partial: sinks join once a row: give them to finish()");
  static_assert(
      requires(KernelShape shape) { Set::Kernel::template split_bytes<C>(shape); },
      "lockstep::attend_partial: the kernel keeps no splits: use Tiled or Specification");

  Index offset = 0;  ///< place of the first query in its sequence
  /// Place of the cache's first key: 0, or a multiple of 1024 where the cache goes on from another.
  Index cache_place = 0;
  /// Places that are covered: whole splits, or up to the cache's last key. Default: all of the cache.
  KeyRange places{0, std::numeric_limits<Index>::max()};
  typename Set::Mask mask{};
  typename Set::Logits logits{};
  typename Set::Bias bias{};
  typename Set::Sharing sharing{};
  typename Set::Executor executor{};
  Workspace* workspace = nullptr;  ///< null: memory is taken and given back within the call
};

namespace detail {

/// A cache whose keys begin at a place of their sequence.
template <class Cache>
struct PlacedCache {
  using Storage = typename Cache::Storage;
  const Cache* cache = nullptr;
  Index first_block = 0;

  // What is asked for before the first block is only requested ahead, never read.
  CacheBlock<Storage> block(Index kv_head, Index b) const noexcept {
    return cache->block(kv_head, b < first_block ? 0 : b - first_block);
  }
};

template <class Options, class Cache>
KeyRange covered(const Options& options, const Cache& cache) noexcept {
  return intersection(options.places, {options.cache_place, options.cache_place + cache.length()});
}

template <class C, class Cache, class Options>
Status check_attend_partial(View<const C, 3> query, const Cache& cache, const Options& options) noexcept {
  const auto [q_len, heads, head_dim] = query.extent;
  if (Status s = check_shape<const C, 3>("q", query, query.extent); !s.ok()) return s;
  if (cache.shape().head_dim != head_dim)
    return Status::invalid("q", "given head_dim {}, allowed the cache's {}", head_dim, cache.shape().head_dim);
  if (Status s = check_heads(options.sharing, heads, cache.shape().kv_heads); !s.ok()) return s;
  constexpr Index limit = std::numeric_limits<Index>::max() / 4;
  if (options.cache_place < 0 || options.cache_place > limit || options.cache_place % split_keys != 0)
    return Status::invalid("cache_place", "given {}, allowed multiples of {} from 0", options.cache_place, split_keys);
  const KeyRange all{options.cache_place, options.cache_place + cache.length()};
  const KeyRange places = covered(options, cache);
  if (options.places.first > options.places.last ||
      (!places.empty() &&
       (places.first % split_keys != 0 || (places.last % split_keys != 0 && places.last != all.last))))
    return Status::invalid("places", "given {} to {}, allowed multiples of {}, and the cache's last key {} as the end",
                           options.places.first, options.places.last, split_keys, all.last);
  if (Status s = first_error(check_offset(options.offset), check_logits<C>(options.logits, head_dim),
                             check_policy(options.bias, heads), check_mask(options.mask, 1, q_len, all.last, heads));
      !s.ok())
    return s;
  Index numbers = 0;
  if (__builtin_mul_overflow(q_len * heads, ceil_div(cache.length(), split_keys), &numbers) ||
      __builtin_mul_overflow(numbers, cache.shape().v_head_dim * static_cast<Index>(sizeof(C)), &numbers))
    return Status::length("q", "given {}, allowed what 63 bits of bytes hold for all splits", query.extent);
  const KeyRange gone = missing_after(cache, 0);
  const KeyRange missing = intersection(places, {all.first + gone.first, all.first + gone.last});
  for (Index i = 0; i < q_len && !missing.empty(); ++i)
    for (Index head = 0; head < heads; ++head)
      if (Status s = check_held(options.mask, QueryRow{0, head, i, options.offset + i}, all.last, missing); !s.ok())
        return s;
  const NamedBytes workspace{"workspace", bytes_of(options.workspace)};
  return first_error(check_apart({{"q", bytes_of(query)}, {"cache", memory_of(cache)}}, {workspace}),
                     check_apart_from("mask", options.mask, {workspace}));
}

}  // namespace detail

/// The options of attend_partial() on this cache.
template <class Cache, class... Policies>
using PartialOptionsFor = PartialOptions<compute_t<typename Cache::Storage>, Policies...>;

/// Attention of one sequence's queries over a part of its keys, into `partial`, which then holds these splits and no
/// others.
///
/// q [q_len, heads, head_dim] as for attend(), against one cache that holds the sequence's keys from place
/// options.cache_place on. Contract rule 11: partials of all splits, merged in any grouping and finished, give the bits
/// of attend(). Errors: shapes, places and policies that do not fit, q in the partial's memory, keys that are no
/// longer held, a workspace that is too small or cannot be had, raised before anything is done; what fails later leaves
/// a partial of no queries.
template <class... Policies, class Q, KeyValueCache Cache>
void attend_partial(const Q& q, const Cache& cache, Partial<compute_t<typename Cache::Storage>>& partial,
                    const PartialOptionsFor<Cache, Policies...>& options = {}) {
  using Options = PartialOptionsFor<Cache, Policies...>;
  using Set = typename Options::Set;
  using C = compute_t<typename Cache::Storage>;
  using Placed = detail::PlacedCache<Cache>;
  static_assert(ViewableAs<const Q&, const C, 3>,
                "lockstep::attend_partial: q must be a view [q_len, heads, head_dim] of the cache's compute type");
  const View<const C, 3> query(q);
  raise_unless_ok(detail::check_attend_partial(query, cache, options));
  raise_unless_ok(detail::check_apart({{"q", detail::bytes_of(query)}}, {{"partial", partial.memory()}}));
  const CacheShape stored = cache.shape();
  const Index q_len = query.extent[0], heads = query.extent[1];
  const KeyRange places = detail::covered(options, cache);
  const KernelShape shape{.sequences = 1,
                          .rows = q_len,
                          .kv_len = options.cache_place + cache.length(),
                          .heads = heads,
                          .kv_heads = stored.kv_heads,
                          .head_dim = stored.head_dim,
                          .v_head_dim = stored.v_head_dim,
                          .concurrency = detail::concurrency_of(options.executor)};
  Workspace own;
  Workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
  workspace.reserve(Set::Kernel::template split_bytes<C>(shape));
  partial.reset(q_len, heads, stored.v_head_dim);
  if (places.empty() || q_len == 0) return;
  // With some of its states it would finish to numbers that look like any others: it has none until all are there.
  Partial<C> work(std::move(partial));
  const KeptSplits<C> kept = work.append(places);
  const Placed placed{&cache, options.cache_place / block_keys};
  const AttentionCall<C, Placed> call{
      .cache = &placed, .query = query, .context = {}, .first_place = options.offset, .kv_len = shape.kv_len};
  const NoDropout dropout;
  const NoSinks sinks;
  const auto rules =
      detail::rules_of(options.mask, options.logits, options.sharing, dropout, options.bias, sinks, shape);
  const Index first = places.first / split_keys;
  Set::Kernel::template attend_splits<C, Placed>(call, rules, first, ceil_div(places.last, split_keys) - first, kept,
                                                 options.executor, workspace);
  partial = std::move(work);
}

/// context [q_len, heads, v_head_dim] and, unless absent, lse [heads, q_len] of the splits of a partial: contract rule
/// 5, one query after the other. The partial stays. Errors: other shapes, sinks of another number of heads.
template <class C, class Out, class Sinks = NoSinks>
void finish(const Partial<C>& partial, Out&& context, View<C, 2> lse = {}, const Sinks& sinks = {}) {
  static_assert(SinkLogits<Sinks, C>, "lockstep::finish: the sinks do not offer what concept SinkLogits asks");
  const View<C, 3> out(context);
  const Index q_len = partial.q_len(), heads = partial.heads();
  raise_unless_ok(first_error(detail::check_shape("context", out, {q_len, heads, partial.v_head_dim()}),
                              detail::check_optional("lse", lse, {heads, q_len}), detail::check_policy(sinks, heads)));
  raise_unless_ok(detail::check_apart({{"partial", partial.memory()}},
                                      {{"context", detail::bytes_of(out)}, {"lse", detail::bytes_of(lse)}}));
  const FloatEnvironment environment;
  Specification::finish_splits<C>(partial.states(), static_cast<Index>(partial.splits().size()), sinks, out, lse);
}

/// Joins the finished results of attention over two disjoint sets of keys, as other engines hand them out: `context`
/// [q_len, heads, v_head_dim] and `lse` [heads, q_len] take in `other_context` and `other_lse`. An lse of -inf is a row
/// that saw no key.
///
/// Not the bits of one run: what finishing rounded away is gone. Error against one run over all keys, beside that of
/// the two contexts: at most (|lse| + 6) eps times their largest number, eps = 2^-24 for float and 2^-53 for double,
/// since a logarithm of that size tells the weights no better. Use Partial where bits count.
template <class C>
void merge_by_lse(View<C, 3> context, View<C, 2> lse, View<const C, 3> other_context, View<const C, 2> other_lse) {
  const auto [q_len, heads, dims] = context.extent;
  raise_unless_ok(first_error(detail::check_shape("context", context, context.extent),
                              detail::check_shape("lse", lse, {heads, q_len}),
                              detail::check_shape("other_context", other_context, context.extent),
                              detail::check_shape("other_lse", other_lse, {heads, q_len})));
  raise_unless_ok(detail::check_apart(
      {{"other_context", detail::bytes_of(other_context)}, {"other_lse", detail::bytes_of(other_lse)}},
      {{"context", detail::bytes_of(context)}, {"lse", detail::bytes_of(lse)}}));
  const FloatEnvironment environment;
  for (Index i = 0; i < q_len; ++i)
    for (Index head = 0; head < heads; ++head) {
      SoftmaxState<C> total;
      const auto first = total.join_split(SoftmaxState<C>::of_sink(lse(head, i)));
      const auto second = total.join_split(SoftmaxState<C>::of_sink(other_lse(head, i)));
      const C mine = rounded(first.new_factor * second.old_factor);
      // A row that saw no key is left out, whatever its context holds.
      constexpr C none = -std::numeric_limits<C>::infinity();
      const bool has_mine = lse(head, i) != none, has_other = other_lse(head, i) != none;
      for (Index d = 0; d < dims; ++d) {
        const C a = has_mine ? context(i, head, d) : C(0), b = has_other ? other_context(i, head, d) : C(0);
        context(i, head, d) = finished(fma(a, mine, rounded(second.new_factor * b)), total.l);
      }
      lse(head, i) = log_sum_exp(total);
    }
}

}  // namespace lockstep
