// The kernels that must equal Specification bit for bit, on every instruction set that this CPU can run.
#pragma once

#include <lockstep/kernel/tiled.hpp>

#include "fixture.hpp"

namespace fixture {

using ContractKernels = List<ls::Tiled>;

/// f() under each set, under its name; the set in use before is in use again afterwards.
template <class F>
void for_each_instruction_set(F&& f) {
  const ls::InstructionSet before = ls::instruction_set();
  for (const ls::InstructionSet set : ls::all_instruction_sets) {
    if (!ls::cpu_has(set)) continue;
    SCOPED_TRACE(ls::name_of(set));
    ls::force_instruction_set(set);
    f();
  }
  ls::force_instruction_set(before);
}

}  // namespace fixture
