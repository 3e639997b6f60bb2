// attention in float; the other half of its code is compiled by itself.
#include "attention_case.hpp"

namespace cases {

void run_attention_in_double(const Case& test, Report& report);

const Operation attention{"attention", [](const Case&) { return std::string(); }, run_attention<float>,
                          run_attention_in_double};

}  // namespace cases
