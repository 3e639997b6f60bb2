// The instances that kernel_instances.hpp declares.
#include "kernel_instances.hpp"

namespace lockstep {
#define LOCKSTEP_INSTANCE template struct
#define LOCKSTEP_EACH_SET "kernel_instances.inl"
#include "lockstep/simd/each_set.inl"
#undef LOCKSTEP_INSTANCE
}  // namespace lockstep
