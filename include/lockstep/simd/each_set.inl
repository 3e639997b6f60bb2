// Includes the file named by LOCKSTEP_EACH_SET once for each instruction set of this architecture: in a namespace of
// the set's name, where Simd, RegisterTile and the tag Set are the set's own, and with leave to use its instructions.
namespace portable {
#include LOCKSTEP_EACH_SET
}
#if defined(__x86_64__)
#include "lockstep/simd/region_avx2_begin.inl"
namespace avx2 {
#include LOCKSTEP_EACH_SET
}
#include "lockstep/simd/region_end.inl"
#include "lockstep/simd/region_avx512_begin.inl"
namespace avx512 {
#include LOCKSTEP_EACH_SET
}
#include "lockstep/simd/region_end.inl"
#elif defined(__aarch64__)
namespace neon {
#include LOCKSTEP_EACH_SET
}
#endif
#undef LOCKSTEP_EACH_SET
