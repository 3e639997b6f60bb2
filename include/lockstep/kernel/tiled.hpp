// The fast kernel: the contract's bits from register tiles, on the best instruction set of the CPU.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "lockstep/cache/layout.hpp"
#include "lockstep/kernel/call.hpp"
#include "lockstep/softmax_state.hpp"
#include "lockstep/simd/sets.hpp"

namespace lockstep {

/// Rows of one task: enough to share each block of keys and values from the second-level cache, few enough to stay
/// there with it; a multiple of all full register tiles.
inline constexpr Index tiled_row_block = 84;
/// Rows of the largest register tile of any instruction set.
inline constexpr Index most_tile_rows = 14;

/// Where a task's rows live while they are worked on; one a slot. Rows are (query, head of the group), queries
/// outermost.
template <class C>
struct TiledScratch {
  // Queries and scores lie in rows of so many, at a distance that the compiler knows: else each row of a register tile
  // would take a register of addresses. No multiple of the page size, which would put all rows of a tile into the same
  // few cache sets.
  static constexpr Index row_size = block_keys, stride = row_size + lanes;

  C* query;               // [ceil(head_dim / row_size), rows, stride] scaled; rows: Tiled::task_rows()
  C* split_sum;           // [rows, o_stride] o
  C* row_sum;             // [rows, o_stride] O
  C* score;               // [most_tile_rows, stride] logits of a block, then its weights
  std::uint16_t* listed;  // [most_tile_rows, 256] keys of a block that a row sees, where they are not one range
  std::byte* own;         // a block of one row's own, where the cache has such
  Index q_part;           // from row_size numbers of a query to the next
  Index o_stride;
  struct Row {
    QueryRow q;
    KeyRange range;
    SoftmaxState<C> split;
    SoftmaxState<C> total;
    bool seen = false;    // something in this split: split_sum holds numbers
    bool folded = false;  // some split: row_sum holds numbers
  }* row;

  C* query_of(Index r, Index d = 0) const noexcept { return query + d / row_size * q_part + r * stride + d % row_size; }
  C* split_sum_of(Index r) const noexcept { return split_sum + r * o_stride; }
  C* row_sum_of(Index r) const noexcept { return row_sum + r * o_stride; }
  C* score_of(Index r) const noexcept { return score + r * stride; }
  std::uint16_t* listed_of(Index r) const noexcept { return listed + r * block_keys; }

  // Not a multiple of the page size either.
  static constexpr Index padded(Index dim) noexcept { return round_up(dim, lanes) + lanes; }
};

/// A part of the work: consecutive rows of one kv head of one call.
struct TiledRows {
  Index kv_head;
  const Index* heads;  // query heads of the group
  Index group;         // how many
  Index first;         // first row
  Index rows;
  Index threads;                    // that take tasks in turn: this one's next is probably so many further
  const TiledRows* next = nullptr;  // that, if it is of the same call

  // Where row r of these comes from.
  Index query_of(Index r) const noexcept { return (first + r) / group; }
  Index head_of(Index r) const noexcept { return heads[(first + r) % group]; }
};

/// What one row does in one block.
template <class C>
struct RowInBlock {
  KeyRange keys{};  // the visible ones, counted in the block, or the range around them
  bool takes_part = false;
  bool listed = false;       // visible keys are not one range, or dropout chooses among them
  bool first_block = false;  // of the split: the sum so far is +0
  C m = 0;                   // the maximum with this block
  C alpha = 0;
};

#define LOCKSTEP_EACH_SET "lockstep/kernel/tiled.inl"
#include "lockstep/simd/each_set.inl"

/// Specification's bits at the machine's speed. A task is a kv head's block of 84 rows, so all heads of a group share
/// each load of keys and values; register tiles of rows by lines run the logits and the weighted sums of a block while
/// it is in cache. Long caches under few rows are split at the contract's split places over the executor's threads.
///
/// Measured on Emerald Rapids with AVX-512: at 512 tokens of head_dim 64 the products of register tiles take 71 % of
/// the time, exponentials 10 %, maxima and masks 9 %, scaling, folding and the division 8 %. Requests of lines 8 steps
/// ahead in full tiles gave up to 6 % beside busy neighbours. On a Skylake server: full tiles of 14 rows by 2 lines,
/// with queries at fixed distances, are 1 to 5 % faster than 6 by 4 were; 512 tokens of head_dim 64 gained 3 to 4 % by
/// taking the keys that not all rows of a tile see key by key (row by row, each row's number of keys was guessed
/// wrong), 1 to 3 % by exponentials of four vectors step by step, 1 to 2 % by requesting the next task's queries, 1 %
/// by hiding the rest of a line by one store, 1 % by no division a row. Tried without gain: 2, 4 or 8 steps a turn of
/// the loop (1 to 4 % slower), tiles of 8 by 3, 9 by 3 and 12 by 2, broadcasts as memory operands (half the speed),
/// quotients by reciprocals, the factors of all rows of a tile as one vector, requests of all of the next queries at
/// once or of the context, of the first lines of the next group, masked multiply-adds for keys that some rows see, all
/// tasks of a kv head one after the other, the first split's sums where they are folded, nine to sixteen rows in two
/// tiles of eight (9 rows 24 % slower, 16 the same). Decode needs no loop that fuses one block's weighted sums with the
/// next one's logits: since each requests what the other will read, it runs at 0.90 to 0.95 of the read bandwidth. At
/// the end of a task that is what this thread's next one begins with: while it was what comes next in memory, which
/// another thread had begun by then, two threads decoded 28 heads over 4 at 1.68 of one's speed, and do at 1.87, where
/// two read at 1.97.
struct Tiled {
  static constexpr PolicyKind policy_kind = PolicyKind::kernel;
  static constexpr const char* name = "Tiled";
  static constexpr bool own_blocks = true;  ///< takes caches whose rows have blocks of their own

