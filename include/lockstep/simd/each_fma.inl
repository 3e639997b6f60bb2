// Includes the file named by LOCKSTEP_EACH_SET, which is scalar code, once for each way of getting a fused
// multiply-add: in the namespaces of with_fma()'s tags, and with leave to use the instruction.
namespace scalar {
#include LOCKSTEP_EACH_SET
}
#if defined(__x86_64__)
#include "lockstep/simd/region_fma_begin.inl"
namespace scalar_fma {
#include LOCKSTEP_EACH_SET
}
#include "lockstep/simd/region_end.inl"
#endif
#undef LOCKSTEP_EACH_SET
