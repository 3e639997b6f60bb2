// The laws of norms of queries and keys, for ours and for a user's own.
//
//     struct MyNormSubject {
//       static constexpr const char* name = "MyNorm";
//       using Compute = float;
//       auto make(Index heads, Index kv_heads, Index head_dim) const { return MyNorm{...}; }
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, NormLaws, MyNormSubject, conformance::SubjectName);
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "conformance/report.hpp"
#include "lockstep/concepts.hpp"

namespace conformance {

using lockstep::Index;

struct NormShape {
  Index heads, kv_heads, head_dim;
};
inline constexpr NormShape norm_shapes[] = {{1, 1, 1}, {6, 2, 8}, {3, 1, 17}, {4, 4, 64}};

/// Numbers of both signs and several sizes.
template <class C>
std::vector<C> norm_rows(Index count, Index seed) {
  std::vector<C> rows;
  for (Index i = 0; i < count; ++i)
    rows.push_back(static_cast<C>(static_cast<double>((i * 37 + seed * 11) % 29 - 14) *
                                  std::pow(2.0, static_cast<double>(i % 5) - 2)));
  return rows;
}

/// f(name, norm, in place, heads) for the queries and for the keys of each shape.
template <class Subject, class F>
Report for_queries_and_keys(const Subject& subject, F f) {
  for (const NormShape& shape : norm_shapes) {
    const auto norm = subject.make(shape.heads, shape.kv_heads, shape.head_dim);
    const auto query = [&](auto* rows) { norm.query(rows, shape.heads, shape.head_dim); };
    const auto key = [&](auto* rows) { norm.key(rows, shape.kv_heads, shape.head_dim); };
    if (Report r = f(query, shape.heads * shape.head_dim); !r.empty())
      return said("queries of ", shape.heads, " heads: ", r);
    if (Report r = f(key, shape.kv_heads * shape.head_dim); !r.empty())
      return said("keys of ", shape.kv_heads, " heads: ", r);
  }
  return {};
}

/// Rows of finite numbers stay finite, and what lies behind them as it is.
template <class Subject>
Report norm_stays_within_its_rows(const Subject& subject) {
  using C = typename Subject::Compute;
  return for_queries_and_keys(subject, [](auto norm, Index count) -> Report {
    auto rows = norm_rows<C>(count, 1);
    rows.insert(rows.end(), 16, C(-7));
    norm(rows.data());
    for (Index i = 0; i < count; ++i)
      if (!std::isfinite(rows[static_cast<std::size_t>(i)])) return said("number ", i, " of ", count, " is not finite");
    for (std::size_t i = static_cast<std::size_t>(count); i < rows.size(); ++i)
      if (rows[i] != C(-7)) return said("number ", i, " of ", count, " is written");
    return {};
  });
}

/// A token's rows come out the same whatever was normalised before them, and wherever they lie.
template <class Subject>
Report norm_depends_on_the_token_alone(const Subject& subject) {
  using C = typename Subject::Compute;
  return for_queries_and_keys(subject, [](auto norm, Index count) -> Report {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(C);
    auto alone = norm_rows<C>(count, 2), other = norm_rows<C>(count, 3);
    std::vector<C> moved(1, C(5));
    moved.insert(moved.end(), alone.begin(), alone.end());
    norm(alone.data());
    norm(other.data());
    norm(moved.data() + 1);
    if (std::memcmp(alone.data(), moved.data() + 1, bytes) != 0) return "another result after another token, elsewhere";
    return {};
  });
}

/// All laws.
template <class Subject>
Report norm_laws(const Subject& subject) {
  static_assert(
      lockstep::QueryKeyNorm<std::remove_const_t<decltype(subject.make(1, 1, 1))>, typename Subject::Compute>);
  for (Report r : {norm_stays_within_its_rows(subject), norm_depends_on_the_token_alone(subject)})
    if (!r.empty()) return r;
  return {};
}

}  // namespace conformance

template <class Subject>
class NormLaws : public testing::Test {
 protected:
  Subject subject;
};
TYPED_TEST_SUITE_P(NormLaws);
TYPED_TEST_P(NormLaws, StaysWithinItsRows) { EXPECT_EQ(conformance::norm_stays_within_its_rows(this->subject), ""); }
TYPED_TEST_P(NormLaws, DependsOnTheTokenAlone) {
  EXPECT_EQ(conformance::norm_depends_on_the_token_alone(this->subject), "");
}
REGISTER_TYPED_TEST_SUITE_P(NormLaws, StaysWithinItsRows, DependsOnTheTokenAlone);
