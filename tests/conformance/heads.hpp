// The laws of head sharing, for ours and for a user's own.
//
//     struct MySharingSubject {
//       static constexpr const char* name = "MySharing";
//       auto make() const { return MySharing{...}; }
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, HeadSharingLaws, MySharingSubject, conformance::SubjectName);
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "conformance/report.hpp"
#include "lockstep/concepts.hpp"

namespace conformance {

using lockstep::Index;

/// Whether the sharing takes these head numbers; one that says nothing takes all.
template <class H>
constexpr bool accepts_heads(Index heads, Index kv_heads) {
  if constexpr (requires { H::accepts(heads, kv_heads); })
    return H::accepts(heads, kv_heads);
  else
    return true;
}

/// Every query head reads one of the kv heads that there are.
template <class H>
Report every_head_reads_a_kv_head(const H& sharing) {
  for (Index kv_heads = 1; kv_heads <= 16; ++kv_heads)
    for (Index heads = 1; heads <= 64; ++heads) {
      if (!accepts_heads<H>(heads, kv_heads)) continue;
      for (Index h = 0; h < heads; ++h)
        if (const Index g = sharing.kv_head(h, heads, kv_heads); g < 0 || g >= kv_heads)
          return said("query head ", h, " of ", heads, " reads kv head ", g, " of ", kv_heads);
    }
  return {};
}

/// Some head numbers are taken, and none below 1.
template <class H>
Report accepts_sensible_numbers(const H&) {
  if (!accepts_heads<H>(1, 1)) return "one query head over one kv head is refused";
  if constexpr (requires { H::accepts(Index{}, Index{}); })
    for (const auto& [heads, kv_heads] : {std::pair<Index, Index>{0, 1}, {1, 0}, {0, 0}, {-2, 1}, {2, -1}, {-4, -2}})
      if (H::accepts(heads, kv_heads)) return said(heads, " query heads over ", kv_heads, " kv heads are taken");
  return {};
}

/// All laws.
template <class Subject>
Report head_sharing_laws(const Subject& subject) {
  const auto sharing = subject.make();
  static_assert(lockstep::HeadSharing<std::remove_const_t<decltype(sharing)>>);
  for (Report r : {every_head_reads_a_kv_head(sharing), accepts_sensible_numbers(sharing)})
    if (!r.empty()) return r;
  return {};
}

}  // namespace conformance

template <class Subject>
class HeadSharingLaws : public testing::Test {
 protected:
  Subject subject;
};
TYPED_TEST_SUITE_P(HeadSharingLaws);
TYPED_TEST_P(HeadSharingLaws, EveryHeadReadsAKvHead) {
  EXPECT_EQ(conformance::every_head_reads_a_kv_head(this->subject.make()), "");
}
TYPED_TEST_P(HeadSharingLaws, AcceptsSensibleNumbers) {
  EXPECT_EQ(conformance::accepts_sensible_numbers(this->subject.make()), "");
}
REGISTER_TYPED_TEST_SUITE_P(HeadSharingLaws, EveryHeadReadsAKvHead, AcceptsSensibleNumbers);
