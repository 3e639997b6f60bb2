// The laws of logit biases, for ours and for a user's own.
//
//     struct MyBiasSubject {
//       static constexpr const char* name = "MyBias";
//       using Compute = float;
//       auto make() const { return MyBias{...}; }  // for at least 14 heads
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, BiasLaws, MyBiasSubject, conformance::SubjectName);
#pragma once

#include "conformance/logit.hpp"

namespace conformance {

/// What is hidden by -inf stays so, and the bias of a logit of 0 is finite.
template <class C, class B>
Report bias_is_finite(const B& bias) {
  constexpr C hidden = -std::numeric_limits<C>::infinity();
  for (const Index head : {0, 1, 13})
    for (const Index place : {0, 5, 300, 70000})
      for (const Index key : {0, 1, 4, 5, 6, 299, 70001}) {
        const QueryRow q{0, head, 0, place};
        if (!std::isfinite(bias.apply(C(0), q, key)))
          return said("head ", head, ", place ", place, ", key ", key, ": a bias of ", bias.apply(C(0), q, key));
        if (bias.apply(hidden, q, key) != hidden)
          return said("head ", head, ", place ", place, ", key ", key, ": -inf becomes ", bias.apply(hidden, q, key));
      }
  return {};
}

/// The bias depends on head and places, not on which sequence or row of the call it is.
template <class C, class B>
Report bias_depends_on_places_alone(const B& bias) {
  for (const Index head : {0, 1, 13})
    for (const Index place : {0, 5, 300, 70000})
      for (const Index key : {0, 1, 5, 299}) {
        const C one = bias.apply(C(0.5), QueryRow{0, head, 0, place}, key);
        const C other = bias.apply(C(0.5), QueryRow{3, head, 7, place}, key);
        if (!same_bits_or_both_nan(one, other))
          return said("head ", head, ", place ", place, ", key ", key, ": ", one, " or, in another row of the call, ",
                      other);
      }
  return {};
}

/// All laws.
template <class Subject>
Report bias_laws(const Subject& subject) {
  using C = typename Subject::Compute;
  const auto bias = subject.make();
  static_assert(lockstep::LogitBias<std::remove_const_t<decltype(bias)>, C>);
  for (Report r : {bias_is_finite<C>(bias), bias_depends_on_places_alone<C>(bias), block_agrees_with_scalar<C>(bias)})
    if (!r.empty()) return r;
  return {};
}

}  // namespace conformance

template <class Subject>
class BiasLaws : public testing::Test {
 protected:
  Subject subject;
};
TYPED_TEST_SUITE_P(BiasLaws);
TYPED_TEST_P(BiasLaws, BiasIsFinite) {
  EXPECT_EQ(conformance::bias_is_finite<typename TypeParam::Compute>(this->subject.make()), "");
}
TYPED_TEST_P(BiasLaws, DependsOnPlacesAlone) {
  EXPECT_EQ(conformance::bias_depends_on_places_alone<typename TypeParam::Compute>(this->subject.make()), "");
}
TYPED_TEST_P(BiasLaws, BlockAgreesWithScalar) {
  EXPECT_EQ(conformance::block_agrees_with_scalar<typename TypeParam::Compute>(this->subject.make()), "");
}
REGISTER_TYPED_TEST_SUITE_P(BiasLaws, BiasIsFinite, DependsOnPlacesAlone, BlockAgreesWithScalar);
