// The laws of attention sinks, for ours and for a user's own.
//
//     struct MySinksSubject {
//       static constexpr const char* name = "MySinks";
//       using Compute = float;
//       auto make(Index heads) const { return MySinks{...}; }
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, SinkLaws, MySinksSubject, conformance::SubjectName);
#pragma once

#include <gtest/gtest.h>

#include <limits>

#include "conformance/report.hpp"
#include "lockstep/concepts.hpp"

namespace conformance {

using lockstep::Index;

/// Each head's sink is a number below +inf, -inf where there is none, and the same each time.
template <class Subject>
Report sinks_are_logits(const Subject& subject) {
  using C = typename Subject::Compute;
  for (const Index heads : {1, 2, 7, 64}) {
    const auto sinks = subject.make(heads);
    for (Index head = 0; head < heads; ++head) {
      const C logit = static_cast<C>(sinks.logit(head));
      if (!(logit < std::numeric_limits<C>::infinity())) return said("head ", head, " of ", heads, ": ", logit);
      if (!(static_cast<C>(sinks.logit(head)) == logit))
        return said("head ", head, " of ", heads, ": another the next time");
    }
  }
  return {};
}

/// Sinks of so many heads take a call of as many; where they have numbers of their own, of no other number.
template <class Subject>
Report sinks_count_their_heads(const Subject& subject) {
  for (const Index heads : {1, 2, 7, 64}) {
    const auto sinks = subject.make(heads);
    if constexpr (requires { sinks.check(heads); }) {
      if (!sinks.check(heads).ok()) return said("refuses ", heads, " heads: ", sinks.check(heads).message());
      for (const Index other : {Index{0}, heads - 1, heads + 1, Index{-1}})
        if (sinks.check(other).ok()) return said("has ", heads, " numbers and takes ", other, " heads");
    }
  }
  return {};
}

/// All laws.
template <class Subject>
Report sink_laws(const Subject& subject) {
  static_assert(lockstep::SinkLogits<std::remove_const_t<decltype(subject.make(1))>, typename Subject::Compute>);
  for (Report r : {sinks_are_logits(subject), sinks_count_their_heads(subject)})
    if (!r.empty()) return r;
  return {};
}

}  // namespace conformance

template <class Subject>
class SinkLaws : public testing::Test {
 protected:
  Subject subject;
};
TYPED_TEST_SUITE_P(SinkLaws);
TYPED_TEST_P(SinkLaws, AreLogits) { EXPECT_EQ(conformance::sinks_are_logits(this->subject), ""); }
TYPED_TEST_P(SinkLaws, CountTheirHeads) { EXPECT_EQ(conformance::sinks_count_their_heads(this->subject), ""); }
REGISTER_TYPED_TEST_SUITE_P(SinkLaws, AreLogits, CountTheirHeads);
