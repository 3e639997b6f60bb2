#include "lockstep/workspace.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>

namespace ls = lockstep;
using ls::Index;
using ls::Workspace;

namespace {

template <class T>
bool on_a_line(T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 64 == 0;
}

TEST(Workspace, GivesPiecesOnCacheLinesThatDoNotOverlap) {
  Workspace workspace;
  workspace.reserve(Workspace::bytes_for<float>(3) + Workspace::bytes_for<double>(9) + Workspace::bytes_for<char>(1));
  float* a = workspace.take<float>(3);
  double* b = workspace.take<double>(9);
  char* c = workspace.take<char>(1);
  EXPECT_TRUE(on_a_line(a) && on_a_line(b) && on_a_line(c));
  EXPECT_GE(reinterpret_cast<char*>(b), reinterpret_cast<char*>(a + 3));
  EXPECT_GE(c, reinterpret_cast<char*>(b + 9));
}

TEST(Workspace, GrowsToTheMostAndKeepsIt) {
  Workspace workspace;
  EXPECT_EQ(workspace.size(), 0);
  workspace.reserve(1000);
  const Index size = workspace.size();
  EXPECT_GE(size, 1000);
  float* first = workspace.take<float>(10);
  workspace.reserve(10);
  EXPECT_EQ(workspace.size(), size);
  EXPECT_EQ(workspace.take<float>(10), first);
  workspace.reserve(5000);
  EXPECT_GE(workspace.size(), 5000);
}

TEST(Workspace, InTheCallersMemoryNeverGrows) {
  alignas(64) std::array<std::byte, 1024> memory;
  Workspace workspace(memory.data(), 1024);
  EXPECT_TRUE(workspace.check(1024 - Workspace::alignment).ok());
  EXPECT_EQ(workspace.check(1024 - Workspace::alignment + 1).code(), ls::StatusCode::length_error);
  EXPECT_STREQ(workspace.check(1024).message(), "lockstep: workspace: given 1024 bytes, allowed from 1088");
  EXPECT_EQ(workspace.check(std::numeric_limits<Index>::max()).code(), ls::StatusCode::length_error);
  EXPECT_THROW(workspace.reserve(1024), std::length_error);
  EXPECT_EQ(workspace.size(), 1024);
}

TEST(Workspace, HoldsWhatWasAskedForAtAnyAlignment) {
  alignas(64) std::array<std::byte, 2048> memory;
  for (std::size_t shift = 0; shift < 64; ++shift) {
    const Index bytes = Workspace::bytes_for<float>(7) + Workspace::bytes_for<double>(33);
    Workspace workspace(memory.data() + shift, bytes + Workspace::alignment);
    workspace.reserve(bytes);
    float* a = workspace.take<float>(7);
    double* b = workspace.take<double>(33);
    EXPECT_TRUE(on_a_line(a) && on_a_line(b));
    EXPECT_GE(reinterpret_cast<std::byte*>(a), memory.data() + shift);
    EXPECT_LE(reinterpret_cast<std::byte*>(b + 33), memory.data() + shift + bytes + Workspace::alignment);
  }
}

TEST(Workspace, OfNoMemoryIsTooSmall) {
  EXPECT_FALSE(Workspace(nullptr, 1 << 20).check(0).ok());
  EXPECT_EQ(Workspace(nullptr, 1 << 20).size(), 0);
  EXPECT_TRUE(Workspace().check(Index{1} << 40).ok());
}

TEST(Workspace, RewindsToAMark) {
  Workspace workspace;
  workspace.reserve(4096);
  workspace.take<char>(1);
  const Index mark = workspace.mark();
  float* first = workspace.take<float>(100);
  workspace.take<float>(100);
  workspace.rewind(mark);
  EXPECT_EQ(workspace.take<float>(5), first);
}

TEST(Workspace, CountsWholeLines) {
  static_assert(Workspace::bytes_for<float>(0) == 0 && Workspace::bytes_for<float>(1) == 64 &&
                Workspace::bytes_for<float>(16) == 64 && Workspace::bytes_for<float>(17) == 128);
  static_assert(Workspace::bytes_for<double>(Index{1} << 32) == Index{1} << 35);
  static_assert(!std::is_copy_constructible_v<Workspace> && !std::is_copy_assignable_v<Workspace>);
}

}  // namespace
