// What a policy may offer beyond what its concept asks: as asked, or the policy is refused. A member in another form
// would be passed over, and what it refuses would go through.
#include <gtest/gtest.h>

#include <lockstep/cache/ring.hpp>
#include <lockstep/dropout/dropout.hpp>
#include <lockstep/kernel/call.hpp>
#include <lockstep/mask/causal.hpp>
#include <lockstep/mask/compose.hpp>
#include <lockstep/plain.hpp>

namespace ls = lockstep;
using ls::Index;
using ls::KeyRange;
using ls::QueryRow;
using ls::Status;

namespace {

// Each derives from a policy that is one, and adds a member.
template <class Base>
struct Checks : Base {
  Status check() const noexcept { return {}; }
};
template <class Base>
struct CheckMayThrow : Base {
  Status check() const { return {}; }
};
template <class Base>
struct CheckIsNotConst : Base {
  Status check() noexcept { return {}; }
};
template <class Base>
struct CheckGivesAnotherType : Base {
  bool check() const noexcept { return true; }
};
template <class Base>
struct CheckTakesSomethingElse : Base {
  Status check(const char*) const noexcept { return {}; }
};
template <class Base>
struct ChecksHeads : Base {
  Status check(Index) const noexcept { return {}; }
};
template <class Base>
struct ChecksHeadsAndMayThrow : Base {
  Status check(Index) const { return {}; }
};
template <class Base>
struct ChecksThree : Base {
  Status check(Index, Index, Index) const noexcept { return {}; }
};
template <class Base>
struct ChecksThreeAndMayThrow : Base {
  Status check(Index, Index, Index) const { return {}; }
};
template <class Base>
struct ChecksFourAndMayThrow : Base {
  Status check(Index, Index, Index, Index) const { return {}; }
};
template <class Base>
struct OneOfTwoChecksMayThrow : Base {
  Status check() const noexcept { return {}; }
  Status check(Index, Index, Index) const { return {}; }
};

// The wrong forms of a check without arguments.
template <template <class> class IsPolicy, class Base>
constexpr bool no_other_check =
    IsPolicy<Base>::value && !IsPolicy<CheckMayThrow<Base>>::value && !IsPolicy<CheckIsNotConst<Base>>::value &&
    !IsPolicy<CheckGivesAnotherType<Base>>::value && !IsPolicy<CheckTakesSomethingElse<Base>>::value;

template <class P>
struct IsMask : std::bool_constant<ls::Mask<P>> {};
template <class P>
struct IsTransform : std::bool_constant<ls::LogitTransform<P, float>> {};
template <class P>
struct IsBias : std::bool_constant<ls::LogitBias<P, float>> {};
template <class P>
struct IsSinks : std::bool_constant<ls::SinkLogits<P, float>> {};
template <class P>
struct IsNorm : std::bool_constant<ls::QueryKeyNorm<P, float>> {};
template <class P>
struct IsDropout : std::bool_constant<ls::DropoutPattern<P>> {};

TEST(Policies, HaveACheckAsAskedOrNone) {
  static_assert(no_other_check<IsMask, ls::Causal> && IsMask<Checks<ls::Causal>>::value);
  static_assert(no_other_check<IsTransform, ls::Scaled> && IsTransform<Checks<ls::Scaled>>::value);
  static_assert(no_other_check<IsBias, ls::NoBias> && IsBias<ChecksHeads<ls::NoBias>>::value);
  static_assert(no_other_check<IsSinks, ls::NoSinks> && IsSinks<ChecksHeads<ls::NoSinks>>::value);
  static_assert(no_other_check<IsNorm, ls::NoNorm> && IsNorm<ChecksThree<ls::NoNorm>>::value);
  static_assert(no_other_check<IsDropout, ls::NoDropout> && IsDropout<Checks<ls::NoDropout>>::value);
  static_assert(!IsBias<ChecksHeadsAndMayThrow<ls::NoBias>>::value);
  static_assert(!IsSinks<ChecksHeadsAndMayThrow<ls::NoSinks>>::value);
  static_assert(!IsNorm<ChecksThreeAndMayThrow<ls::NoNorm>>::value);
  // A check of another kind's form is never called.
  static_assert(!IsTransform<ChecksHeads<ls::Scaled>>::value && !IsBias<Checks<ls::NoBias>>::value);
}

TEST(Mask, HasChecksOfACallAsAskedOrNone) {
  static_assert(ls::Mask<ChecksThree<ls::Causal>>);
  static_assert(!ls::Mask<ChecksHeads<ls::Causal>>);
  static_assert(!ls::Mask<ChecksThreeAndMayThrow<ls::Causal>>);
  static_assert(!ls::Mask<ChecksFourAndMayThrow<ls::Causal>>);
  static_assert(!ls::Mask<OneOfTwoChecksMayThrow<ls::Causal>>);
}

struct Narrows : ls::Causal {
  KeyRange narrowed(QueryRow, KeyRange keys) const noexcept { return keys; }
};
struct NarrowsAndMayThrow : ls::Causal {
  KeyRange narrowed(QueryRow, KeyRange keys) const { return keys; }
};
struct NarrowsSomethingElse : ls::Causal {
  KeyRange narrowed(KeyRange keys) const noexcept { return keys; }
};

TEST(Mask, NarrowsAsAskedOrNotAtAll) {
  static_assert(ls::Mask<Narrows>);
  static_assert(!ls::Mask<NarrowsAndMayThrow> && !ls::Mask<NarrowsSomethingElse>);
}

template <bool scalar_noexcept, bool block_noexcept>
struct Adds : ls::Causal {
  float add(float s, QueryRow, Index) const noexcept(scalar_noexcept) { return s + 1; }
  void add(float* s, QueryRow, KeyRange keys) const noexcept(block_noexcept) {
    for (Index i = 0; i < keys.size(); ++i) s[i] += 1;
  }
};
struct AddsToOne : ls::Causal {
  float add(float s, QueryRow, Index) const noexcept { return s + 1; }
};
struct AddsToBlocks : ls::Causal {
  void add(float*, QueryRow, KeyRange) const noexcept {}
};
struct AddsWithoutConst : ls::Causal {
  float add(float s, QueryRow, Index) noexcept { return s; }
  void add(float*, QueryRow, KeyRange) noexcept {}
};
struct AddsInDoubleToo : Adds<true, true> {
  using Adds<true, true>::add;
  double add(double s, QueryRow, Index) const noexcept { return s + 1; }
  void add(double*, QueryRow, KeyRange) const {}
};
struct AddsSomethingElse : ls::Causal {
  float add(float s) const noexcept { return s; }
};

TEST(Mask, AddsAsAskedOrNotAtAll) {
  static_assert(ls::AddingMask<Adds<true, true>, float> && !ls::AddingMask<Adds<true, true>, double>);
  static_assert(!ls::Mask<Adds<false, true>> && !ls::Mask<Adds<true, false>> && !ls::Mask<Adds<false, false>>);
  static_assert(!ls::Mask<AddsToOne> && !ls::Mask<AddsToBlocks> && !ls::Mask<AddsWithoutConst>);
  static_assert(!ls::Mask<AddsInDoubleToo> && !ls::Mask<AddsSomethingElse>);
  static_assert(ls::AddingMask<ls::And<ls::Causal, Adds<true, true>>, float>);
}

struct ChecksPositions : ls::NoPosition {
  Status check_position(Index) const noexcept { return {}; }
};
struct ChecksPositionsAndMayThrow : ls::NoPosition {
  Status check_position(Index) const { return {}; }
};
struct ChecksPositionsOfRows : ls::NoPosition {
  Status check_position(Index, Index) const noexcept { return {}; }
};
struct IdentityMayThrow : ls::NoPosition {
  std::uint64_t identity() const { return 1; }
};
struct PreparesNothing : ls::NoPosition {
  void prepare() {}
};

TEST(Position, HasOptionalMembersAsAskedOrNotAtAll) {
  static_assert(ls::Position<ls::NoPosition, float> && ls::Position<ChecksPositions, float>);
  static_assert(!ls::Position<ChecksPositionsAndMayThrow, float> && !ls::Position<ChecksPositionsOfRows, float>);
  static_assert(!ls::Position<IdentityMayThrow, float> && !ls::Position<PreparesNothing, float>);
}

struct AcceptsByAValue : ls::Grouped {
  bool accepts(Index, Index) const noexcept { return true; }
};
struct AcceptsAndMayThrow : ls::Grouped {
  static bool accepts(Index, Index) { return true; }
};
struct WhatPaysMayThrow : ls::Serial {
  Index parallel_from() const { return 0; }
};

TEST(HeadSharing, AcceptsAsAskedOrNotAtAll) {
  static_assert(ls::HeadSharing<ls::Grouped>);
  static_assert(!ls::HeadSharing<AcceptsByAValue> && !ls::HeadSharing<AcceptsAndMayThrow>);
}

TEST(Executor, SaysWhatPaysAsAskedOrNotAtAll) {
  static_assert(ls::Executor<ls::Serial> && !ls::Executor<WhatPaysMayThrow>);
}

using Ring = ls::RingCache<float>;
struct LimitMayThrow : Ring {
  Index append_limit() const { return 1; }
};
struct MissesAndMayThrow : Ring {
  KeyRange missing_after(Index) const { return {}; }
};
struct TruncatesAndMayThrow : Ring {
  Status check_truncate(Index) const { return {}; }
};
struct TakesBackAndMayThrow : Ring {
  bool takes_back(Index) const { return true; }
};
struct ReservesNothing : Ring {
  void reserve() {}
};

TEST(KeyValueCache, HasOptionalMembersAsAskedOrNotAtAll) {
  static_assert(ls::KeyValueCache<Ring>);
  static_assert(!ls::KeyValueCache<LimitMayThrow> && !ls::KeyValueCache<MissesAndMayThrow>);
  static_assert(!ls::KeyValueCache<TruncatesAndMayThrow> && !ls::KeyValueCache<TakesBackAndMayThrow>);
  static_assert(!ls::KeyValueCache<ReservesNothing>);
}

}  // namespace
