// The textbook algorithm, for comparison: scores formed, masked and softmaxed in full.
#pragma once

#include <span>

#include "lockstep/cache/layout.hpp"
#include "lockstep/kernel/call.hpp"
#include "lockstep/softmax_state.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/simd/sets.hpp"

namespace lockstep {

/// Keys and values of one sequence as plain rows [kv_len, heads, dim], and the scratch of one head.
template <class C>
struct MaterializedHead {
  View<const C, 3> keys;
  View<const C, 3> values;
  C* query;    // [head_dim] scaled
  C* tile;     // [head_dim, 16] keys of one tile, transposed
  C* score;    // [rows, kv_len] logits, then weights
  bool* seen;  // [rows, kv_len]
};

#define LOCKSTEP_EACH_SET "lockstep/kernel/materialized.inl"
#include "lockstep/simd/each_fma.inl"

/// Forms the q_len x kv_len scores of a head, softmaxes each row over all keys at once and multiplies by the values.
/// One maximum, one sum and one chain a row, in place order, so its bits do not depend on the chunking either; they
/// differ from Specification's, which sums by blocks. Error grows with kv_len: at most 3e-6 of the largest value at
/// 2048 keys, against double. Memory: q_len x kv_len a thread, and a plain copy of keys and values (one for every query
/// head under RepeatedHeads).
struct Materialized {
  static constexpr PolicyKind policy_kind = PolicyKind::kernel;
  static constexpr const char* name = "Materialized";
  static constexpr bool repeats_heads = true;  ///< takes RepeatedHeads

  template <class C>
  static constexpr Index bytes(const KernelShape& shape) noexcept {
    const Index plain = Workspace::product(shape.kv_len, shape.kv_heads + shape.heads),
                scores = Workspace::product(shape.rows, shape.kv_len);
    return Workspace::bytes_for<C>(Workspace::product(plain, shape.head_dim)) +
           Workspace::bytes_for<C>(Workspace::product(plain, shape.v_head_dim)) + 2 * Workspace::alignment +
           shape.concurrency *
               (Workspace::bytes_for<C>(shape.head_dim) + Workspace::bytes_for<C>(shape.head_dim * lanes) +
                Workspace::bytes_for<C>(scores) + Workspace::bytes_for<bool>(scores)) +
           Workspace::bytes_for<MaterializedHead<C>>(shape.concurrency);
  }

  template <class C, class Cache, class Rules, class Run>
  static void attend(std::span<const AttentionCall<C, Cache>> calls, const Rules& rules, const Run& executor,
                     Workspace& workspace) {
    Index keys = 0, scores = 0;
    for (const auto& call : calls) {
      keys = call.kv_len > keys ? call.kv_len : keys;
      scores = call.kv_len * call.query.extent[0] > scores ? call.kv_len * call.query.extent[0] : scores;
    }
    const Index slots = detail::concurrency_of(executor);
    const auto take_rows = [&](Index heads, Index dim) noexcept {
      return View<C, 3>::contiguous(workspace.take<C>(keys * heads * dim), {keys, heads, dim});
    };
    const auto plain_keys = take_rows(rules.kv_heads, rules.head_dim);
    const auto plain_values = take_rows(rules.kv_heads, rules.v_head_dim);
    const Index repeated = repeats<Rules> ? rules.heads : 0;
    const auto more_keys = take_rows(repeated, rules.head_dim), more_values = take_rows(repeated, rules.v_head_dim);
    using Head = MaterializedHead<C>;
    Head* heads = workspace.take<Head>(slots);
    for (Index slot = 0; slot < slots; ++slot)
      new (heads + slot) Head{repeats<Rules> ? more_keys : plain_keys,
                              repeats<Rules> ? more_values : plain_values,
                              workspace.take<C>(rules.head_dim),
                              workspace.take<C>(rules.head_dim * lanes),
                              workspace.take<C>(scores),
                              workspace.take<bool>(scores)};

    for (const AttentionCall<C, Cache>& call : calls) {
      const auto k = plain_keys.part(0, 0, call.kv_len), v = plain_values.part(0, 0, call.kv_len);
      unpack(*call.cache, k, v);
      if constexpr (repeats<Rules>) {
        Rules::Sharing::template repeat<C>(k, rules.heads / rules.kv_heads, more_keys);
        Rules::Sharing::template repeat<C>(v, rules.heads / rules.kv_heads, more_values);
      }
      detail::for_each_task(executor, rules.heads, effort_of(call, rules), [&](Index slot, Index head) noexcept {
        const Index kv_head = repeats<Rules> ? head : rules.sharing.kv_head(head, rules.heads, rules.kv_heads);
        with_fma([&](auto set) { materialize_head(set, call, rules, head, kv_head, heads[slot]); });
      });
    }
  }

 private:
  template <class Rules>
  static constexpr bool repeats = requires { requires Rules::Sharing::repeats; };

  template <class Cache, class C>
  static void unpack(const Cache& cache, View<C, 3> keys, View<C, 3> values) noexcept {
    using S = typename Cache::Storage;
    using Layout = BlockLayout<S>;
    [[maybe_unused]] const FloatEnvironment environment;
    for (Index g = 0; g < keys.extent[1]; ++g)
      for (Index place = 0; place < keys.extent[0]; ++place) {
        const auto block = cache.block(g, place / block_keys);
        const Index at = place % block_keys;
        const auto number = [&](S stored, [[maybe_unused]] const float* scales) noexcept {
          if constexpr (is_quantised<S>)
            return rounded(widen(stored) * scales[at]);
          else
            return widen(stored);
        };
        for (Index d = 0; d < keys.extent[2]; ++d)
          keys(place, g, d) = number(block.keys[Layout::key(at, d, keys.extent[2])], block.key_scales);
        for (Index d = 0; d < values.extent[2]; ++d)
          values(place, g, d) = number(block.values[Layout::value(at, d)], block.value_scales);
      }
  }
};

static_assert(AttentionKernel<Materialized>);

}  // namespace lockstep
