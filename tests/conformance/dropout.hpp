// The laws of dropout, for ours and for a user's own.
//
//     struct MyDropoutSubject {
//       static constexpr const char* name = "MyDropout";
//       auto make() const { return MyDropout{...}; }
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, DropoutLaws, MyDropoutSubject, conformance::SubjectName);
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "conformance/report.hpp"
#include "lockstep/concepts.hpp"

namespace conformance {

using lockstep::Index;

/// What is kept depends on stream, head and places alone: not on what was asked before, nor in what order.
template <class D>
Report pattern_depends_on_places_alone(const D& dropout) {
  const auto forward = dropout.bind(3), backward = dropout.bind(3);
  bool kept[2][9][40];
  for (Index head = 0; head < 2; ++head)
    for (Index query = 0; query < 9; ++query)
      for (Index key = 0; key < 40; ++key) kept[head][query][key] = forward.kept(head, query, key);
  for (Index head = 1; head >= 0; --head)
    for (Index query = 8; query >= 0; --query)
      for (Index key = 39; key >= 0; --key)
        if (backward.kept(head, query, key) != kept[head][query][key])
          return said("head ", head, ", query ", query, ", key ", key, ": another answer in another order");
  return {};
}

/// The factor makes up for what is left out: times the share of kept weights it is 1, within what chance allows.
template <class D>
Report factor_makes_up_for_the_dropped(const D& dropout) {
  const auto pattern = dropout.bind(0);
  if (!(pattern.factor() >= 1) || !std::isfinite(pattern.factor())) return said("the factor is ", pattern.factor());
  double kept = 0;
  constexpr Index side = 200;
  for (Index query = 0; query < side; ++query)
    for (Index key = 0; key < side; ++key) kept += pattern.kept(1, query, key) ? 1 : 0;
  const double share = kept / static_cast<double>(side * side), expected = 1 / pattern.factor();
  const double sigma = std::sqrt(expected * (1 - expected)) / static_cast<double>(side);
  if (std::abs(share - expected) > 5 * sigma) return said("keeps ", share, ", the factor is for ", expected);
  return {};
}

/// All laws.
template <class Subject>
Report dropout_laws(const Subject& subject) {
  const auto dropout = subject.make();
  static_assert(lockstep::DropoutPattern<std::remove_const_t<decltype(dropout)>>);
  for (Report r : {pattern_depends_on_places_alone(dropout), factor_makes_up_for_the_dropped(dropout)})
    if (!r.empty()) return r;
  return {};
}

}  // namespace conformance

template <class Subject>
class DropoutLaws : public testing::Test {
 protected:
  Subject subject;
};
TYPED_TEST_SUITE_P(DropoutLaws);
TYPED_TEST_P(DropoutLaws, PatternDependsOnPlacesAlone) {
  EXPECT_EQ(conformance::pattern_depends_on_places_alone(this->subject.make()), "");
}
TYPED_TEST_P(DropoutLaws, FactorMakesUpForTheDropped) {
  EXPECT_EQ(conformance::factor_makes_up_for_the_dropped(this->subject.make()), "");
}
REGISTER_TYPED_TEST_SUITE_P(DropoutLaws, PatternDependsOnPlacesAlone, FactorMakesUpForTheDropped);
