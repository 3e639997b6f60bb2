#include "lockstep/heads/repeated.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <type_traits>
#include <vector>

namespace ls = lockstep;
using ls::Index;

namespace {

template <class T>
std::vector<T> counted(Index n) {
  std::vector<T> numbers(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<T>(static_cast<float>(i + 1));
  return numbers;
}

TEST(RepeatKvHeads, GivesEachQueryHeadItsKvHead) {
  for (const Index group : {2, 3, 7}) {
    const auto memory = counted<float>(5 * 2 * 3);
    const auto source = ls::View<const float, 3>::contiguous(memory.data(), {5, 2, 3});
    const auto repeated = ls::repeat_kv_heads(source, group);
    ASSERT_EQ(repeated.rows.extent, (std::array<Index, 3>{5, 2 * group, 3}));
    for (Index t = 0; t < 5; ++t)
      for (Index h = 0; h < 2 * group; ++h)
        for (Index d = 0; d < 3; ++d) EXPECT_EQ(repeated.rows(t, h, d), source(t, h / group, d));
  }
}

TEST(RepeatKvHeads, OfGroupOneCopiesNothing) {
  const auto memory = counted<double>(24);
  const ls::View<const double, 3> source(memory.data(), {2, 3, 2}, {12, 4, 2});
  const auto repeated = ls::repeat_kv_heads(source, 1);
  EXPECT_EQ(repeated.rows.data, memory.data());
  EXPECT_EQ(repeated.rows.stride, source.stride);
  EXPECT_EQ(repeated.rows.extent, source.extent);
  EXPECT_EQ(repeated.copy.capacity(), 0U);
}

TEST(RepeatKvHeads, OwnsItsCopyOnceItIsMoved) {
  const auto memory = counted<Eigen::half>(12);
  auto repeated = ls::repeat_kv_heads(ls::View<const Eigen::half, 3>::contiguous(memory.data(), {3, 2, 2}), 4);
  const auto moved = std::move(repeated);
  EXPECT_EQ(moved.rows.data, moved.copy.data());
  EXPECT_EQ(static_cast<float>(moved.rows(2, 7, 1)), 12);
}

TEST(RepeatKvHeads, IsNotCopiedByAccident) {
  // A copy's rows would go on viewing the memory of the original.
  using Rows = decltype(ls::repeat_kv_heads(ls::View<const float, 3>{}, 2));
  static_assert(std::is_move_constructible_v<Rows>);
  EXPECT_FALSE(std::is_copy_constructible_v<Rows>);
}

TEST(RepeatKvHeads, ReadsThroughStrides) {
  const auto memory = counted<float>(2 * 3 * 4);  // [kv_heads 2][tokens 3][dim 4]
  const ls::View<const float, 3> source(memory.data(), {3, 2, 4}, {4, 12, 1});
  const auto repeated = ls::repeat_kv_heads(source, 2);
  EXPECT_EQ(repeated.rows(1, 3, 2), memory[12 + 4 + 2]);
  EXPECT_EQ(repeated.rows.stride, (std::array<Index, 3>{16, 4, 1}));
}

TEST(RepeatKvHeads, TakesNoTokens) {
  EXPECT_EQ(ls::repeat_kv_heads(ls::View<const float, 3>(nullptr, {0, 2, 4}, {8, 4, 1}), 3).rows.extent,
            (std::array<Index, 3>{0, 6, 4}));
}

}  // namespace
