// Every head sharing keeps the law, and one that breaks it is found.
#include <gtest/gtest.h>

#include "conformance/heads.hpp"
#include "lockstep/heads/repeated.hpp"
#include "lockstep/plain.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;

namespace {

struct GroupedSubject {
  static constexpr const char* name = "Grouped";
  ls::Grouped make() const { return {}; }
};
struct RepeatedSubject {
  static constexpr const char* name = "RepeatedHeads";
  ls::RepeatedHeads make() const { return {}; }
};

// A user's sharing: neighbouring query heads read different kv heads, any numbers are taken.
struct RoundRobin {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::heads;
  Index kv_head(Index head, Index, Index kv_heads) const noexcept { return head % kv_heads; }
};
struct RoundRobinSubject {
  static constexpr const char* name = "UserRoundRobin";
  RoundRobin make() const { return {}; }
};

using Subjects = testing::Types<GroupedSubject, RepeatedSubject, RoundRobinSubject>;

struct BeyondTheLast : ls::Grouped {
  Index kv_head(Index head, Index heads, Index kv_heads) const noexcept { return (head + 1) / (heads / kv_heads); }
};
struct TakesNone : ls::Grouped {
  static constexpr bool accepts(Index, Index kv_heads) noexcept { return kv_heads >= 0; }
};

TEST(Grouped, GivesConsecutiveQueryHeadsOneKvHead) {
  for (const auto& [heads, kv_heads] : {std::pair<Index, Index>{8, 8}, {14, 2}, {24, 8}, {32, 4}, {7, 1}, {1, 1}})
    for (Index h = 0; h < heads; ++h) EXPECT_EQ(ls::Grouped{}.kv_head(h, heads, kv_heads), h / (heads / kv_heads));
}

TEST(Grouped, TakesMultiplesOfTheKvHeadsOnly) {
  for (Index kv_heads = 1; kv_heads <= 12; ++kv_heads)
    for (Index heads = 1; heads <= 48; ++heads) {
      EXPECT_EQ(ls::Grouped::accepts(heads, kv_heads), heads % kv_heads == 0) << heads << ", " << kv_heads;
      EXPECT_EQ(ls::RepeatedHeads::accepts(heads, kv_heads), heads % kv_heads == 0) << heads << ", " << kv_heads;
    }
}

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Library, HeadSharingLaws, Subjects, SubjectName);

TEST(HeadSharingConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::head_sharing_laws(RoundRobinSubject{}), "");
  EXPECT_NE(conformance::every_head_reads_a_kv_head(BeyondTheLast{}), "");
  EXPECT_NE(conformance::accepts_sensible_numbers(TakesNone{}), "");
}
