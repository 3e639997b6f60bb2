// Chunking in float and double.
#include "attention/chunking.hpp"

namespace fixture {

using Cases = Cross<Kernels, List<float, double>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Layers, Chunking, Cases, CaseName);

}  // namespace fixture
