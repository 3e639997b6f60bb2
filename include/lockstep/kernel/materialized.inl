// The textbook algorithm over plain arrays. Included once for each way of getting a fused multiply-add; see
// materialized.hpp.

/// score = logits of all rows and keys of one head, each a chain over head_dim from +0.
template <class C, class Cache, class Rules>
inline void form_scores(const AttentionCall<C, Cache>& call, const Rules& rules, Index head, Index kv_head,
                        const MaterializedHead<C>& m) noexcept {
  const C scale = static_cast<C>(rules.logits.scale(rules.head_dim));
  for (Index first = 0; first < call.kv_len; first += lanes) {
    const Index keys = call.kv_len - first < lanes ? call.kv_len - first : lanes;
    for (Index d = 0; d < rules.head_dim; ++d)
      for (Index lane = 0; lane < lanes; ++lane)
        m.tile[d * lanes + lane] = lane < keys ? m.keys(first + lane, kv_head, d) : C(0);
    for (Index i = 0; i < call.query.extent[0]; ++i) {
      for (Index d = 0; d < rules.head_dim; ++d) m.query[d] = rounded(call.query(i, head, d) * scale);
      C s[lanes] = {};
      for (Index d = 0; d < rules.head_dim; ++d)
        for (Index lane = 0; lane < lanes; ++lane) s[lane] = fma(m.query[d], m.tile[d * lanes + lane], s[lane]);
      const QueryRow q = call.row(i, head);
      if (call.raw_logits.present())
        for (Index lane = 0; lane < keys; ++lane) {
          C logit = s[lane];
          rules.bring_to_stage(&logit, q, {first + lane, first + lane + 1}, call.kv_len);
          call.raw_logits(head, i, first + lane) = canonical(logit);
        }
      for (Index lane = 0; lane < keys; ++lane)
        m.score[i * call.kv_len + first + lane] = rules.transform(s[lane], q, first + lane);
    }
  }
}

/// Softmax of one row in full, over the keys that it sees: maximum, exponentials, their sum in place order, then the
/// sink.
template <class C, class Rules>
inline SoftmaxState<C> softmax_row(const Rules& rules, QueryRow q, Index kv_len, C* score, bool* seen) noexcept {
  SoftmaxState<C> state;
  SoftmaxState<C> sink;
  if constexpr (Rules::Sinks::active) sink = SoftmaxState<C>::of_sink(static_cast<C>(rules.sinks.logit(q.head)));
  state.m = sink.m;
  const KeyRange range = rules.range(q, kv_len);
  for (Index j = 0; j < kv_len; ++j) {
    seen[j] = range.first <= j && j < range.last && rules.mask.visible(q, j);
    if (seen[j]) state.m = SoftmaxState<C>::larger(state.m, score[j]);
  }
  for (Index j = 0; j < kv_len; ++j) {
    score[j] = seen[j] ? exp_nonpositive(rounded(score[j] - SoftmaxState<C>::anchor(state.m))) : C(0);
    state.l = rounded(state.l + score[j]);
  }
  if constexpr (Rules::Sinks::active)
    state.l = fma(exp_nonpositive(rounded(sink.m - SoftmaxState<C>::anchor(state.m))), sink.l, state.l);
  return state;
}

/// One head of one sequence.
template <class C, class Cache, class Rules>
inline void materialize_head(Set, const AttentionCall<C, Cache>& call, const Rules& rules, Index head, Index kv_head,
                             const MaterializedHead<C>& m) noexcept {
  const auto pattern = rules.dropout.bind(call.stream);
  const C factor = static_cast<C>(pattern.factor());
  form_scores(call, rules, head, kv_head, m);
  for (Index i = 0; i < call.query.extent[0]; ++i) {
    const QueryRow q = call.row(i, head);
    C* score = m.score + i * call.kv_len;
    bool* seen = m.seen + i * call.kv_len;
    const SoftmaxState<C> state = softmax_row<C>(rules, q, call.kv_len, score, seen);
    for (Index d = 0; d < rules.v_head_dim; ++d) call.context(i, head, d) = 0;
    for (Index j = 0; j < call.kv_len; ++j) {
      if (!seen[j]) continue;
      if (rules.training && !pattern.kept(q.head, q.place, j)) {
        score[j] = 0;
        continue;
      }
      for (Index d = 0; d < rules.v_head_dim; ++d)
        call.context(i, head, d) = fma(score[j], m.values(j, kv_head, d), call.context(i, head, d));
    }
    for (Index d = 0; d < rules.v_head_dim; ++d) {
      const C out = finished(call.context(i, head, d), state.l);
      call.context(i, head, d) = rules.training ? canonical(out * factor) : out;
    }
    if (call.lse.present()) call.lse(head, i) = log_sum_exp(state);
    for (Index j = call.kv_len; j < call.raw_logits.extent[2]; ++j)
      call.raw_logits(head, i, j) = -std::numeric_limits<C>::infinity();
    if (!call.weights.present()) continue;
    for (Index j = 0; j < call.weights.extent[2]; ++j) {
      const C weight = j < call.kv_len && seen[j] ? finished(score[j], state.l) : C(0);
      call.weights(head, i, j) = rules.training ? canonical(weight * factor) : weight;
    }
  }
}
