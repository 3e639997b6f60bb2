// Benchmarks of double.
#include "families.hpp"

namespace bench {

void add_double(const Suite& suite) { add_element_type<double>(suite); }

}  // namespace bench
