// Every logit transform keeps the laws, and one that breaks a law is found.
#include <gtest/gtest.h>

#include "attend/contract_kernels.hpp"
#include "conformance/logit.hpp"
#include "lockstep/logit/soft_cap.hpp"
#include "lockstep/numeric/rounded.hpp"
#include "lockstep/plain.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;
using ls::KeyRange;
using ls::QueryRow;

namespace {

template <class C>
struct ScaledSubject {
  using Compute = C;
  static constexpr const char* name = std::same_as<C, float> ? "ScaledFloat" : "ScaledDouble";
  ls::Scaled make() const { return {}; }
};

template <class C>
struct SoftCapSubject {
  using Compute = C;
  static constexpr const char* name = std::same_as<C, float> ? "SoftCapFloat" : "SoftCapDouble";
  ls::SoftCap make() const { return {.cap = 30}; }
};

// A user's transform: a bias by distance, with one slope a head.
struct Slopes {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::logits;
  double scale(Index) const noexcept { return 0.25; }
  float apply(float s, QueryRow q, Index key) const noexcept {
    return ls::fma(1.0F / static_cast<float>(q.head + 1), static_cast<float>(key - q.place), s);
  }
  void apply(float* s, QueryRow q, KeyRange keys) const noexcept {
    for (Index key = keys.first; key < keys.last; ++key, ++s) *s = apply(*s, q, key);
  }
};
struct SlopesSubject {
  using Compute = float;
  static constexpr const char* name = "UserSlopes";
  Slopes make() const { return {}; }
};

using Subjects = testing::Types<ScaledSubject<float>, ScaledSubject<double>, SoftCapSubject<float>,
                                SoftCapSubject<double>, SlopesSubject>;

struct OneKeyOff : Slopes {
  using Slopes::apply;
  void apply(float* s, QueryRow q, KeyRange keys) const noexcept {
    Slopes::apply(s, q, {keys.first + 1, keys.last + 1});
  }
};
struct RoundedTwice : Slopes {
  using Slopes::apply;
  void apply(float* s, QueryRow q, KeyRange keys) const noexcept {
    for (Index key = keys.first; key < keys.last; ++key, ++s)
      *s = *s + ls::rounded(1.0F / static_cast<float>(q.head + 1) * static_cast<float>(key - q.place));
  }
};
struct WritesBeside : Slopes {
  using Slopes::apply;
  void apply(float* s, QueryRow q, KeyRange keys) const noexcept {
    Slopes::apply(s, q, keys);
    if (keys.size() == 15) s[15] = 0;
  }
};
struct NoScale : Slopes {
  double scale(Index head_dim) const noexcept { return 1 / static_cast<double>(head_dim - 64); }
};

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Library, LogitLaws, Subjects, SubjectName);

TEST(LogitConformance, HoldsOnEveryInstructionSet) {
  fixture::for_each_instruction_set([] {
    EXPECT_EQ(conformance::logit_laws(SoftCapSubject<float>{}), "");
    EXPECT_EQ(conformance::logit_laws(SoftCapSubject<double>{}), "");
  });
}

TEST(LogitConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::logit_laws(SlopesSubject{}), "");
  EXPECT_NE(conformance::block_agrees_with_scalar<float>(OneKeyOff{}), "");
  EXPECT_NE(conformance::block_agrees_with_scalar<float>(RoundedTwice{}), "");
  EXPECT_NE(conformance::block_agrees_with_scalar<float>(WritesBeside{}), "");
  EXPECT_NE(conformance::scale_is_finite(NoScale{}), "");
}
