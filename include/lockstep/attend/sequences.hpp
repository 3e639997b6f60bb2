// Which rows of a call belong to which sequence, and which caches; and caches as they were, for forwards that fail.
#pragma once

#include <concepts>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/concepts.hpp"

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
  /// How many nodes stand between row i of a sequence and the context.
  static Index depth(const Index* parents, Index i) noexcept {
    Index nodes = 0;
    for (; parents[i] >= 0; i = parents[i]) ++nodes;
    return nodes;
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

// One cache, or a range of caches or of pointers to them, one a sequence.
template <class K>
concept OneCache = KeyValueCache<std::remove_cvref_t<K>>;
template <class R>
concept CacheList = !OneCache<R> && requires(R& r) {
  { r.size() } -> std::convertible_to<std::size_t>;
  r[std::size_t{0}];
};
template <class K>
concept CacheOrList = OneCache<K> || CacheList<K>;

template <class K>
Index cache_count(const K& caches) noexcept {
  if constexpr (OneCache<K>)
    return 1;
  else
    return static_cast<Index>(caches.size());
}
template <class K>
auto* cache_at(K& caches, Index i) noexcept {
  if constexpr (OneCache<K>)
    return &caches;
  else if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(caches[std::size_t{0}])>>)
    return caches[static_cast<std::size_t>(i)];
  else
    return &caches[static_cast<std::size_t>(i)];
}
template <CacheOrList K>
using CacheIn =
    std::remove_cv_t<std::remove_pointer_t<decltype(cache_at(std::declval<std::remove_reference_t<K>&>(), Index{}))>>;

/// Caches of a batch: as many as sequences, none null.
template <class K>
Status check_caches(const K& caches, Index batch) noexcept {
  if (cache_count(caches) != batch)
    return Status::invalid("caches", "given {}, allowed one for each of {} sequences", cache_count(caches), batch);
  for (Index b = 0; b < batch; ++b)
    if (cache_at(caches, b) == nullptr)
      return Status::invalid("caches", "given a null pointer for sequence {}, allowed one cache for each", b);
  return {};
}

/// Puts caches back to their lengths unless the work was completed: a forward that fails half-way changes nothing. A
/// cache that forgets places cannot give them all back: it is copied before a forward that brings more than it takes
/// back.
template <class K>
class Rollback {
  using Cache = CacheIn<K>;
  static constexpr bool may_be_copied = LimitsAppends<Cache> || RollsBack<Cache>;

 public:
  Rollback(K& caches, Index* lengths) noexcept : caches_(caches), lengths_(lengths) {
    for (Index b = 0; b < cache_count(caches_); ++b) lengths_[b] = cache_at(caches_, b)->length();
  }
  ~Rollback() {
    if (completed_) return;
    if constexpr (may_be_copied)
      for (auto& [b, copy] : copies_) *cache_at(caches_, b) = std::move(copy);
    for (Index b = 0; b < cache_count(caches_); ++b) roll_back(*cache_at(caches_, b), lengths_[b]);
  }
  /// Sequence b is about to get `rows` tokens, in pieces: takes what memory that needs.
  void prepare(Index b, Index rows) {
    Cache& cache = *cache_at(caches_, b);
    if constexpr (may_be_copied) {
      if (!takes_back(cache, rows)) copies_.emplace_back(b, cache);
    } else if constexpr (requires { cache.reserve(rows); }) {
      cache.reserve(rows);
    }
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  void complete() noexcept { completed_ = true; }
  Index length(Index b) const noexcept { return lengths_[b]; }

 private:
  K& caches_;
  Index* lengths_;
  bool completed_ = false;
  std::vector<std::pair<Index, Cache>> copies_;  // of those that could not be taken back
};

}  // namespace detail

}  // namespace lockstep