  /// Workspace in bytes: O(threads x 84 rows x (256 + head_dim + v_head_dim)), and with threads (v_head_dim + 2) a row
  /// and split, of as many rows as have their splits shared out: those of a decode, 336 a thread at most, 33 splits at
  /// most.
  template <class C>
  static constexpr Index bytes(const KernelShape& shape) noexcept {
    const Index kept = std::min(Workspace::product(shape.sequences, shape.rows, shape.heads),
                                kept_tasks(shape.concurrency) * tiled_row_block);
    return plan_bytes<C>(shape) +
           kept_bytes<C>(Workspace::product(kept, std::min(ceil_div(shape.kv_len, split_keys), kept_splits) + 1),
                         shape.v_head_dim);
  }

  template <class C, class Cache, class Rules, class Run>
  static void attend(std::span<const AttentionCall<C, Cache>> calls, const Rules& rules, const Run& executor,
                     Workspace& workspace) {
    const InstructionSet chosen = instruction_set();
    const Index concurrency = detail::concurrency_of(executor);
    Plan<C> plan = make_plan<C>(calls, rules, concurrency, workspace);
    const Index tasks = plan.first_task[calls.size()];
    if (tasks < kept_tasks(concurrency)) keep_splits(plan, calls, rules, workspace);
    // f(tag of the set, slot, part, call, rows, rows of the tasks before) for each task, once for each of `parts`.
    const auto run = [&](Index parts, detail::Effort effort, const auto& f) {
      detail::for_each_task(executor, tasks * parts, effort, [&](Index slot, Index at) noexcept {
        Index task = at / parts, c = 0, before = 0;
        for (; task >= plan.first_task[c + 1]; ++c)
          before += calls[static_cast<std::size_t>(c)].query.extent[0] * rules.heads;
        const AttentionCall<C, Cache>& call = calls[static_cast<std::size_t>(c)];
        // Later rows see more keys: they come first.
        const Index left = plan.first_task[c + 1] - 1 - task;
        TiledRows part = rows_of(plan, call, rules, left), next;
        if (left >= plan.threads) part.next = &(next = rows_of(plan, call, rules, left - plan.threads));
        before += call.query.extent[0] * plan.first_head[part.kv_head] + part.first;
        if (part.rows > 0) with_set(chosen, [&](auto set) { f(set, slot, at % parts, call, part, before); });
      });
    };
    detail::Effort effort;
    for (const AttentionCall<C, Cache>& call : calls) effort += effort_of(call, rules);
    if (plan.splits == 0)
      return run(1, effort, [&](auto set, Index slot, Index, const auto& call, const TiledRows& part, Index) noexcept {
        attend_rows(set, call, rules, part, plan.scratch[slot]);
      });
    const Index o_stride = plan.scratch[0].o_stride, last = ceil_div(plan.seen.last, split_keys);
    Index first = plan.seen.first / split_keys;
    for (bool goes_on = false; first < last; first += plan.splits, goes_on = true) {
      const Index splits = std::min(plan.splits, last - first);
      run(splits, effort,
          [&](auto set, Index slot, Index split, const auto& call, const TiledRows& part, Index before) noexcept {
            const Index at = before * (plan.splits + 1) + (split + 1) * part.rows;
            attend_split(set, call, rules, part, first + split, plan.scratch[slot], plan.state + at,
                         plan.sums + at * o_stride);
          });
      const detail::Effort fold{.bytes = plan.rows * splits * o_stride * static_cast<Index>(sizeof(C))};
      run(1, fold, [&](auto set, Index slot, Index, const auto& call, const TiledRows& part, Index before) noexcept {
        const Index at = before * (plan.splits + 1);
        fold_rows(set, call, rules, part, splits, goes_on, first + splits == last, plan.scratch[slot], plan.state + at,
                  plan.sums + at * o_stride);
      });
    }
  }

