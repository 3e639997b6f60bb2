// The numerics contract in scalar code. Included once for each way of getting a fused multiply-add; see
// specification.hpp.

/// Scaled products of places [first, last) of block b, into logit[place - 256 b]; rule 2, and 9 for codes. Lanes of a
/// tile are separate chains.
template <class C, class Cache, class Rules>
inline void block_products(const AttentionCall<C, Cache>& call, const Rules& rules, QueryRow q, Index b, KeyRange keys,
                           const SpecificationRow<C>& row) noexcept {
  using S = typename Cache::Storage;
  using Layout = BlockLayout<S>;
  const C* query = row.query;
  C* logit = row.logit;
  const Index kv_head = rules.sharing.kv_head(q.head, rules.heads, rules.kv_heads);
  const CacheBlock<S> block = block_of(call, kv_head, b, q.row - call.first_row, row.own);
  for (Index tile = (keys.first - b * block_keys) / lanes * lanes; tile < keys.last - b * block_keys; tile += lanes) {
    C s[lanes] = {};
    for (Index d = 0; d < rules.head_dim; ++d)
      for (Index lane = 0; lane < lanes; ++lane)
        s[lane] = fma(query[d], widen(block.keys[Layout::key(tile + lane, d, rules.head_dim)]), s[lane]);
    for (Index lane = 0; lane < lanes; ++lane) logit[tile + lane] = s[lane];
  }
  if constexpr (requires { block.key_scales; })
    for (Index j = keys.first - b * block_keys; j < keys.last - b * block_keys; ++j)
      logit[j] = rounded(logit[j] * block.key_scales[j]);
}

/// The same, transformed and biased: rule 2.
template <class C, class Cache, class Rules>
inline void block_logits(const AttentionCall<C, Cache>& call, const Rules& rules, QueryRow q, Index b, KeyRange keys,
                         const SpecificationRow<C>& row) noexcept {
  block_products(call, rules, q, b, keys, row);
  C* logit = row.logit;
  for (Index j = keys.first; j < keys.last; ++j)
    logit[j - b * block_keys] = rules.transform(logit[j - b * block_keys], q, j);
}

/// Which keys of [first, last) the row sees, into seen[place - 256 b]; whether there is one.
template <class Rules>
inline bool block_visible(const Rules& rules, QueryRow q, Index b, KeyRange keys, bool* seen) noexcept {
  const Visibility visibility = rules.mask.block(q, keys);
  bool any = false;
  for (Index j = keys.first; j < keys.last; ++j) {
    const bool sees = visibility == Visibility::all || (visibility == Visibility::some && rules.mask.visible(q, j));
    seen[j - b * block_keys] = sees;
    any = any || sees;
  }
  return any;
}

/// One block of a split: rule 4. False if the row sees nothing there, and then nothing has changed.
template <class C, class Cache, class Rules, class Pattern>
inline bool join_block(const AttentionCall<C, Cache>& call, const Rules& rules, const Pattern& pattern, QueryRow q,
                       Index b, KeyRange keys, const SpecificationRow<C>& row, SoftmaxState<C>& split) noexcept {
  using S = typename Cache::Storage;
  using Layout = BlockLayout<S>;
  if (!block_visible(rules, q, b, keys, row.seen)) return false;
  block_logits(call, rules, q, b, keys, row);

  const Index first = keys.first - b * block_keys, last = keys.last - b * block_keys;
  C m = split.m;
  for (Index j = first; j < last; ++j)
    if (row.seen[j]) m = SoftmaxState<C>::larger(m, row.logit[j]);

  C lane_sum[lanes] = {};
  for (Index j = first; j < last; ++j)
    if (row.seen[j]) {
      row.weight[j] = exp_nonpositive(rounded(row.logit[j] - SoftmaxState<C>::anchor(m)));
      lane_sum[j % lanes] = rounded(lane_sum[j % lanes] + row.weight[j]);
    }
  for (Index half = lanes / 2; half >= 1; half /= 2)
    for (Index lane = 0; lane < half; ++lane) lane_sum[lane] = rounded(lane_sum[lane] + lane_sum[lane + half]);

  const Index kv_head = rules.sharing.kv_head(q.head, rules.heads, rules.kv_heads);
  const CacheBlock<S> block = block_of(call, kv_head, b, q.row - call.first_row, row.own);
  if constexpr (requires { block.value_scales; })
    for (Index j = first; j < last; ++j)
      if (row.seen[j]) row.weight[j] = rounded(row.weight[j] * block.value_scales[j]);
  for (Index d = 0; d < rules.v_head_dim; ++d) row.block_sum[d] = 0;
  for (Index j = first; j < last; ++j)
    if (row.seen[j] && (!rules.training || pattern.kept(q.head, q.place, b * block_keys + j)))
      for (Index d = 0; d < rules.v_head_dim; ++d)
        row.block_sum[d] = fma(row.weight[j], widen(block.values[Layout::value(j, d)]), row.block_sum[d]);

  const C alpha = split.join_block(m, lane_sum[0]);
  for (Index d = 0; d < rules.v_head_dim; ++d) row.split_sum[d] = fma(row.split_sum[d], alpha, row.block_sum[d]);
  return true;
}

