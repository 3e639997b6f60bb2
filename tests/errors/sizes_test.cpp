// Sizes whose products leave 32 or 64 bits, over memory that is never touched: counted rightly or refused.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <new>
#include <utility>

#include "errors/refusal.hpp"
#include "lockstep/attend/partial.hpp"
#include "lockstep/bias/distance.hpp"
#include "lockstep/cache/contiguous.hpp"
#include "lockstep/executor/hook.hpp"
#include "lockstep/heads/repeated.hpp"
#include "lockstep/kernel/materialized.hpp"
#include "lockstep/kernel/specification.hpp"
#include "lockstep/kernel/tiled.hpp"
#include "lockstep/mask/causal.hpp"
#include "lockstep/norm/qk_norm.hpp"
#include "lockstep/plain.hpp"
#include "lockstep/position/rope.hpp"
#include "lockstep/projection/packed.hpp"
#include "lockstep/sinks/learned.hpp"

namespace ls = lockstep;
using errors::invalid;
using errors::too_long;
using ls::Index;
using ls::View;

namespace {

constexpr Index most = std::numeric_limits<Index>::max(), least = std::numeric_limits<Index>::min();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const float one = 1;
/// All elements are one number in memory: extents may be of any size.
template <std::size_t Rank>
View<const float, static_cast<int>(Rank)> everywhere(const std::array<Index, Rank>& extent) {
  return {&one, extent, {}};
}

struct Row {
  const char* name;
  errors::Refusal refusal;
  std::function<void()> call;
};

// clang-format off
const Row rows[] = {
    {"RopeTableOfPositionsBeyond32Bits", {invalid, "cos", "[2147483649, 1]", "2^31 positions"}, [] { const ls::RopeTable<float> made(everywhere<2>({(Index{1} << 31) + 1, 1}), everywhere<2>({(Index{1} << 31) + 1, 1})); }},
    {"RopeTableOfPairsBeyond31Bits", {invalid, "cos", "[1, 4611686018427387904]", "2^30 pairs"}, [] { const ls::RopeTable<float> made(everywhere<2>({1, Index{1} << 62}), everywhere<2>({1, Index{1} << 62})); }},
    {"BorrowedTableBeyond32Bits", {invalid, "cos", "[9223372036854775807, 1]", "2^31 positions"}, [] { (void)ls::RopeTable<float>::borrowed(everywhere<2>({most, 1}), everywhere<2>({most, 1})); }},
    {"BorrowedSinesBeyond32Bits", {invalid, "sin", "[9223372036854775807, 1]", "2^31 positions"}, [] { (void)ls::RopeTable<float>::borrowed(everywhere<2>({1, 1}), everywhere<2>({most, 1})); }},
    {"SlopesOfNoHeads", {invalid, "heads", "0", "1 to"}, [] { const ls::Alibi<float> made(Index{0}); }},
    {"SlopesOfNegativeHeads", {invalid, "heads", "-4", "1 to"}, [] { const ls::Alibi<float> made(Index{-4}); }},
    {"SlopesBeyond32Bits", {invalid, "heads", "4611686018427387904", "2^31"}, [] { const ls::Alibi<float> made(Index{1} << 62); }},
    {"SlopesNull", {invalid, "slopes", "null", "[3]"}, [] { const ls::Alibi<float> made(View<const float, 1>(nullptr, {3}, {1})); }},
    {"SlopesNegativeNumber", {invalid, "slopes", "[-3]", "from 0"}, [] { const ls::Alibi<float> made(View<const float, 1>(&one, {-3}, {1})); }},
    {"SlopesOfTooManyNumbers", {invalid, "slopes", "2147483649 numbers", "2^31"}, [] { const ls::Alibi<float> made(everywhere<1>({(Index{1} << 31) + 1})); }},
    {"SlopesThatNobodyCounts", {invalid, "slopes", "9223372036854775807 numbers", "2^31"}, [] { const ls::Alibi<float> made(everywhere<1>({most})); }},
    {"SinksOfTooManyNumbers", {invalid, "sinks", "4611686018427387904 numbers", "2^31"}, [] { const ls::LearnedSinks<float> made(everywhere<1>({Index{1} << 62})); }},
    {"QueryNormOfTooManyNumbers", {invalid, "query_norm", "4611686018427387904 numbers", "2^31"}, [] { const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> made(everywhere<1>({Index{1} << 62}), everywhere<1>({3})); }},
    {"KeyNormOfTooManyNumbers", {invalid, "key_norm", "1099511627776 numbers", "2^31"}, [] { const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> made(everywhere<1>({3}), everywhere<1>({Index{1} << 40})); }},
    {"RelativeTableOfTooManyNumbers", {invalid, "table", "1048576 heads of 4096 distances", "2^31 numbers"}, [] { const ls::RelativeBias<float> made(everywhere<2>({Index{1} << 20, 4096}), 0); }},
    {"BucketsOfTooManyNumbers", {invalid, "table", "16777216 heads of 257 distances", "2^31 numbers"}, [] { const ls::RelativeBias<float> made(ls::RelativeBuckets{}, everywhere<2>({32, Index{1} << 24})); }},
    {"RelativeTableOfNoDistances", {invalid, "table", "0 distances", "at least 1"}, [] { const ls::RelativeBias<float> made(everywhere<2>({2, 0}), 0); }},
    {"RelativeTableFarAway", {invalid, "table", "from 9223372036854775807", "2^31"}, [] { const ls::RelativeBias<float> made(everywhere<2>({2, 3}), most); }},
    {"RelativeTableOfHeadsBeyond32Bits", {invalid, "table", "1152921504606846976 heads", "2^31"}, [] { const ls::RelativeBias<float> made(everywhere<2>({Index{1} << 60, 3}), 0); }},
    {"BucketsOfHeadsBeyond32Bits", {invalid, "table", "72057594037927936 heads", "2^31"}, [] { const ls::RelativeBias<float> made(ls::RelativeBuckets{}, everywhere<2>({32, Index{1} << 56})); }},
    {"BucketsOfAnotherHeight", {invalid, "table", "[31, 4]", "[32, 4]"}, [] { const ls::RelativeBias<float> made(ls::RelativeBuckets{}, everywhere<2>({31, 4})); }},
    {"BucketsTooFew", {invalid, "num_buckets", "1", "2 to 2^20"}, [] { const ls::RelativeBias<float> made(ls::RelativeBuckets{.num_buckets = 1}, everywhere<2>({1, 4})); }},
    {"BucketsBeyondAllReason", {invalid, "max_distance", "9223372036854775807", "2^20"}, [] { const ls::RelativeBias<float> made(ls::RelativeBuckets{.max_distance = most}, everywhere<2>({32, 4})); }},
    {"SinksNull", {invalid, "sinks", "null", "[3]"}, [] { const ls::LearnedSinks<float> made(View<const float, 1>(nullptr, {3}, {1})); }},
    {"NormNull", {invalid, "key_norm", "null", "[3]"}, [] { const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> made(everywhere<1>({3}), View<const float, 1>(nullptr, {3}, {1})); }},
    {"NormOfNegativeNumber", {invalid, "query_norm", "[-1]", "from 0"}, [] { const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> made(everywhere<1>({-1}), everywhere<1>({3})); }},
    {"NormEpsilonNegative", {invalid, "epsilon", "-1e-06", "from 0"}, [] { const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> made(everywhere<1>({3}), everywhere<1>({3}), -1e-6); }},
    {"NormEpsilonNan", {invalid, "epsilon", "nan", "finite"}, [] { const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> made(everywhere<1>({3}), everywhere<1>({3}), nan); }},
    {"NormEpsilonBeyondFloat", {invalid, "epsilon", "1e+39", "finite"}, [] { const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> made(everywhere<1>({3}), everywhere<1>({3}), 1e39); }},
    {"WeightsOfNegativeRows", {too_long, "weights", "-1 rows of 4", "0 to"}, [] { const ls::PackedWeights<float> made(-1, 4); }},
    {"WeightsOfNegativeColumns", {too_long, "weights", "4 rows of -9223372036854775808", "0 to"}, [] { const ls::PackedWeights<float> made(4, least); }},
    {"WeightsBeyond63Bits", {too_long, "weights", "4294967296 rows of 4294967296", "62 bits"}, [] { const ls::PackedWeights<float> made(Index{1} << 32, Index{1} << 32); }},
    {"WeightsNearlyBeyond63Bits", {too_long, "weights", "9223372036854775807 rows of 1", "62 bits"}, [] { const ls::PackedWeights<float> made(most, 1); }},
    {"PlacedBeforeTheStart", {too_long, "first", "-1 and 1 rows", "0 to 3"}, [] { ls::PackedWeights<float>(3, 2).place(-1, everywhere<2>({1, 2}), {}); }},
    {"PlacedBeyondTheEnd", {too_long, "first", "2 and 2 rows", "0 to 3"}, [] { ls::PackedWeights<float>(3, 2).place(2, everywhere<2>({2, 2}), {}); }},
    {"PlacedManyRows", {too_long, "first", "1 and 9223372036854775807 rows", "0 to 3"}, [] { ls::PackedWeights<float>(3, 2).place(1, everywhere<2>({most, 2}), {}); }},
    {"PlacedOtherColumns", {invalid, "weight", "[1, 3]", "[1, 2]"}, [] { ls::PackedWeights<float>(3, 2).place(0, everywhere<2>({1, 3}), {}); }},
    {"PlacedNull", {invalid, "weight", "null", "[1, 2]"}, [] { ls::PackedWeights<float>(3, 2).place(0, View<const float, 2>(nullptr, {1, 2}, {2, 1}), {}); }},
    {"PlacedBiasTooShort", {invalid, "bias", "[1]", "[2]"}, [] { ls::PackedWeights<float>(3, 2).place(0, everywhere<2>({2, 2}), everywhere<1>({1})); }},
    {"PlacedInMovedFrom", {too_long, "first", "0 and 1 rows", "0 to 0"}, [] { ls::PackedWeights<float> from(3, 2); const auto to = std::move(from); from.place(0, everywhere<2>({1, 2}), {}); }},
    {"RepeatAtTheEndOf63Bits", {invalid, "source", "strides", "2^63"}, [] { (void)ls::repeat_kv_heads(View<const float, 3>(&one, {1, 2, 8}, {1, most / 4 - 7, 1}), 2); }},
    {"CausalMatrixFarAway", {invalid, "offset", "9223372036854775807", "2^62"}, [] { (void)ls::causal_mask(1, 1, most); }},
    {"CausalMatrixFarBehind", {invalid, "offset", "-9223372036854775808", "2^62"}, [] { (void)ls::causal_mask(1, 1, least); }},
    {"RepeatNothingTooOften", {invalid, "group_size", "4611686018427387904", "63 bits"}, [] { (void)ls::repeat_kv_heads(everywhere<3>({0, 2, 3}), Index{1} << 62); }},
    {"RepeatOfBytesBeyond63Bits", {invalid, "group_size", "2097152 over [1048576, 1048576, 1]", "63 bits"}, [] { (void)ls::repeat_kv_heads(everywhere<3>({Index{1} << 20, Index{1} << 20, 1}), Index{1} << 21); }},
    {"RepeatOfHeadsBeyond32Bits", {invalid, "group_size", "2 over [1, 4611686018427387904, 1]", "63 bits"}, [] { (void)ls::repeat_kv_heads(everywhere<3>({1, Index{1} << 62, 1}), 2); }},
};
// clang-format on

class SizeRefused : public testing::TestWithParam<Row> {};

TEST_P(SizeRefused, ByName) {
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of(GetParam().call), GetParam().refusal));
}

