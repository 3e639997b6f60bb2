// What is true of the library's types at compile time, and of one layer in many threads.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using ls::Index;
using ls::View;

namespace {

template <class T>
constexpr bool is_value =
    std::is_copy_constructible_v<T> && std::is_copy_assignable_v<T> && std::is_nothrow_move_constructible_v<T>;

TEST(Policies, WithoutNumbersTakeNoSpace) {
  static_assert(std::is_empty_v<ls::Causal> && std::is_empty_v<ls::NoMask> &&
                std::is_empty_v<ls::And<ls::Causal, ls::NoMask>>);
  static_assert(std::is_empty_v<ls::NoPosition> && std::is_empty_v<ls::Grouped> && std::is_empty_v<ls::RepeatedHeads>);
  static_assert(std::is_empty_v<ls::NoDropout> && std::is_empty_v<ls::Serial> && std::is_empty_v<ls::Specification> &&
                std::is_empty_v<ls::Materialized>);
}

// A mask of a user's that is empty too, but may not share Causal's address.
struct UserMask : ls::NoMask {};

TEST(Layer, IsNoLargerForEmptyPolicies) {
  using Plain = ls::Attention<float, 4, 2>;
  static_assert(sizeof(Plain) == sizeof(ls::Attention<float, 4, 2, ls::NoMask, ls::RepeatedHeads, ls::Materialized>));
  static_assert(sizeof(Plain) == sizeof(ls::Attention<float, 4, 2, UserMask>));
  static_assert(sizeof(Plain) < sizeof(ls::Attention<float, 4, 2, ls::KeyPadding>));
  static_assert(sizeof(Plain) == sizeof(ls::Attention<float, ls::Dynamic, ls::Dynamic>));
}

TEST(Layer, TakesPoliciesInAnyOrder) {
  using One = ls::Attention<float, 4, 2, ls::Rope<ls::Interleaved>, ls::OffsetCausal, ls::Materialized>;
  using Other = ls::Attention<float, 4, 2, ls::Materialized, ls::Rope<ls::Interleaved>, ls::OffsetCausal>;
  static_assert(std::is_same_v<One::Position, Other::Position> && std::is_same_v<One::Mask, Other::Mask> &&
                std::is_same_v<One::Kernel, Other::Kernel>);
  static_assert(std::is_same_v<One::Position, ls::Rope<ls::Interleaved, float>>);
}

TEST(Layer, TakesTheUsualPolicyWhereNoneIsGiven) {
  using Half = ls::Attention<Eigen::half, 4, 2, ls::Rope<>>;
  static_assert(std::is_same_v<Half::Compute, float> && std::is_same_v<Half::Position, ls::Rope<ls::HalfSplit, float>>);
  static_assert(std::is_same_v<Half::Cache, ls::ContiguousCache<Eigen::half>> &&
                std::is_same_v<Half::Mask, ls::Causal>);
  static_assert(std::is_same_v<Half::Sharing, ls::Grouped> && std::is_same_v<Half::Logits, ls::Scaled> &&
                std::is_same_v<Half::Executor, ls::Serial> && std::is_same_v<Half::Dropout, ls::NoDropout>);
  static_assert(std::is_same_v<ls::Attention<float, 4, 2, ls::ContiguousCache<Eigen::bfloat16>>::Cache::Storage,
                               Eigen::bfloat16>);
}

TEST(Values, AreCopiedAndMoved) {
  static_assert(std::is_trivially_copyable_v<ls::Status> && std::is_trivially_copyable_v<View<float, 3>> &&
                std::is_trivially_copyable_v<ls::QueryRow>);
  static_assert(is_value<ls::ContiguousCache<float>> && std::is_nothrow_move_assignable_v<ls::ContiguousCache<float>>);
  static_assert(is_value<ls::RopeTable<float>> && is_value<ls::Rope<ls::HalfSplit, double>>);
  static_assert(std::is_move_constructible_v<ls::ModelCache<ls::ContiguousCache<float>>> &&
                std::is_copy_constructible_v<ls::ModelCache<ls::ContiguousCache<float>>>);
  static_assert(std::is_move_constructible_v<ls::Attention<float, 4, 2>> &&
                std::is_copy_constructible_v<ls::Attention<float, 4, 2>>);
}

template <class L>
concept ConstUsable = requires(const L& layer, const Eigen::MatrixXf& x, Eigen::MatrixXf& y, typename L::Cache& cache) {
  layer.forward(x, cache, y);
  layer.forward(x, y);
  { layer.check(x, cache, y) } noexcept;
  { layer.check(x, y) } noexcept;
  layer.make_cache(1);
};

TEST(Layer, IsUsedThroughAConstReference) { static_assert(ConstUsable<ls::Attention<float, 4, 2>>); }

using Layer = ls::Attention<float, 6, 2, ls::Rope<ls::HalfSplit>>;
constexpr Index hidden = 24, tokens = 40;

const Layer& shared_layer() {
  static const Layer layer = [] {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.2F);
    std::vector<float> numbers(static_cast<std::size_t>(48 * hidden));
    for (float& x : numbers) x = normal(random);
    const auto matrix = [&](Index out, Index in) {
      return View<const float, 2>::contiguous(numbers.data(), {out, in});
    };
    return Layer({.hidden = hidden, .head_dim = 8}, {.query = matrix(48, hidden),
                                                     .key = matrix(16, hidden),
                                                     .value = matrix(16, hidden),
                                                     .output = matrix(hidden, 48)});
  }();
  return layer;
}

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Prefill of all tokens but four, then one at a time; then all of them again without a cache, which has the same bits.
std::vector<float> run(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Rows x(tokens, hidden), y(tokens, hidden), full(tokens, hidden);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = normal(random);
  auto cache = shared_layer().make_cache(tokens);
  shared_layer().forward(x.topRows(tokens - 4), cache, y.topRows(tokens - 4));
  for (Index i = tokens - 4; i < tokens; ++i) shared_layer().forward(x.row(i), cache, y.row(i));
  shared_layer().forward(x, full);
  EXPECT_EQ(std::memcmp(y.data(), full.data(), static_cast<std::size_t>(y.size()) * sizeof(float)), 0);
  return {y.data(), y.data() + y.size()};
}

TEST(Layer, GivesTheSameBitsInFourThreadsAtOnce) {
  std::array<std::vector<float>, 4> alone, together;
  for (unsigned i = 0; i < 4; ++i) alone[i] = run(i);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back([&together, i] { together[i] = run(i); });
    for (std::thread& t : threads) t.join();
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_EQ(std::memcmp(together[i].data(), alone[i].data(), alone[i].size() * sizeof(float)), 0) << i;
  }
}

}  // namespace
