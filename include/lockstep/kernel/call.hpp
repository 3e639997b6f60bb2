// What a kernel is given: the rows of one sequence, and the rules that all sequences of a call share.
#pragma once

#include "lockstep/concepts.hpp"
#include "lockstep/tasks.hpp"
#include "lockstep/workspace.hpp"

namespace lockstep {

/// Consecutive query rows of one sequence, already projected and rotated, and where their results go.
template <class C, class Cache>
struct AttentionCall {
  const Cache* cache = nullptr;
  View<const C, 3> query;    ///< [rows, heads, head_dim]
  View<C, 3> context;        ///< [rows, heads, v_head_dim]
  View<C, 2> lse;            ///< [heads, rows], or absent
  View<C, 3> weights;        ///< [heads, rows, at least kv_len], or absent
  Index sequence = 0;        ///< index in the batch
  Index first_row = 0;       ///< index of the first of these rows among the sequence's queries
  Index first_place = 0;     ///< place of the first of these rows
  Index kv_len = 0;          ///< keys present
  std::uint32_t stream = 0;  ///< dropout stream of the sequence

  QueryRow row(Index i, Index head) const noexcept { return {sequence, head, first_row + i, first_place + i}; }
};

/// The policies that decide a row's result, and the numbers they need.
template <class MaskPolicy, class LogitPolicy, class SharingPolicy, class DropoutPolicy>
struct AttentionRules {
  const MaskPolicy& mask;
  const LogitPolicy& logits;
  const SharingPolicy& sharing;
  const DropoutPolicy& dropout;
  Index heads = 0;
  Index kv_heads = 0;
  Index head_dim = 0;
  Index v_head_dim = 0;
  bool training = false;

  using Dropout = DropoutPolicy;
  using Sharing = SharingPolicy;
  /// The keys that a row may see, clamped to those that are present.
  KeyRange range(QueryRow q, Index kv_len) const noexcept { return intersection(mask.range(q, kv_len), {0, kv_len}); }

  /// The part of some keys of that range of which the mask has to be asked: nothing in the rest is visible.
  KeyRange narrowed(QueryRow q, KeyRange keys) const noexcept {
    if constexpr (requires { mask.narrowed(q, keys); }) {
      if (!keys.empty()) return mask.narrowed(q, keys);
    }
    return keys;
  }

  /// A scaled logit on its way to the softmax: transform, then what the mask adds.
  template <class C>
  [[gnu::always_inline]] C transform(C s, QueryRow q, Index key) const noexcept {
    s = logits.apply(s, q, key);
    if constexpr (requires { mask.add(s, q, key); }) s = mask.add(s, q, key);
    return s;
  }
  /// The same, in place, for a range of keys.
  template <class C>
  [[gnu::always_inline]] void transform(C* s, QueryRow q, KeyRange keys) const noexcept {
    logits.apply(s, q, keys);
    if constexpr (requires { mask.add(s, q, keys); }) mask.add(s, q, keys);
  }
};

/// What the rows of a call cost: as many keys each as the first and the last row may see on average, which is right for
/// causal masks and windows.
template <class C, class Cache, class Rules>
constexpr detail::Effort effort_of(const AttentionCall<C, Cache>& call, const Rules& rules) noexcept {
  const Index rows = call.query.extent[0], dims = rules.head_dim + rules.v_head_dim;
  if (rows == 0) return {};
  const KeyRange first = rules.range(call.row(0, 0), call.kv_len),
                 last = rules.range(call.row(rows - 1, 0), call.kv_len);
  const Index seen = ((first.empty() ? 0 : first.size()) + (last.empty() ? 0 : last.size()) + 1) / 2;
  const Index read = last.empty() || first.empty() ? seen : last.last - first.first;
  return {rows * rules.heads * seen * dims,
          read * rules.kv_heads * dims * static_cast<Index>(sizeof(typename Cache::Storage))};
}

/// The extremes of a call, from which a kernel tells the workspace it wants.
struct KernelShape {
  Index sequences = 0;
  Index rows = 0;    ///< the most rows of one sequence
  Index kv_len = 0;  ///< the most keys of one sequence
  Index heads = 0;
  Index kv_heads = 0;
  Index head_dim = 0;
  Index v_head_dim = 0;
  Index concurrency = 1;
};

}  // namespace lockstep
