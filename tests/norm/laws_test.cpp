// Every norm keeps the laws, on every instruction set, and one that breaks a law is found.
#include <gtest/gtest.h>

#include "attend/contract_kernels.hpp"
#include "conformance/norm.hpp"
#include "lockstep/norm/qk_norm.hpp"
#include "lockstep/plain.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;

namespace {

struct NoNormSubject {
  using Compute = float;
  static constexpr const char* name = "NoNorm";
  ls::NoNorm make(Index, Index, Index) const { return {}; }
};
template <class Order, class Scope, class C>
struct QkNormSubject {
  using Compute = C;
  static std::string name() {
    return std::string(Order::before_rotation ? "BeforeRope" : "AfterRope") +
           (Scope::whole ? "WholeWidth" : "PerHead") + (std::same_as<C, float> ? "Float" : "Double");
  }
  ls::QkNorm<Order, Scope, C> make(Index heads, Index kv_heads, Index head_dim) const {
    const auto query = fixture::numbers<C>(Scope::whole ? heads * head_dim : head_dim, 1);
    const auto key = fixture::numbers<C>(Scope::whole ? kv_heads * head_dim : head_dim, 2);
    return {ls::View<const C, 1>(query), ls::View<const C, 1>(key)};
  }
};
using Subjects = testing::Types<
    NoNormSubject, QkNormSubject<ls::BeforeRope, ls::PerHead, float>, QkNormSubject<ls::AfterRope, ls::PerHead, double>,
    QkNormSubject<ls::BeforeRope, ls::WholeWidth, double>, QkNormSubject<ls::AfterRope, ls::WholeWidth, float>>;

/// A user's own: each token divided by its largest number.
struct ByLargest {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::norm;
  static constexpr bool active = true, before_rotation = true;
  void query(float* rows, Index heads, Index head_dim) const noexcept { divide(rows, heads * head_dim); }
  void key(float* rows, Index heads, Index head_dim) const noexcept { divide(rows, heads * head_dim); }

  static void divide(float* rows, Index count) noexcept {
    float largest = 1;
    for (Index i = 0; i < count; ++i) largest = std::max(largest, std::abs(rows[i]));
    for (Index i = 0; i < count; ++i) rows[i] = ls::rounded(rows[i] / largest);
  }
};
struct OneTooMany : ByLargest {
  void key(float* rows, Index heads, Index head_dim) const noexcept { divide(rows, heads * head_dim + 1); }
};
struct Remembers : ByLargest {
  void query(float* rows, Index heads, Index head_dim) const noexcept {
    static float before = 1;
    rows[0] += before;
    divide(rows, heads * head_dim);
    before = rows[0];
  }
};
template <class N>
struct SubjectOf {
  using Compute = float;
  N make(Index, Index, Index) const { return {}; }
};

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Library, NormLaws, Subjects, SubjectName);

TEST(NormConformance, HoldsOnEveryInstructionSet) {
  fixture::for_each_instruction_set([] {
    EXPECT_EQ((conformance::norm_laws(QkNormSubject<ls::BeforeRope, ls::PerHead, float>{})), "");
    EXPECT_EQ((conformance::norm_laws(QkNormSubject<ls::AfterRope, ls::WholeWidth, double>{})), "");
  });
}

TEST(NormConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::norm_laws(SubjectOf<ByLargest>{}), "");
  EXPECT_NE(conformance::norm_stays_within_its_rows(SubjectOf<OneTooMany>{}), "");
  EXPECT_NE(conformance::norm_depends_on_the_token_alone(SubjectOf<Remembers>{}), "");
}
