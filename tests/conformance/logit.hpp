// The laws of logit transforms, for ours and for a user's own.
//
//     struct MyLogitSubject {
//       static constexpr const char* name = "MyLogit";
//       using Compute = float;
//       auto make() const { return MyLogit{...}; }
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, LogitLaws, MyLogitSubject, conformance::SubjectName);
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "conformance/report.hpp"
#include "lockstep/concepts.hpp"

namespace conformance {

using lockstep::Index;
using lockstep::KeyRange;
using lockstep::QueryRow;

/// The factor on the query is a finite number for every head size.
template <class L>
Report scale_is_finite(const L& logit) {
  for (const Index head_dim : {1, 3, 8, 64, 80, 128, 256, 1024})
    if (!std::isfinite(logit.scale(head_dim))) return said("scale(", head_dim, ") is ", logit.scale(head_dim));
  return {};
}

/// Logits that reach every branch: zeros, denormals, ordinary, huge, infinite.
template <class C>
std::vector<C> some_logits(Index size) {
  using Limits = std::numeric_limits<C>;
  const C corner[] = {C(0),
                      C(-0.0),
                      Limits::denorm_min(),
                      -Limits::min(),
                      C(1),
                      C(-2.5),
                      C(88.75),
                      C(-104),
                      C(1e4),
                      Limits::max(),
                      C(3e-5),
                      Limits::lowest(),
                      Limits::infinity(),
                      -Limits::infinity(),
                      C(0.1)};
  std::vector<C> logits(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] =
        i % 3 == 0 ? corner[(i / 3) % std::size(corner)] : static_cast<C>(std::sin(static_cast<double>(i)) * 20);
  return logits;
}

template <class C>
bool same_bits_or_both_nan(C a, C b) {
  return (a != a && b != b) || std::memcmp(&a, &b, sizeof(C)) == 0;
}

/// The block form gives the bits of the scalar form, and touches nothing beside the block.
template <class C, class L>
Report block_agrees_with_scalar(const L& logit) {
  constexpr C guard = C(12345.5);
  for (const Index head : {0, 1, 13})
    for (const Index place : {0, 5, 300, 70000})
      for (const Index first : {0, 1, 16, 250, 69990})
        for (const Index size : {0, 1, 2, 7, 15, 16, 17, 64, 255, 256}) {
          const QueryRow q{0, head, place % 64, place};
          const std::vector<C> logits = some_logits<C>(size);
          std::vector<C> block(logits);
          block.push_back(guard);
          block.insert(block.begin(), guard);
          logit.apply(block.data() + 1, q, KeyRange{first, first + size});
          if (block.front() != guard || block.back() != guard)
            return said("a block of ", size, " logits is left on one side");
          for (Index i = 0; i < size; ++i) {
            const C one = logit.apply(logits[static_cast<std::size_t>(i)], q, first + i);
            if (!same_bits_or_both_nan(one, block[static_cast<std::size_t>(i + 1)]))
              return said("logit ", logits[static_cast<std::size_t>(i)], " of head ", head, ", place ", place, ", key ",
                          first + i, " becomes ", one, " alone and ", block[static_cast<std::size_t>(i + 1)],
                          " in a block of ", size);
          }
        }
  return {};
}

/// All laws.
template <class Subject>
Report logit_laws(const Subject& subject) {
  using C = typename Subject::Compute;
  const auto logit = subject.make();
  static_assert(lockstep::LogitTransform<std::remove_const_t<decltype(logit)>, C>);
  for (Report r : {scale_is_finite(logit), block_agrees_with_scalar<C>(logit)})
    if (!r.empty()) return r;
  return {};
}

}  // namespace conformance

template <class Subject>
class LogitLaws : public testing::Test {
 protected:
  Subject subject;
};
TYPED_TEST_SUITE_P(LogitLaws);
TYPED_TEST_P(LogitLaws, ScaleIsFinite) { EXPECT_EQ(conformance::scale_is_finite(this->subject.make()), ""); }
TYPED_TEST_P(LogitLaws, BlockAgreesWithScalar) {
  EXPECT_EQ(conformance::block_agrees_with_scalar<typename TypeParam::Compute>(this->subject.make()), "");
}
REGISTER_TYPED_TEST_SUITE_P(LogitLaws, ScaleIsFinite, BlockAgreesWithScalar);