INSTANTIATE_TEST_SUITE_P(Errors, SizeRefused, testing::ValuesIn(rows), errors::RowName());

TEST(View, OfExtentsBeyond64BitsIsNoTrap) {
  const auto view = View<const float, 3>::contiguous(&one, {3, Index{1} << 40, Index{1} << 40});
  EXPECT_FALSE(view.empty());
  EXPECT_EQ(view.size(), 0);  // 3 2^80 in 64 bits
  const ls::Status status = ls::detail::check_shape("x", view, view.extent);
  EXPECT_TRUE(errors::is_refusal({status.code(), status.message()}, {invalid, "x", "strides", "2^63"}));
  EXPECT_TRUE((View<const float, 2>::contiguous(&one, {0, most})).empty());
}

TEST(View, IsAbsentOnlyWithoutMemoryAndElements) {
  using V = View<float, 2>;
  EXPECT_TRUE(ls::detail::check_optional("x", V{}, {2, 3}).ok());
  EXPECT_FALSE(ls::detail::check_optional("x", V(nullptr, {Index{1} << 32, Index{1} << 32}, {1, 1}), {2, 3}).ok());
  EXPECT_FALSE(ls::detail::check_optional("x", V(nullptr, {2, 3}, {3, 1}), {2, 3}).ok());
}

