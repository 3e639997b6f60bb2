// attention in double.
#include "attention_case.hpp"

namespace cases {

void run_attention_in_double(const Case& test, Report& report);
void run_attention_in_double(const Case& test, Report& report) { run_attention<double>(test, report); }

}  // namespace cases