/// Weights on request, from the finished maximum and sum: rule 5. Dropped keys give +0, kept ones the factor of the
/// finish.
template <class C, class Cache, class Rules, class Pattern>
inline void row_weights(const AttentionCall<C, Cache>& call, const Rules& rules, const Pattern& pattern, QueryRow q,
                        Index i, KeyRange range, const SpecificationRow<C>& row,
                        const SoftmaxState<C>& total) noexcept {
  for (Index j = 0; j < call.weights.extent[2]; ++j) call.weights(q.head, i, j) = 0;
  if (total.l == 0) return;
  for (Index b = range.first / block_keys; b * block_keys < range.last; ++b) {
    const KeyRange keys = intersection(range, {b * block_keys, (b + 1) * block_keys});
    if (!block_visible(rules, q, b, keys, row.seen)) continue;
    block_logits(call, rules, q, b, keys, row);
    for (Index j = keys.first; j < keys.last; ++j) {
      const Index at = j - b * block_keys;
      if (!row.seen[at] || (rules.training && !pattern.kept(q.head, q.place, j))) continue;
      const C weight = quotient(exp_nonpositive(rounded(row.logit[at] - SoftmaxState<C>::anchor(total.m))), total.l);
      call.weights(q.head, i, j) = canonical(rules.training ? weight * static_cast<C>(pattern.factor()) : weight);
    }
  }
}

/// Logits on request, at the stage asked for, of all keys that are there.
template <class C, class Cache, class Rules>
inline void row_logits(const AttentionCall<C, Cache>& call, const Rules& rules, QueryRow q, Index i,
                       const SpecificationRow<C>& row) noexcept {
  const Index kv_len = call.keys_of(q);
  for (Index b = 0; b * block_keys < kv_len; ++b) {
    const KeyRange keys = intersection({0, kv_len}, {b * block_keys, (b + 1) * block_keys});
    block_products(call, rules, q, b, keys, row);
    rules.bring_to_stage(row.logit, q, keys, kv_len);
    for (Index j = keys.first; j < keys.last; ++j)
      call.raw_logits(q.head, i, j) = canonical(row.logit[j - b * block_keys]);
  }
  for (Index j = kv_len; j < call.raw_logits.extent[2]; ++j)
    call.raw_logits(q.head, i, j) = -std::numeric_limits<C>::infinity();
}

/// The scaled query: rule 1.
template <class C, class Cache, class Rules>
inline void load_query(const AttentionCall<C, Cache>& call, const Rules& rules, Index i, Index head,
                       C* query) noexcept {
  const C scale = static_cast<C>(rules.logits.scale(rules.head_dim));
  for (Index d = 0; d < rules.head_dim; ++d) query[d] = rounded(call.query(i, head, d) * scale);
}

/// One split of one row, from m = -inf, l = +0, o = +0, into `split` and row.split_sum: rule 4. Whether the row sees a
/// key in it.
template <class C, class Cache, class Rules, class Pattern>
inline bool attend_split(const AttentionCall<C, Cache>& call, const Rules& rules, const Pattern& pattern, QueryRow q,
                         Index s, KeyRange range, const SpecificationRow<C>& row, SoftmaxState<C>& split) noexcept {
  const KeyRange in_split = intersection(range, {s * split_keys, (s + 1) * split_keys});
  bool seen = false;
  split = {};
  for (Index d = 0; d < rules.v_head_dim; ++d) row.split_sum[d] = 0;
  for (Index b = in_split.first / block_keys; b * block_keys < in_split.last; ++b) {
    const KeyRange keys = intersection(in_split, {b * block_keys, (b + 1) * block_keys});
    seen = join_block(call, rules, pattern, q, b, keys, row, split) || seen;
  }
  return seen;
}

/// A split joins the row: O = fma(O, a, fl(w o)), rule 5. `O(d)`: number d of O; o null: zeros, as a sink has.
template <class C, class Sum>
inline void join_split(SoftmaxState<C>& total, const SoftmaxState<C>& split, const C* o, Index dims,
                       const Sum& O) noexcept {
  const auto fold = total.join_split(split);
  for (Index d = 0; d < dims; ++d)
    O(d) = fma(O(d), fold.old_factor, rounded(fold.new_factor * (o != nullptr ? o[d] : C(0))));
}