TEST(View, ThatIsWrittenHasAPlaceForEachNumber) {
  using Extents = std::array<Index, 3>;
  float memory[64] = {};
  const auto lies_apart = [&](Extents extent, Extents stride) {
    const View<float, 3> writable(memory + 32, extent, stride);
    const View<const float, 3> readable(writable);
    EXPECT_TRUE(ls::detail::check_shape("x", readable, extent).ok());
    return ls::detail::check_shape("x", writable, extent).ok();
  };
  EXPECT_TRUE(lies_apart({2, 3, 4}, {12, 4, 1}));
  EXPECT_TRUE(lies_apart({2, 3, 4}, {1, 2, 6}));
  EXPECT_TRUE(lies_apart({2, 3, 4}, {-12, 4, -1}));
  EXPECT_TRUE(lies_apart({2, 3, 4}, {15, 5, 1}));
  EXPECT_TRUE(lies_apart({1, 3, 4}, {0, 4, 1}));
  EXPECT_TRUE(lies_apart({1, 1, 1}, {0, 0, 0}));
  EXPECT_TRUE(lies_apart({0, 3, 4}, {0, 0, 0}));
  EXPECT_FALSE(lies_apart({2, 3, 4}, {11, 4, 1}));
  EXPECT_FALSE(lies_apart({2, 3, 4}, {12, 3, 1}));
  EXPECT_FALSE(lies_apart({2, 3, 4}, {12, -3, 1}));
  EXPECT_FALSE(lies_apart({2, 3, 4}, {12, 4, 0}));
  EXPECT_FALSE(lies_apart({2, 3, 4}, {0, 4, 1}));
  EXPECT_FALSE(lies_apart({2, 1, 4}, {1, 4, 1}));
}

