// Chunking in the 16-bit types.
#include "attention/chunking.hpp"

namespace fixture {

using Cases = Cross<Kernels, List<Eigen::half, Eigen::bfloat16>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Layers, Chunking, Cases, CaseName);

}  // namespace fixture
