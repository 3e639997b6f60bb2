// Caches as they were, for forwards that fail.
#pragma once

#include <utility>
#include <vector>

#include "lockstep/attend.hpp"

namespace lockstep::detail {

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

}  // namespace lockstep::detail