  /// Workspace of attend_splits() in bytes.
  template <class C>
  static constexpr Index split_bytes(const KernelShape& shape) noexcept {
    return plan_bytes<C>(shape) +
           shape.concurrency * kept_bytes<C>(task_rows(Workspace::product(shape.rows, shape.heads)), shape.v_head_dim);
  }

  /// The splits from `first_split` on of one call's rows, kept as they are: rule 11.
  template <class C, class Cache, class Rules, class Run>
  static void attend_splits(const AttentionCall<C, Cache>& call, const Rules& rules, Index first_split, Index splits,
                            const KeptSplits<C>& kept, const Run& executor, Workspace& workspace) {
    const InstructionSet chosen = instruction_set();
    const Plan<C> plan = make_plan<C>(std::span(&call, 1), rules, detail::concurrency_of(executor), workspace);
    const Index o_stride = plan.scratch[0].o_stride, slots = detail::concurrency_of(executor);
    SplitState<C>* states = workspace.take<SplitState<C>>(slots * plan.task_rows);
    C* all_sums = workspace.take<C>(slots * plan.task_rows * o_stride);
    const Index tasks = plan.first_task[1];
    detail::for_each_task(executor, tasks * splits, effort_of(call, rules), [&](Index slot, Index at) noexcept {
      const TiledRows part = rows_of(plan, call, rules, at / splits);
      if (part.rows <= 0) return;
      SplitState<C>* state = states + slot * plan.task_rows;
      C* sums = all_sums + slot * plan.task_rows * o_stride;
      with_set(chosen, [&](auto set) {
        attend_split(set, call, rules, part, first_split + at % splits, plan.scratch[slot], state, sums);
      });
      for (Index r = 0; r < part.rows; ++r) {
        const Index i = part.query_of(r), head = part.head_of(r);
        kept.state_of(at % splits, i, head) = state[r];
        if (state[r].seen)
          std::memcpy(kept.sum_of(at % splits, i, head), sums + r * o_stride,
                      static_cast<std::size_t>(rules.v_head_dim) * sizeof(C));
      }
    });
  }

 private:
  template <class C>
  struct Plan {
    Index* first_head;         // [kv_heads + 1] into heads
    Index* heads;              // [heads] query heads, by kv head
    Index* first_task;         // [calls + 1]
    TiledScratch<C>* scratch;  // a slot
    Index splits = 0;          // above 0: tasks are split, and the states of so many splits a row are kept at once
    KeyRange seen{};           // by some row, where tasks are split
    Index threads = 1;
    Index task_rows = 0;
    Index rows = 0;  // of all calls and heads
    SplitState<C>* state = nullptr;
    C* sums = nullptr;
  };

  /// The rows of a call's task; rows are counted within each kv head's group.
  template <class C, class Cache, class Rules>
  static TiledRows rows_of(const Plan<C>& plan, const AttentionCall<C, Cache>& call, const Rules& rules,
                           Index task) noexcept {
    const Index g = rules.kv_heads - 1 - task % rules.kv_heads, group = plan.first_head[g + 1] - plan.first_head[g];
    const Index first = task / rules.kv_heads * tiled_row_block, all = call.query.extent[0] * group;
    const Index rows = all - first < tiled_row_block ? all - first : tiled_row_block;
    return {g, plan.heads + plan.first_head[g], group, first, rows, plan.threads};
  }

  // Of a task that has some of so many rows: the last register tile may reach beyond them.
  static constexpr Index task_rows(Index rows) noexcept {
    return (rows < tiled_row_block ? rows : tiled_row_block) + most_tile_rows - 1;
  }
  // Fewer tasks than this leave threads idle towards the end: then splits become tasks of their own.
  static constexpr Index kept_tasks(Index concurrency) noexcept { return concurrency < 2 ? 0 : 4 * concurrency; }
  // Longer caches go in rounds of so many splits, so that the workspace does not grow with them.
  static constexpr Index kept_splits = 32;

