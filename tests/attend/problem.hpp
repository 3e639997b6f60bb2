// What tests of attend() share: seeded queries against a filled cache, results on request, the reference of the same
// numbers.
#pragma once

#include <cmath>
#include <optional>

#include "fixture.hpp"

namespace fixture {

/// Sizes of a call, printed as q4_kv9_h8_kvh2_d64.
struct Sizes {
  Index q_len = 1, kv_len = 1, heads = 1, kv_heads = 1, head_dim = 1, v_head_dim = 0;
  Index value_dim() const { return v_head_dim == 0 ? head_dim : v_head_dim; }
  friend std::ostream& operator<<(std::ostream& out, const Sizes& s) {
    out << "q" << s.q_len << "_kv" << s.kv_len << "_h" << s.heads << "_kvh" << s.kv_heads << "_d" << s.head_dim;
    return s.v_head_dim == 0 ? out : out << "_v" << s.v_head_dim;
  }
};

template <class C>
struct Attended {
  std::vector<C> context, lse, weights;  // [q_len, heads, v_head_dim], [heads, q_len], [heads, q_len, kv_len]
};

template <class C>
void expect_same(const Sizes& s, const Attended<C>& a, const Attended<C>& b) {
  EXPECT_TRUE(same_bits(a.context, b.context, s.heads * s.value_dim()));
  EXPECT_TRUE(same_bits(a.lse, b.lse, s.q_len)) << "log-sum-exp, a row for each head";
  EXPECT_TRUE(same_bits(a.weights, b.weights, s.kv_len)) << "weights, a row for each head and query";
}

/// One sequence: q [q_len, heads, head_dim] in the compute type; k and v [kv_heads, kv_len, dim] as stored in S.
template <class S>
struct Problem {
  using C = ls::compute_t<S>;
  Sizes sizes;
  std::vector<C> q;
  std::vector<S> k, v;

  explicit Problem(const Sizes& s, std::uint64_t seed = 1)
      : sizes(s),
        q(normal_numbers<C>(s.q_len * s.heads * s.head_dim, seed)),
        k(normal_numbers<S>(s.kv_heads * s.kv_len * s.head_dim, seed + 1)),
        v(normal_numbers<S>(s.kv_heads * s.kv_len * s.value_dim(), seed + 2)) {}

  ls::View<const C, 3> query() const {
    return ls::View<const C, 3>::contiguous(q.data(), {sizes.q_len, sizes.heads, sizes.head_dim});
  }
  ls::View<const S, 3> keys() const {
    return ls::View<const S, 3>::contiguous(k.data(), {sizes.kv_heads, sizes.kv_len, sizes.head_dim});
  }
  ls::View<const S, 3> values() const {
    return ls::View<const S, 3>::contiguous(v.data(), {sizes.kv_heads, sizes.kv_len, sizes.value_dim()});
  }

  ls::ContiguousCache<S> cache(Index spare = 0) const {
    ls::ContiguousCache<S> filled({sizes.kv_heads, sizes.head_dim, sizes.value_dim()}, sizes.kv_len + spare);
    filled.import(keys(), values());
    return filled;
  }

  template <class... Policies, class Cache>
  Attended<C> attend(const Cache& cache, ls::AttendOptions<C, Policies...> options = {}) const {
    Attended<C> a;
    a.context.assign(at(sizes.q_len * sizes.heads * sizes.value_dim()), nan<C>());
    a.lse.assign(at(sizes.heads * sizes.q_len), nan<C>());
    a.weights.assign(at(sizes.heads * sizes.q_len * sizes.kv_len), nan<C>());
    options.lse = ls::View<C, 3>::contiguous(a.lse.data(), {1, sizes.heads, sizes.q_len});
    options.weights = ls::View<C, 4>::contiguous(a.weights.data(), {1, sizes.heads, sizes.q_len, sizes.kv_len});
    ls::attend<Policies...>(query(), cache,
                            ls::View<C, 3>::contiguous(a.context.data(), {sizes.q_len, sizes.heads, sizes.value_dim()}),
                            options);
    return a;
  }

  /// The same by the reference; causal from the last key unless `visible` says otherwise.
  reference::Result expected(reference::Problem problem) const {
    problem.heads = sizes.heads;
    problem.kv_heads = sizes.kv_heads;
    problem.head_dim = sizes.head_dim;
    problem.v_head_dim = sizes.value_dim();
    problem.q_len = sizes.q_len;
    problem.kv_len = sizes.kv_len;
    if (!problem.visible) problem.visible = reference::causal(sizes.kv_len - sizes.q_len);
    return reference::attend(problem, reference::widen(q), by_token(k, sizes.head_dim), by_token(v, sizes.value_dim()));
  }
  reference::Result expected() const { return expected(reference::Problem{}); }

  /// [kv_heads, kv_len, dim] as [kv_len, kv_heads, dim].
  template <class N>
  std::vector<double> by_token(const std::vector<N>& heads_first, Index dim) const {
    std::vector<double> result(heads_first.size());
    for (Index g = 0; g < sizes.kv_heads; ++g)
      for (Index t = 0; t < sizes.kv_len; ++t)
        for (Index d = 0; d < dim; ++d)
          result[at((t * sizes.kv_heads + g) * dim + d)] =
              static_cast<double>(heads_first[at((g * sizes.kv_len + t) * dim + d)]);
    return result;
  }

  /// For normal numbers: a logit errs by a rounding for each step of its chain of running size sqrt(head_dim), a
  /// weighted sum by one for each key; no number is above 6.
  double tolerance() const {
    const double eps = std::numeric_limits<C>::epsilon() / 2;
    return 6 * eps * (static_cast<double>(sizes.head_dim) + static_cast<double>(sizes.kv_len) + 8);
  }
  void expect_close(const reference::Result& expected, const Attended<C>& a) const {
    EXPECT_LE(largest_difference(expected.context, a.context), tolerance());
    EXPECT_LE(largest_difference(expected.lse, a.lse), tolerance());
    EXPECT_LE(largest_difference(expected.weights, a.weights), tolerance());
  }
};

/// A mask by a table: row i sees key j where the table says so, for every head. The table's owner is the caller.
class ByTable {
 public:
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  ByTable(const std::vector<char>& table, Index keys) noexcept : table_(&table), keys_(keys) {}
  ls::KeyRange range(ls::QueryRow, Index kv_len) const noexcept { return {0, kv_len}; }
  ls::Visibility block(ls::QueryRow, ls::KeyRange) const noexcept { return ls::Visibility::some; }
  bool visible(ls::QueryRow q, Index key) const noexcept { return (*table_)[at(q.row * keys_ + key)] != 0; }
  Index keys_needed(ls::QueryRow) const noexcept { return ls::all_keys; }

 private:
  const std::vector<char>* table_;
  Index keys_;
};

/// The same, telling of every block whether it needs a look.
class ByTableInBlocks : public ByTable {
 public:
  using ByTable::ByTable;
  ls::Visibility block(ls::QueryRow q, ls::KeyRange keys) const noexcept {
    Index seen = 0;
    for (Index key = keys.first; key < keys.last; ++key) seen += visible(q, key) ? 1 : 0;
    return seen == 0 ? ls::Visibility::none : seen == keys.size() ? ls::Visibility::all : ls::Visibility::some;
  }
};

}  // namespace fixture
