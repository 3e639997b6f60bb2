// What is true of the library's types at compile time.
#include <gtest/gtest.h>

#include <type_traits>

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

}  // namespace
