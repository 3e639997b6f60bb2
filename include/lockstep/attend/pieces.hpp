// What a kernel is given by attend() and by the layer: pieces of a call, its rules, and the memory of both.
#pragma once

#include <cstddef>
#include <new>
#include <span>

#include "lockstep/kernel/call.hpp"
#include "lockstep/kernel/tree.hpp"
#include "lockstep/sequences.hpp"
#include "lockstep/views.hpp"
#include "lockstep/workspace.hpp"

namespace lockstep::detail {

/// What a kernel is given: pieces, consecutive rows of one sequence each. Seen: the caches as it sees them, Cache or
/// TreeCache<Cache>.
template <class C, class Seen>
class Pieces {
  using Call = AttentionCall<C, Seen>;

 public:
  static constexpr bool tree = HasOwnBlocks<Seen>;  // rows are nodes of draft trees

  /// Takes memory for `most` pieces of `rows` rows together at once, in a call of `all_rows`.
  template <class Memory>
  Pieces(Memory& memory, Index most, Index rows, [[maybe_unused]] Index all_rows) noexcept
      : calls_(memory.template take<Call>(most)) {
    if constexpr (tree) {
      seen_ = memory.template take<Seen>(most);
      places_ = memory.template take<Index>(rows);
      depths_ = memory.template take<Index>(all_rows);
    }
  }
  /// Of a call whose results are [batch, q_len, ...].
  void begin(const Sequences& sequences, Index q_len, std::span<const Index> parents) noexcept {
    q_len_ = q_len;
    parents_ = parents.data();
    if constexpr (tree) sequences.set_depths(parents, depths_);
  }

  /// `call` has its query, context and places; its rows are those from `first` on of the whole call, and from `done` on
  /// of what is attended to at once.
  template <class Cache, class Options>
  const Call& add(Call call, const Cache& cache, const Options& options, Index first,
                  [[maybe_unused]] Index done) noexcept {
    const Index rows = call.query.extent[0], at_batch = first / q_len_, at_row = first % q_len_;
    if constexpr (tree) {
      const Index context = call.kv_len - rows - call.first_row, root = first - call.first_row;
      call.cache = new (seen_ + count_) Seen(cache, context, parents_ + root, depths_ + root);
      call.places = places_ + done;
      for (Index i = 0; i < rows; ++i) places_[done + i] = context + depths_[first + i];
    } else {
      call.cache = &cache;
    }
    call.lse = options.lse.at(at_batch).part(1, at_row, rows);
    call.weights = options.weights.at(at_batch).part(1, at_row, rows);
    call.raw_logits = options.raw_logits.at(at_batch).part(1, at_row, rows);
    if (!options.dropout_streams.empty())
      call.stream = options.dropout_streams[static_cast<std::size_t>(call.sequence)];
    return *new (calls_ + count_++) Call(call);
  }
  std::span<const Call> calls() const noexcept { return {calls_, count_}; }
  void clear() noexcept { count_ = 0; }

 private:
  Call* calls_;
  std::size_t count_ = 0;
  Index q_len_ = 0;
  // Of draft trees:
  const Index* parents_ = nullptr;  // [rows of the whole call]
  Seen* seen_ = nullptr;
  Index* places_ = nullptr;  // [rows at once]
  Index* depths_ = nullptr;  // [rows of the whole call]
};

/// The rules of a call: its policies, and numbers of heads and their sizes.
template <class M, class L, class H, class D, class B, class S>
AttentionRules<M, L, H, D, B, S> rules_of(const M& mask, const L& logits, const H& sharing, const D& dropout,
                                          const B& bias, const S& sinks, const auto& shape, bool training = false,
                                          LogitStage stage = LogitStage::masked) noexcept {
  return {mask,        logits,         sharing,        dropout,          bias,     sinks,
          shape.heads, shape.kv_heads, shape.head_dim, shape.v_head_dim, training, stage};
}

}  // namespace lockstep::detail
