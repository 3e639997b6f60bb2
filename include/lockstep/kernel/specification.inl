// The numerics contract in scalar code. Included once for each way of getting a fused multiply-add; see
// specification.hpp.

/// A split joins a row: O = fma(O, a, fl(w o)), rule 5. `O(d)`: number d of O; o null: zeros, as a sink has.
template <class C, class Sum>
inline void join_split(SoftmaxState<C>& total, const SoftmaxState<C>& split, const C* o, Index dims,
                       const Sum& O) noexcept {
  const auto fold = total.join_split(split);
  for (Index d = 0; d < dims; ++d)
    O(d) = fma(O(d), fold.old_factor, rounded(fold.new_factor * (o != nullptr ? o[d] : C(0))));
}

/// One row of one query head.
template <class C, class Cache, class Rules>
struct SpecificationTask {
  using S = typename Cache::Storage;
  using Layout = BlockLayout<S>;

  const AttentionCall<C, Cache>& call;
  const Rules& rules;
  const SpecificationRow<C>& row;
  Index i;  // of the call's rows
  Index head;
  const QueryRow q = call.row(i, head);
  const Index kv_len = call.keys_of(q);
  const KeyRange range = rules.range(q, kv_len);
  const typename Rules::Pattern pattern = rules.dropout.bind(call.stream);

  CacheBlock<S> block(Index b) const noexcept {
    return block_of(call, rules.sharing.kv_head(head, rules.heads, rules.kv_heads), b, i, row.own);
  }

  /// The scaled query: rule 1.
  void load_query() noexcept {
    const C scale = static_cast<C>(rules.logits.scale(rules.head_dim));
    for (Index d = 0; d < rules.head_dim; ++d) row.query[d] = rounded(call.query(i, head, d) * scale);
  }

  /// Scaled products of keys in block b, into row.logit[place - 256 b]; rule 2, and 9 for codes. Lanes of a tile are
  /// separate chains.
  void block_products(Index b, KeyRange keys) noexcept {
    const CacheBlock<S> from = block(b);
    const Index first = keys.first - b * block_keys, last = keys.last - b * block_keys;
    for (Index tile = first / lanes * lanes; tile < last; tile += lanes) {
      C s[lanes] = {};
      for (Index d = 0; d < rules.head_dim; ++d)
        for (Index lane = 0; lane < lanes; ++lane)
          s[lane] = fma(row.query[d], widen(from.keys[Layout::key(tile + lane, d, rules.head_dim)]), s[lane]);
      for (Index lane = 0; lane < lanes; ++lane) row.logit[tile + lane] = s[lane];
    }
    if constexpr (is_quantised<S>)
      for (Index j = first; j < last; ++j) row.logit[j] = rounded(row.logit[j] * from.key_scales[j]);
  }

  /// The keys of block b in `keys` that the row sees, into row.seen[place - 256 b], and if there is one, their logits,
  /// transformed and biased: rule 2.
  bool block_logits(Index b, KeyRange keys) noexcept {
    const Visibility visibility = rules.mask.block(q, keys);
    bool any = false;
    for (Index j = keys.first; j < keys.last; ++j) {
      const bool sees = visibility == Visibility::all || (visibility == Visibility::some && rules.mask.visible(q, j));
      row.seen[j - b * block_keys] = sees;
      any = any || sees;
    }
    if (!any) return false;
    block_products(b, keys);
    for (Index j = keys.first; j < keys.last; ++j)
      row.logit[j - b * block_keys] = rules.transform(row.logit[j - b * block_keys], q, j);
    return true;
  }

  /// One block of a split: rule 4. False if the row sees nothing there, and then nothing has changed.
  bool join_block(Index b, KeyRange keys, SoftmaxState<C>& split) noexcept {
    if (!block_logits(b, keys)) return false;
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

    const CacheBlock<S> from = block(b);
    if constexpr (is_quantised<S>)
      for (Index j = first; j < last; ++j)
        if (row.seen[j]) row.weight[j] = rounded(row.weight[j] * from.value_scales[j]);
    for (Index d = 0; d < rules.v_head_dim; ++d) row.block_sum[d] = 0;
    for (Index j = first; j < last; ++j)
      if (row.seen[j] && (!rules.training || pattern.kept(q.head, q.place, b * block_keys + j)))
        for (Index d = 0; d < rules.v_head_dim; ++d)
          row.block_sum[d] = fma(row.weight[j], widen(from.values[Layout::value(j, d)]), row.block_sum[d]);

    const C alpha = split.join_block(m, lane_sum[0]);
    for (Index d = 0; d < rules.v_head_dim; ++d) row.split_sum[d] = fma(row.split_sum[d], alpha, row.block_sum[d]);
    return true;
  }

  /// One split, from m = -inf, l = +0, o = +0, into `split` and row.split_sum: rule 4. Whether the row sees a key in
  /// it.
  bool attend_split(Index s, SoftmaxState<C>& split) noexcept {
    const KeyRange in_split = intersection(range, {s * split_keys, (s + 1) * split_keys});
    bool seen = false;
    split = {};
    for (Index d = 0; d < rules.v_head_dim; ++d) row.split_sum[d] = 0;
    for (Index b = in_split.first / block_keys; b * block_keys < in_split.last; ++b)
      seen = join_block(b, intersection(in_split, block_places(b)), split) || seen;
    return seen;
  }

