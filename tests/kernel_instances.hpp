// The register-tile products of all element types, instantiated once for all test programs: they are half of what a
// layer costs to compile.
#pragma once

#include "lockstep/kernel/tiled.hpp"
#include "lockstep/projection/packed.hpp"

namespace lockstep {
#define LOCKSTEP_INSTANCE extern template struct
#define LOCKSTEP_EACH_SET "kernel_instances.inl"
#include "lockstep/simd/each_set.inl"
#undef LOCKSTEP_INSTANCE
}  // namespace lockstep
