// Every bias keeps the laws, on every instruction set, and one that breaks a law is found.
#include <gtest/gtest.h>

#include "attend/contract_kernels.hpp"
#include "conformance/bias.hpp"
#include "lockstep/bias/distance.hpp"
#include "lockstep/plain.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;
using ls::KeyRange;
using ls::QueryRow;

namespace {

struct NoBiasSubject {
  using Compute = float;
  static constexpr const char* name = "NoBias";
  ls::NoBias make() const { return {}; }
};
template <class C>
struct AlibiSubject {
  using Compute = C;
  static constexpr const char* name = std::same_as<C, float> ? "AlibiFloat" : "AlibiDouble";
  ls::Alibi<C> make() const { return ls::Alibi<C>(14); }
};
template <class C>
struct RelativeSubject {
  using Compute = C;
  static constexpr const char* name = std::same_as<C, float> ? "RelativeFloat" : "RelativeDouble";
  ls::RelativeBias<C> make() const {
    const std::vector<C> table = fixture::numbers<C>(32 * 14, 3);
    return {ls::RelativeBuckets{.bidirectional = true}, ls::View<const C, 2>::contiguous(table.data(), {32, 14})};
  }
};
struct PlainTableSubject {
  using Compute = float;
  static constexpr const char* name = "PlainTable";
  ls::RelativeBias<float> make() const {
    const std::vector<float> table = fixture::numbers<float>(14 * 9, 4);
    return {ls::View<const float, 2>::contiguous(table.data(), {14, 9}), -6};
  }
};

using Subjects = testing::Types<NoBiasSubject, AlibiSubject<float>, AlibiSubject<double>, RelativeSubject<float>,
                                RelativeSubject<double>, PlainTableSubject>;

struct Recency {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::bias;
  float apply(float s, QueryRow q, Index key) const noexcept { return ls::rounded(s + (key == q.place ? 1.0F : 0.0F)); }
  void apply(float* s, QueryRow q, KeyRange keys) const noexcept {
    for (Index key = keys.first; key < keys.last; ++key, ++s) *s = apply(*s, q, key);
  }
};
struct RecencySubject {
  using Compute = float;
  Recency make() const { return {}; }
};
struct ByRow : Recency {
  using Recency::apply;
  float apply(float s, QueryRow q, Index) const noexcept { return s + static_cast<float>(q.row); }
};
struct OneKeyOff : Recency {
  using Recency::apply;
  void apply(float* s, QueryRow q, KeyRange keys) const noexcept {
    Recency::apply(s, q, {keys.first + 1, keys.last + 1});
  }
};
struct Uncovers : Recency {
  using Recency::apply;
  float apply(float s, QueryRow, Index) const noexcept { return s < -1e9F ? -1e9F : s; }
};

}  // namespace

// The shared laws come with a suite of their own, for transforms.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LogitLaws);
INSTANTIATE_TYPED_TEST_SUITE_P(Library, BiasLaws, Subjects, SubjectName);

TEST(BiasConformance, HoldsOnEveryInstructionSet) {
  fixture::for_each_instruction_set([] {
    EXPECT_EQ(conformance::bias_laws(AlibiSubject<float>{}), "");
    EXPECT_EQ(conformance::bias_laws(AlibiSubject<double>{}), "");
    EXPECT_EQ(conformance::bias_laws(RelativeSubject<float>{}), "");
    EXPECT_EQ(conformance::bias_laws(RelativeSubject<double>{}), "");
    EXPECT_EQ(conformance::bias_laws(PlainTableSubject{}), "");
  });
}

TEST(BiasConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::bias_laws(RecencySubject{}), "");
  EXPECT_NE(conformance::bias_depends_on_places_alone<float>(ByRow{}), "");
  EXPECT_NE(conformance::block_agrees_with_scalar<float>(OneKeyOff{}), "");
  EXPECT_NE(conformance::bias_is_finite<float>(Uncovers{}), "");
}
