// Names of instruction sets, and which of them may be forced.
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>

#include "lockstep/simd/sets.hpp"

namespace ls = lockstep;

namespace {

TEST(InstructionSet, HasANameOfItsOwn) {
  std::set<std::string> names;
  for (const ls::InstructionSet set : ls::all_instruction_sets) names.insert(ls::name_of(set));
  EXPECT_EQ(names, (std::set<std::string>{"portable", "avx2", "avx512", "neon"}));
}

TEST(InstructionSet, ThatTheCpuLacksIsRefusedAndTheOneInUseStays) {
  const ls::InstructionSet before = ls::instruction_set();
  int refused = 0;
  for (const ls::InstructionSet set : ls::all_instruction_sets) {
    if (ls::cpu_has(set)) continue;
    ++refused;
    try {
      ls::force_instruction_set(set);
      ADD_FAILURE() << ls::name_of(set) << " was taken";
    } catch (const std::invalid_argument& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("given " + std::string(ls::name_of(set))), std::string::npos) << message;
      EXPECT_NE(message.find("best is " + std::string(ls::name_of(ls::best_instruction_set()))), std::string::npos)
          << message;
    }
    EXPECT_EQ(ls::instruction_set(), before);
  }
  EXPECT_GE(refused, 1) << "no CPU has both avx2 and neon";
}

TEST(InstructionSet, BestIsOneThatTheCpuHas) { EXPECT_TRUE(ls::cpu_has(ls::best_instruction_set())); }

}  // namespace