  template <class C, class Memory>
  static constexpr TiledScratch<C> take_scratch(Memory& memory, Index rows, Index head_dim, Index v_head_dim,
                                                Index own) noexcept {
    using Scratch = TiledScratch<C>;
    const Index q_part = rows * Scratch::stride, o_stride = Scratch::padded(v_head_dim);
    return {.query = memory.template take<C>(Workspace::product(ceil_div(head_dim, Scratch::row_size), q_part)),
            .split_sum = memory.template take<C>(Workspace::product(rows, o_stride)),
            .row_sum = memory.template take<C>(Workspace::product(rows, o_stride)),
            .score = memory.template take<C>(most_tile_rows * Scratch::stride),
            .listed = memory.template take<std::uint16_t>(most_tile_rows * block_keys),
            .own = memory.template take<std::byte>(own),
            .q_part = q_part,
            .o_stride = o_stride,
            .row = memory.template take<typename Scratch::Row>(rows)};
  }
  template <class C>
  static constexpr Index plan_bytes(const KernelShape& shape) noexcept {
    detail::WorkspaceSize once, slot;
    once.take<Index>(shape.heads + shape.kv_heads + 1);
    once.take<Index>(shape.sequences + 1);
    once.take<TiledScratch<C>>(shape.concurrency);
    take_scratch<C>(slot, task_rows(Workspace::product(shape.rows, shape.heads)), shape.head_dim, shape.v_head_dim,
                    shape.own_bytes);
    return once.bytes + shape.concurrency * slot.bytes;
  }
  template <class C>
  static constexpr Index kept_bytes(Index states, Index v_head_dim) noexcept {
    return Workspace::bytes_for<SplitState<C>>(states) +
           Workspace::bytes_for<C>(Workspace::product(states, TiledScratch<C>::padded(v_head_dim)));
  }

  template <class C, class Cache, class Rules>
  static Plan<C> make_plan(std::span<const AttentionCall<C, Cache>> calls, const Rules& rules, Index concurrency,
                           Workspace& workspace) noexcept {
    using Scratch = TiledScratch<C>;
    Plan<C> plan{};
    plan.threads = concurrency;
    plan.first_head = workspace.take<Index>(rules.heads + rules.kv_heads + 1);
    plan.heads = plan.first_head + rules.kv_heads + 1;
    Index filled = 0, most_group = 0;
    for (Index g = 0; g < rules.kv_heads; ++g) {
      plan.first_head[g] = filled;
      for (Index h = 0; h < rules.heads; ++h)
        if (rules.sharing.kv_head(h, rules.heads, rules.kv_heads) == g) plan.heads[filled++] = h;
      most_group = filled - plan.first_head[g] > most_group ? filled - plan.first_head[g] : most_group;
    }
    plan.first_head[rules.kv_heads] = filled;

    plan.first_task = workspace.take<Index>(static_cast<Index>(calls.size()) + 1);
    plan.first_task[0] = 0;
    Index rows = 0;
    for (std::size_t c = 0; c < calls.size(); ++c) {
      const Index call_rows = calls[c].query.extent[0] * most_group;
      plan.first_task[c + 1] = plan.first_task[c] + ceil_div(call_rows, tiled_row_block) * rules.kv_heads;
      plan.rows += calls[c].query.extent[0] * rules.heads;
      rows = call_rows > rows ? call_rows : rows;
    }
    plan.task_rows = task_rows(rows);

    plan.scratch = workspace.take<Scratch>(concurrency);
    for (Index slot = 0; slot < concurrency; ++slot)
      new (plan.scratch + slot) Scratch(take_scratch<C>(workspace, plan.task_rows, rules.head_dim, rules.v_head_dim,
                                                        own_bytes<Cache>(rules.cache_shape())));
    return plan;
  }

  /// Makes tasks of splits, if rows see more than one.
  template <class C, class Cache, class Rules>
  static void keep_splits(Plan<C>& plan, std::span<const AttentionCall<C, Cache>> calls, const Rules& rules,
                          Workspace& workspace) noexcept {
    if (std::all_of(calls.begin(), calls.end(), [](const auto& call) { return call.kv_len <= split_keys; })) return;
    for (const AttentionCall<C, Cache>& call : calls)
      for (Index at = 0; at < call.query.extent[0] * rules.heads; ++at) {
        const QueryRow q = call.row(at / rules.heads, at % rules.heads);
        plan.seen = hull(plan.seen, rules.range(q, call.keys_of(q)));
      }
    const Index splits = ceil_div(plan.seen.last, split_keys) - plan.seen.first / split_keys;
    if (splits < 2) return;
    plan.splits = std::min(splits, kept_splits);
    plan.state = workspace.take<SplitState<C>>(plan.rows * (plan.splits + 1));
    plan.sums = workspace.take<C>(plan.rows * (plan.splits + 1) * plan.scratch[0].o_stride);
  }
};

static_assert(AttentionKernel<Tiled>);

}  // namespace lockstep
