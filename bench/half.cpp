// Benchmarks of half, stored and computed in float.
#include "families.hpp"

namespace bench {

void add_half(const Suite& suite) { add_element_type<Eigen::half>(suite); }

}  // namespace bench
