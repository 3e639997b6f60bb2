// What is entered through a choice of instruction set leaves the vector registers clean. Built at -O1, at which g++
// clears nothing by itself; see tests/CMakeLists.txt.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernel_instances.hpp"
#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using ls::Index;
using ls::View;

namespace {

#if defined(__x86_64__)

/// Whether the CPU says which parts of its state are in use: CPUID leaf 13, sub-leaf 1, EAX bit 2, where the operating
/// system has enabled XGETBV.
bool tells_state_in_use() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0) return false;
  return __get_cpuid_count(13, 1, &a, &b, &c, &d) && (a & 4) != 0;
}

/// The parts in use (Intel SDM, XGETBV with ECX = 1): bit 2, the upper halves of the 16 ymm registers; bit 6, those of
/// zmm0 to zmm15. Mask registers and zmm16 to zmm31, bits 5 and 7, are out of reach of SSE code and may stay.
constexpr std::uint32_t parts = (1U << 2) | (1U << 6);
[[gnu::always_inline]] inline std::uint32_t upper_halves_in_use() {
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1) : "memory");
  return low & parts;
}

/// The same with something put there, in one piece: a compiler may clear them where the function ends.
[[gnu::target("avx"), gnu::noinline]] std::uint32_t upper_halves_in_use_when_filled() {
  std::uint32_t low = 0, high = 0;
  asm volatile("vpcmpeqd %%xmm15, %%xmm15, %%xmm15\n\tvinsertf128 $1, %%xmm15, %%ymm15, %%ymm15\n\txgetbv"
               : "=a"(low), "=d"(high)
               : "c"(1)
               : "xmm15", "memory");
  return low & parts;
}
[[gnu::target("avx"), gnu::noinline]] void clear_upper_halves() { asm volatile("vzeroupper" ::: "memory"); }

// Types of this file alone, so that no function compiled at another level takes the place of one of this file.
struct OwnCausal : ls::Causal {};
struct OwnSerial : ls::Serial {};
struct OwnHalfSplit : ls::HalfSplit {};
struct TwoSlots {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::executor;
  Index concurrency() const noexcept { return 2; }
  Index parallel_from() const noexcept { return 0; }
  template <class F>
  void run(Index n, F&& f) const {
    for (Index i = 0; i < n; ++i) f(i);
  }
};

class VectorScope : public ::testing::TestWithParam<ls::InstructionSet> {
 protected:
  void SetUp() override {
#if defined(__AVX__)
    GTEST_SKIP() << "this build may use the upper halves anywhere";
#endif
    if (!ls::cpu_has(GetParam())) GTEST_SKIP() << "this CPU has no " << ls::name_of(GetParam());
    if (!tells_state_in_use()) GTEST_SKIP() << "this CPU does not tell which state is in use";
    ls::force_instruction_set(GetParam());
    clear_upper_halves();
    ASSERT_EQ(upper_halves_in_use(), 0U);
  }
  void TearDown() override { ls::force_instruction_set(ls::best_instruction_set()); }

  static std::vector<float> numbers(Index count) {
    std::vector<float> x(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.25F + 0.125F * static_cast<float>(i % 7);
    return x;
  }
};

TEST_P(VectorScope, TheObservationSeesWhatIsThere) {
  const std::uint32_t filled = upper_halves_in_use_when_filled();
  clear_upper_halves();
  EXPECT_NE(filled, 0U);
  EXPECT_EQ(upper_halves_in_use(), 0U);
}

TEST_P(VectorScope, AttentionLeavesCleanRegisters) {
  constexpr Index kv_len = 1025, heads = 2, dim = 20;
  ls::ContiguousCache<float> cache({1, dim, dim}, kv_len);
  const std::vector<float> rows = numbers(kv_len * dim), q = numbers(3 * heads * dim);
  cache.append(View<const float, 3>::contiguous(rows.data(), {kv_len, 1, dim}),
               View<const float, 3>::contiguous(rows.data(), {kv_len, 1, dim}));
  std::vector<float> context(q.size());
  const auto query = View<const float, 3>::contiguous(q.data(), {3, heads, dim});
  const auto out = View<float, 3>::contiguous(context.data(), {3, heads, dim});

  ls::attend<OwnCausal, OwnSerial>(query, cache, out);
  EXPECT_EQ(upper_halves_in_use(), 0U) << "rows in one piece";

  clear_upper_halves();
  ls::attend<OwnCausal, TwoSlots>(query, cache, out);
  EXPECT_EQ(upper_halves_in_use(), 0U) << "splits as tasks, then folded";
}

TEST_P(VectorScope, ProjectionsLeaveCleanRegisters) {
  constexpr Index in = 9, out = 256;
  ls::PackedWeights<float> weights(out, in);
  const std::vector<float> x = numbers(2 * in);
  std::vector<float> y(static_cast<std::size_t>(2 * out));
  for (const Index rows : {1, 2}) {
    clear_upper_halves();
    ls::project(View<const float, 2>::contiguous(x.data(), {rows, in}), weights,
                View<float, 2>::contiguous(y.data(), {rows, out}), OwnSerial{});
    EXPECT_EQ(upper_halves_in_use(), 0U) << rows << " rows";
  }
}

TEST_P(VectorScope, RotationsLeaveCleanRegisters) {
  constexpr Index dim = 64;
  std::vector<float> row = numbers(dim);
  const ls::Rope<OwnHalfSplit, float> rope(ls::RopeTable<float>({.rotary_dim = dim, .positions = 8}));
  clear_upper_halves();
  rope.rotate(row.data(), 5);
  EXPECT_EQ(upper_halves_in_use(), 0U);
}

TEST_P(VectorScope, WhatHappensToLogitsAndNormsLeavesCleanRegisters) {
  constexpr Index n = 64;
  std::vector<float> row = numbers(n);
  const ls::QueryRow q{0, 0, 0, n};
  clear_upper_halves();
  ls::SoftCap{.cap = 20}.apply(row.data(), q, ls::KeyRange{0, n});
  EXPECT_EQ(upper_halves_in_use(), 0U) << "soft-cap";
  const ls::Alibi<float> alibi(4);
  clear_upper_halves();
  alibi.apply(row.data(), q, ls::KeyRange{0, n});
  EXPECT_EQ(upper_halves_in_use(), 0U) << "alibi";
  const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> norm{View<const float, 1>(row), View<const float, 1>(row)};
  std::vector<float> head = numbers(n);
  clear_upper_halves();
  norm.query(head.data(), 1, n);
  EXPECT_EQ(upper_halves_in_use(), 0U) << "norm";
}

INSTANTIATE_TEST_SUITE_P(Sets, VectorScope,
                         ::testing::Values(ls::InstructionSet::portable, ls::InstructionSet::avx2,
                                           ls::InstructionSet::avx512),
                         [](const auto& each) { return ls::name_of(each.param); });

#else

TEST(VectorScope, LeavesCleanRegisters) { GTEST_SKIP() << "this architecture has no upper halves to clear"; }

#endif

}  // namespace