TEST(Memory, IsNamedWhereItOverlaps) {
  const ls::detail::NamedBytes a{"a", {0, 10}}, b{"b", {10, 20}}, c{"c", {19, 21}}, none{"none", {}};
  EXPECT_TRUE((ls::detail::check_apart({a, none}, {b, none})).ok());
  EXPECT_STREQ((ls::detail::check_apart({a, b}, {c})).message(),
               "lockstep: c: given memory that overlaps b, allowed memory of its own");
  EXPECT_STREQ((ls::detail::check_apart({}, {c, a, b})).message(),
               "lockstep: b: given memory that overlaps c, allowed memory of its own");
}

TEST(AlignedAllocator, HasNoMemoryForBytesBeyond63Bits) {
  for (const std::size_t n : {std::size_t{1} << 62, std::size_t{1} << 61, static_cast<std::size_t>(-1)})
    EXPECT_THROW(static_cast<void>(ls::AlignedAllocator<float>{}.allocate(n)), std::bad_alloc) << n;
}

TEST(Partial, AddsNoSplitsWithoutMemoryForTheirStates) {
  ls::Partial<float> partial;
  partial.reset(Index{1} << 40, Index{1} << 40, 1);
  EXPECT_ANY_THROW(partial.append({0, 1024}));
  EXPECT_TRUE(partial.splits().empty());
  partial.reset(1, 1, 1);
  partial.append({0, 1025});
  partial.append({5, 2});
  EXPECT_EQ(partial.splits().size(), 2);
}

TEST(Alibi, HasSlopesForAnyNumberOfHeads) {
  EXPECT_EQ(ls::alibi_slope(0, most), 1);  // 2^(-8/2^62)
  EXPECT_EQ(ls::alibi_slope((Index{1} << 60) - 1, Index{1} << 60), 0x1p-8);
}

