// Benchmarks of bfloat16, stored and computed in float.
#include "families.hpp"

namespace bench {

void add_bfloat16(const Suite& suite) { add_element_type<Eigen::bfloat16>(suite); }

}  // namespace bench