  /// Weights on request, from the finished maximum and sum: rule 5. Dropped keys give +0, kept ones the factor of the
  /// finish.
  void write_weights(const SoftmaxState<C>& total) noexcept {
    for (Index j = 0; j < call.weights.extent[2]; ++j) call.weights(head, i, j) = 0;
    if (total.l == 0) return;
    for (Index b = range.first / block_keys; b * block_keys < range.last; ++b) {
      const KeyRange keys = intersection(range, block_places(b));
      if (!block_logits(b, keys)) continue;
      for (Index j = keys.first; j < keys.last; ++j) {
        const Index at = j - b * block_keys;
        if (!row.seen[at] || (rules.training && !pattern.kept(q.head, q.place, j))) continue;
        const C weight = quotient(exp_nonpositive(rounded(row.logit[at] - SoftmaxState<C>::anchor(total.m))), total.l);
        call.weights(head, i, j) = canonical(rules.training ? weight * static_cast<C>(pattern.factor()) : weight);
      }
    }
  }

  /// Logits on request, at the stage asked for, of all keys that are there.
  void write_logits() noexcept {
    for (Index b = 0; b * block_keys < kv_len; ++b) {
      const KeyRange keys = intersection({0, kv_len}, block_places(b));
      block_products(b, keys);
      rules.bring_to_stage(row.logit, q, keys, kv_len);
      for (Index j = keys.first; j < keys.last; ++j)
        call.raw_logits(head, i, j) = canonical(row.logit[j - b * block_keys]);
    }
    for (Index j = kv_len; j < call.raw_logits.extent[2]; ++j)
      call.raw_logits(head, i, j) = -std::numeric_limits<C>::infinity();
  }

  /// All of it: rules 1 (scaling) to 5.
  void attend() noexcept {
    load_query();
    SoftmaxState<C> total, split;
    for (Index d = 0; d < rules.v_head_dim; ++d) row.row_sum[d] = 0;
    const auto join = [&](const SoftmaxState<C>& state, const C* o) {
      join_split(total, state, o, rules.v_head_dim, [&](Index d) -> C& { return row.row_sum[d]; });
    };
    for (Index s = range.first / split_keys; s * split_keys < range.last; ++s)
      if (attend_split(s, split)) join(split, row.split_sum);
    if constexpr (Rules::Sinks::active)
      join(SoftmaxState<C>::of_sink(static_cast<C>(rules.sinks.logit(head))), nullptr);

    for (Index d = 0; d < rules.v_head_dim; ++d) {
      const C out = finished(row.row_sum[d], total.l);
      call.context(i, head, d) = rules.training ? canonical(out * static_cast<C>(pattern.factor())) : out;
    }
    if (call.lse.present()) call.lse(head, i) = log_sum_exp(total);
    if (call.weights.present()) write_weights(total);
    if (call.raw_logits.present()) write_logits();
  }
};

/// f(the task of each row and head of a call).
template <class C, class Cache, class Rules, class Run, class F>
inline void for_each_row(const AttentionCall<C, Cache>& call, const Rules& rules, const Run& executor,
                         std::span<const SpecificationRow<C>> scratch, const F& f) {
  detail::for_each_task(executor, call.query.extent[0] * rules.heads, effort_of(call, rules),
                        [&](Index slot, Index task) noexcept {
                          f(SpecificationTask<C, Cache, Rules>{call, rules, scratch[static_cast<std::size_t>(slot)],
                                                               task / rules.heads, task % rules.heads});
                        });
}

/// All rows and heads of all calls.
template <class C, class Cache, class Rules, class Run>
[[gnu::noinline]] inline void attend_calls(Set, std::span<const AttentionCall<C, Cache>> calls, const Rules& rules,
                                           const Run& executor, std::span<const SpecificationRow<C>> scratch) {
  for (const AttentionCall<C, Cache>& call : calls)
    for_each_row(call, rules, executor, scratch, [](auto task) noexcept { task.attend(); });
}

/// The splits from first_split on of all rows and heads of a call, kept as they are: rule 11.
template <class C, class Cache, class Rules, class Run>
[[gnu::noinline]] inline void keep_splits(Set, const AttentionCall<C, Cache>& call, const Rules& rules,
                                          Index first_split, Index splits, const KeptSplits<C>& kept,
                                          const Run& executor, std::span<const SpecificationRow<C>> scratch) {
  for_each_row(call, rules, executor, scratch, [&](auto task) noexcept {
    task.load_query();
    for (Index s = 0; s < splits; ++s) {
      auto& state = kept.state_of(s, task.i, task.head);
      state.seen = task.attend_split(first_split + s, state.state);
      for (Index d = 0; state.seen && d < rules.v_head_dim; ++d)
        kept.sum_of(s, task.i, task.head)[d] = task.row.split_sum[d];
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
      const auto join = [&](const SoftmaxState<C>& state, const C* o) {
        join_split(total, state, o, kept.v_head_dim, sum);
      };
      for (Index d = 0; d < kept.v_head_dim; ++d) sum(d) = 0;
      for (Index s = 0; s < splits; ++s)
        if (const auto& state = kept.state_of(s, i, head); state.seen) join(state.state, kept.sum_of(s, i, head));
      if constexpr (Sinks::active) join(SoftmaxState<C>::of_sink(static_cast<C>(sinks.logit(head))), nullptr);
      for (Index d = 0; d < kept.v_head_dim; ++d) sum(d) = finished(sum(d), total.l);
      if (lse.present()) lse(head, i) = log_sum_exp(total);
    }
}