TEST(RelativeBuckets, TakeAnyDistance) {
  const ls::RelativeBuckets past{}, both{.bidirectional = true};
  EXPECT_EQ(past.bucket(least), 31);
  EXPECT_EQ(past.bucket(most), 0);
  EXPECT_EQ(both.bucket(least), 15);
  EXPECT_EQ(both.bucket(most), 31);
  EXPECT_EQ(past.bucket(-127), past.bucket(-128));
  EXPECT_EQ(past.bucket(-15), 15);
}

TEST(Handles, KeepWhatTheyNameWhenTheyAreMovedFrom) {
  ls::RopeTable<float> table({.rotary_dim = 4, .positions = 3});
  const std::uint64_t identity = table.identity();
  const ls::RopeTable<float> other = std::move(table);
  EXPECT_EQ(table.identity(), identity);
  ls::Rope<ls::HalfSplit, float> rope(std::move(table));
  const auto taken = std::move(rope);
  EXPECT_EQ(rope.identity(), taken.identity());
  EXPECT_NE(rope.identity(), 0U);
  ls::Alibi<float> slopes(everywhere<1>({3}));
  const ls::Alibi<float> moved = std::move(slopes);
  EXPECT_EQ(slopes.slope(2), 1);
}

TEST(Concurrency, IsKeptWithinBounds) {
  const auto run = [](void*, Index, ls::Hook::Task, void*) {};
  EXPECT_EQ(ls::detail::concurrency_of(ls::Hook(run, nullptr, most)), 4096);
  EXPECT_EQ(ls::detail::concurrency_of(ls::Hook(run, nullptr, 7)), 7);
  struct Says {
    Index number;
    Index concurrency() const noexcept { return number; }
  };
  EXPECT_EQ(ls::detail::concurrency_of(Says{0}), 1);
  EXPECT_EQ(ls::detail::concurrency_of(Says{least}), 1);
}

TEST(WorkspaceBytes, OfKernelsStayWithin63Bits) {
  constexpr Index huge = ls::Workspace::most;
  const ls::KernelShape whole{huge, huge, huge, Index{1} << 20, Index{1} << 20, Index{1} << 20, Index{1} << 20, 4096};
  EXPECT_GE(ls::Materialized::bytes<double>(whole), huge);
  EXPECT_GE(ls::Tiled::bytes<double>(whole), huge);
  EXPECT_GE(ls::Tiled::split_bytes<double>(whole), huge);
  EXPECT_GT(ls::Specification::bytes<double>(whole), 0);
  const ls::KernelShape scores{1, Index{1} << 31, Index{1} << 33, 2, 1, 64, 64, 1};
  EXPECT_GE(ls::Materialized::bytes<float>(scores), huge);  // 2^31 2^33 scores of 4 bytes
  EXPECT_EQ(ls::Workspace::product(Index{1} << 40, Index{1} << 40, Index{0}), 0);
  EXPECT_EQ(ls::Workspace::product(Index{3}, Index{-1}), 0);
  EXPECT_EQ(ls::Workspace::product(Index{3}, Index{5}, Index{7}), 105);
}

TEST(Project, LooksAtNoStrideThatItDoesNotNeed) {
  ls::PackedWeights<float> packed(1, 1);
  packed.place(0, everywhere<2>({1, 1}), {});
  const float x[2] = {3, 5};
  float y[2] = {};
  ls::project(View<const float, 2>(x, {1, 1}, {Index{1} << 60, 1}), packed,
              View<float, 2>(y, {1, 1}, {-(Index{1} << 60), 1}), ls::Serial{});
  EXPECT_EQ(y[0], 3);
  EXPECT_EQ(y[1], 0);
  EXPECT_TRUE(errors::is_refusal(errors::outcome_of([&] {
                                   ls::project(View<const float, 2>(x, {2, 1}, {1, 1}), packed,
                                               View<float, 2>(y, {2, 1}, {0, 1}), ls::Serial{});
                                 }),
                                 {invalid, "y", "strides", "part all numbers"}));
}

}  // namespace
