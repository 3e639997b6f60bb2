// The kernel that defines the bits: the numerics contract in scalar code, which every fast kernel must equal.
#pragma once

#include <span>

#include "lockstep/cache/layout.hpp"
#include "lockstep/kernel/call.hpp"
#include "lockstep/softmax_state.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/simd/sets.hpp"

namespace lockstep {

/// Scratch of one row.
template <class C>
struct SpecificationRow {
  C* query;        // [head_dim] scaled
  C* logit;        // [256] of the block
  C* weight;       // [256] of the block
  bool* seen;      // [256] which keys of the block take part
  C* block_sum;    // [v_head_dim] o_b
  C* split_sum;    // [v_head_dim] o
  C* row_sum;      // [v_head_dim] O
  std::byte* own;  // a block of the row's own, where the cache has such
};

#define LOCKSTEP_EACH_SET "lockstep/kernel/specification.inl"
#include "lockstep/simd/each_fma.inl"

/// One row at a time, one head at a time, one rounding at a time. About 1 GFLOP/s; its purpose is to be right.
/// Error at q_len 2048, head_dim 128, normal inputs, against long double: at most 6e-7.
struct Specification {
  static constexpr PolicyKind policy_kind = PolicyKind::kernel;
  static constexpr const char* name = "Specification";
  static constexpr bool own_blocks = true;  ///< takes caches whose rows have blocks of their own
  /// Workspace in bytes.
  template <class C>
  static constexpr Index bytes(const KernelShape& shape) noexcept {
    detail::WorkspaceSize one;
    take_row<C>(one, shape.head_dim, shape.v_head_dim, shape.own_bytes);
    return shape.concurrency * one.bytes + Workspace::bytes_for<SpecificationRow<C>>(shape.concurrency);
  }

  template <class C, class Cache, class Rules, class Run>
  static void attend(std::span<const AttentionCall<C, Cache>> calls, const Rules& rules, const Run& executor,
                     Workspace& workspace) {
    const auto rows = scratch<C>(rules, executor, own_bytes<Cache>(rules.cache_shape()), workspace);
    with_fma([&](auto set) { attend_calls(set, calls, rules, executor, rows); });
  }

  /// Workspace of attend_splits() in bytes.
  template <class C>
  static constexpr Index split_bytes(const KernelShape& shape) noexcept {
    return bytes<C>(shape);
  }

  /// The splits from `first_split` on of one call's rows, kept as they are: rule 11.
  template <class C, class Cache, class Rules, class Run>
  static void attend_splits(const AttentionCall<C, Cache>& call, const Rules& rules, Index first_split, Index splits,
                            const KeptSplits<C>& kept, const Run& executor, Workspace& workspace) {
    const auto rows = scratch<C>(rules, executor, 0, workspace);
    with_fma([&](auto set) { keep_splits(set, call, rules, first_split, splits, kept, executor, rows); });
  }

  /// Context and log-sum-exp of kept splits in place order: rule 5.
  template <class C, class Sinks>
  static void finish_splits(const KeptSplits<const C>& kept, Index splits, const Sinks& sinks, View<C, 3> context,
                            View<C, 2> lse) noexcept {
    with_fma([&](auto set) { fold_splits(set, kept, splits, sinks, context, lse); });
  }

 private:
  template <class C, class Memory>
  static constexpr SpecificationRow<C> take_row(Memory& memory, Index head_dim, Index v_head_dim, Index own) noexcept {
    return {.query = memory.template take<C>(head_dim),
            .logit = memory.template take<C>(block_keys),
            .weight = memory.template take<C>(block_keys),
            .seen = memory.template take<bool>(block_keys),
            .block_sum = memory.template take<C>(v_head_dim),
            .split_sum = memory.template take<C>(v_head_dim),
            .row_sum = memory.template take<C>(v_head_dim),
            .own = memory.template take<std::byte>(own)};
  }
  template <class C, class Rules, class Run>
  static std::span<const SpecificationRow<C>> scratch(const Rules& rules, const Run& executor, Index own,
                                                      Workspace& workspace) {
    const Index slots = detail::concurrency_of(executor);
    auto* rows = workspace.take<SpecificationRow<C>>(slots);
    for (Index slot = 0; slot < slots; ++slot)
      new (rows + slot) SpecificationRow<C>(take_row<C>(workspace, rules.head_dim, rules.v_head_dim, own));
    return {rows, static_cast<std::size_t>(slots)};
  }
};

static_assert(AttentionKernel<Specification>);

}  // namespace lockstep
