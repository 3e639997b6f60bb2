// All sinks keep the laws, and one that breaks a law is found.
#include <gtest/gtest.h>

#include "conformance/sinks.hpp"
#include "fixture.hpp"
#include "lockstep/plain.hpp"
#include "lockstep/sinks/learned.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;

namespace {

struct NoSinksSubject {
  using Compute = float;
  static constexpr const char* name = "NoSinks";
  ls::NoSinks make(Index) const { return {}; }
};
template <class C>
struct LearnedSubject {
  using Compute = C;
  static constexpr const char* name = std::same_as<C, float> ? "LearnedFloat" : "LearnedDouble";
  ls::LearnedSinks<C> make(Index heads) const {
    auto logits = fixture::numbers<C>(heads, 5);
    logits.back() = -std::numeric_limits<C>::infinity();
    return ls::LearnedSinks<C>(ls::View<const C, 1>(logits));
  }
};
using Subjects = testing::Types<NoSinksSubject, LearnedSubject<float>, LearnedSubject<double>>;

struct One {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::sinks;
  static constexpr bool active = true;
  float logit(Index head) const noexcept { return static_cast<float>(head); }
};
struct Endless : One {
  float logit(Index head) const noexcept { return head == 6 ? std::numeric_limits<float>::infinity() : 0; }
};
struct TakesAnyNumber : One {
  ls::Status check(Index) const noexcept { return {}; }
};
template <class S>
struct SubjectOf {
  using Compute = float;
  S make(Index) const { return {}; }
};

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Library, SinkLaws, Subjects, SubjectName);

TEST(SinkConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::sink_laws(SubjectOf<One>{}), "");
  EXPECT_NE(conformance::sinks_are_logits(SubjectOf<Endless>{}), "");
  EXPECT_NE(conformance::sinks_count_their_heads(SubjectOf<TakesAnyNumber>{}), "");
}
