// Every dropout keeps the laws, and one that breaks a law is found.
#include <gtest/gtest.h>

#include "conformance/dropout.hpp"
#include "lockstep/dropout/dropout.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;

namespace {

struct NoDropoutSubject {
  static constexpr const char* name = "NoDropout";
  ls::NoDropout make() const { return {}; }
};
struct DropoutSubject {
  static constexpr const char* name = "Dropout";
  ls::Dropout make() const { return {.probability = 0.3, .seed = 9}; }
};
struct NeverDropsSubject {
  static constexpr const char* name = "DropoutOfNone";
  ls::Dropout make() const { return {.probability = 0, .seed = 9}; }
};
using Subjects = testing::Types<NoDropoutSubject, DropoutSubject, NeverDropsSubject>;

struct WrongFactor : ls::Dropout {
  struct Pattern : ls::Dropout::Pattern {
    double factor() const noexcept { return 1; }
  };
  Pattern bind(std::uint32_t stream) const noexcept { return {ls::Dropout::bind(stream)}; }
};
struct Counts {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::dropout;
  static constexpr bool active = true;
  struct Pattern {
    mutable int asked = 0;
    bool kept(Index, Index, Index) const noexcept { return ++asked % 2 == 0; }
    double factor() const noexcept { return 2; }
  };
  Pattern bind(std::uint32_t) const noexcept { return {}; }
};
static_assert(ls::DropoutPattern<Counts>);

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Library, DropoutLaws, Subjects, SubjectName);

TEST(DropoutConformance, FindsEachBrokenLaw) {
  EXPECT_NE(conformance::pattern_depends_on_places_alone(Counts{}), "");
  EXPECT_NE(conformance::factor_makes_up_for_the_dropped(WrongFactor{{.probability = 0.3, .seed = 9}}), "");
}