/// One row of one query head: rules 1 (scaling) to 5.
template <class C, class Cache, class Rules>
inline void attend_row(const AttentionCall<C, Cache>& call, const Rules& rules, Index i, Index head,
                       const SpecificationRow<C>& row) noexcept {
  const QueryRow q = call.row(i, head);
  const auto pattern = rules.dropout.bind(call.stream);
  load_query(call, rules, i, head, row.query);

  SoftmaxState<C> total, split;
  for (Index d = 0; d < rules.v_head_dim; ++d) row.row_sum[d] = 0;
  const auto sum = [&](Index d) -> C& { return row.row_sum[d]; };
  const KeyRange range = rules.range(q, call.keys_of(q));
  for (Index s = range.first / split_keys; s * split_keys < range.last; ++s)
    if (attend_split(call, rules, pattern, q, s, range, row, split))
      join_split(total, split, static_cast<const C*>(row.split_sum), rules.v_head_dim, sum);
  if constexpr (Rules::Sinks::active)
    join_split(total, SoftmaxState<C>::of_sink(static_cast<C>(rules.sinks.logit(head))), static_cast<const C*>(nullptr),
               rules.v_head_dim, sum);

  for (Index d = 0; d < rules.v_head_dim; ++d) {
    const C out = finished(row.row_sum[d], total.l);
    call.context(i, head, d) = rules.training ? canonical(out * static_cast<C>(pattern.factor())) : out;
  }
  if (call.lse.present()) call.lse(head, i) = log_sum_exp(total);
  if (call.weights.present()) row_weights(call, rules, pattern, q, i, range, row, total);
  if (call.raw_logits.present()) row_logits(call, rules, q, i, row);
}

/// The splits from first_split on of all rows and heads of a call, kept as they are: rule 11.
template <class C, class Cache, class Rules, class Run>
[[gnu::noinline]] inline void keep_splits(Set, const AttentionCall<C, Cache>& call, const Rules& rules,
                                          Index first_split, Index splits, const KeptSplits<C>& kept,
                                          const Run& executor, std::span<const SpecificationRow<C>> scratch) {
  detail::for_each_task(executor, call.query.extent[0] * rules.heads, effort_of(call, rules),
                        [&](Index slot, Index task) noexcept {
                          const Index i = task / rules.heads, head = task % rules.heads;
                          const SpecificationRow<C>& row = scratch[static_cast<std::size_t>(slot)];
                          const QueryRow q = call.row(i, head);
                          load_query(call, rules, i, head, row.query);
                          for (Index s = 0; s < splits; ++s) {
                            auto& state = kept.state_of(s, i, head);
                            state.seen = attend_split(call, rules, rules.dropout.bind(call.stream), q, first_split + s,
                                                      rules.range(q, call.kv_len), row, state.state);
                            for (Index d = 0; state.seen && d < rules.v_head_dim; ++d)
                              kept.sum_of(s, i, head)[d] = row.split_sum[d];
                          }
                        });
}

/// Context and log-sum-exp from kept splits in place order: rule 5.
template <class C, class Sinks>
[[gnu::noinline]] inline void fold_splits(Set, const KeptSplits<const C>& kept, Index splits, const Sinks& sinks,
                                          View<C, 3> context, View<C, 2> lse) noexcept {
  for (Index i = 0; i < kept.rows; ++i)
    for (Index head = 0; head < kept.heads; ++head) {
      SoftmaxState<C> total;
      const auto sum = [&](Index d) -> C& { return context(i, head, d); };
      for (Index d = 0; d < kept.v_head_dim; ++d) sum(d) = 0;
      for (Index s = 0; s < splits; ++s)
        if (const auto& state = kept.state_of(s, i, head); state.seen)
          join_split(total, state.state, kept.sum_of(s, i, head), kept.v_head_dim, sum);
      if constexpr (Sinks::active)
        join_split(total, SoftmaxState<C>::of_sink(static_cast<C>(sinks.logit(head))), static_cast<const C*>(nullptr),
                   kept.v_head_dim, sum);
      for (Index d = 0; d < kept.v_head_dim; ++d) sum(d) = finished(sum(d), total.l);
      if (lse.present()) lse(head, i) = log_sum_exp(total);
    }
}

/// All rows and heads of all calls.
template <class C, class Cache, class Rules, class Run>
[[gnu::noinline]] inline void attend_calls(Set, std::span<const AttentionCall<C, Cache>> calls, const Rules& rules,
                                           const Run& executor, std::span<const SpecificationRow<C>> scratch) {
  for (const AttentionCall<C, Cache>& call : calls)
    detail::for_each_task(
        executor, call.query.extent[0] * rules.heads, effort_of(call, rules), [&](Index slot, Index task) noexcept {
          attend_row(call, rules, task / rules.heads, task % rules.heads, scratch[static_cast<std::size_t>(slot)]);
        });
}
