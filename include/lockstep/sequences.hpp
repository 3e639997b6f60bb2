// Which rows of a call belong to which sequence.
#pragma once

#include <span>

#include "lockstep/views.hpp"

namespace lockstep {

namespace detail {

/// The sequences of a call, whose rows lie one sequence after the other: equally many rows each, as in a tensor
/// [batch, q_len, ...], or as many as `lengths` says, as in a ragged batch [tokens, ...].
struct Sequences {
  Index count = 0;
  Index each = 0;
  std::span<const Index> lengths;

  /// Of a tensor [batch, q_len, ...]; with lengths, of [1, tokens, ...].
  constexpr Sequences(Index batch, Index q_len, std::span<const Index> given) noexcept
      : count(given.empty() ? batch : static_cast<Index>(given.size())), each(q_len), lengths(given) {}

  constexpr Index length(Index b) const noexcept {
    return lengths.empty() ? each : lengths[static_cast<std::size_t>(b)];
  }
  constexpr Index longest() const noexcept {
    if (lengths.empty()) return count > 0 ? each : 0;
    Index most = 0;
    for (const Index n : lengths) most = n > most ? n : most;
    return most;
  }

  /// Refuses lengths that are not those of one tensor [tokens, ...].
  Status check(Index batch, Index q_len) const noexcept {
    if (lengths.empty()) return {};
    if (batch != 1)
      return Status::invalid("lengths", "given with a batch of {}, allowed with one matrix [tokens, ...]", batch);
    Index rest = q_len;
    for (const Index n : lengths) {
      if (n < 0 || n > rest) return Status::invalid("lengths", "given {}, allowed from 0, in all {} tokens", n, q_len);
      rest -= n;
    }
    if (rest != 0) return Status::invalid("lengths", "given {} tokens in all, allowed {}", q_len - rest, q_len);
    return {};
  }

  /// A row: the sequence it belongs to, and its index there.
  struct Cursor {
    Index sequence = 0;
    Index row = 0;
  };

  /// f(sequence, first row in it, rows, how many rows came before) for each sequence that has some of the `rows` rows
  /// from `at` on; returns where they end.
  template <class F>
  constexpr Cursor for_each_piece(Cursor at, Index rows, F&& f) const {
    for (Index done = 0; done < rows;) {
      const Index left = length(at.sequence) - at.row;
      if (left == 0) {
        at = {at.sequence + 1, 0};
        continue;
      }
      const Index count_here = left < rows - done ? left : rows - done;
      f(at.sequence, at.row, count_here, done);
      at.row += count_here;
      done += count_here;
    }
    return at;
  }

  /// Refuses parents of draft trees, one for each row, that do not lie before their row in the same sequence.
  Status check_parents(std::span<const Index> parents, Index rows) const noexcept {
    if (static_cast<Index>(parents.size()) != rows)
      return Status::invalid("parents", "given {}, allowed one for each of {} rows", parents.size(), rows);
    std::size_t at = 0;
    for (Index b = 0; b < count; ++b)
      for (Index i = 0; i < length(b); ++i, ++at)
        if (parents[at] < -1 || parents[at] >= i)
          return Status::invalid("parents", "given {} for node {}, allowed -1 to {}", parents[at], i, i - 1);
    return {};
  }
  /// depths[row]: how many nodes stand between it and the context.
  void set_depths(std::span<const Index> parents, Index* depths) const noexcept {
    Index first = 0;
    for (Index b = 0; b < count; first += length(b), ++b)
      for (Index i = first; i < first + length(b); ++i) {
        const Index parent = parents[static_cast<std::size_t>(i)];
        depths[i] = parent < 0 ? 0 : depths[first + parent] + 1;
      }
  }
};

}  // namespace detail

}  // namespace lockstep
