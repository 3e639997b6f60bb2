// expect: a union of masks must not add to logits
// expect: a union of masks must not add to logits
// expect: the mask adds to logits of another type than those of this layer
// expect: the mask adds to logits of another type than those of this layer
// Additive masks where their addends would have no meaning or be lost.
#include <lockstep/defaults.hpp>
#include <lockstep/mask/array.hpp>

namespace ls = lockstep;

#if LOCKSTEP_BAD == 1
using Mask = decltype(ls::Causal{} | ls::AdditiveMask<float>{});
#elif LOCKSTEP_BAD == 2
using Mask = ls::Or<ls::And<ls::Causal, ls::AdditiveMask<double>>, ls::Causal>;
#elif LOCKSTEP_BAD == 3
using Mask = ls::AdditiveMask<double>;
#elif LOCKSTEP_BAD == 4
using Mask = ls::And<ls::AdditiveMask<double>, ls::AdditiveMask<float>>;
#else
using Mask = ls::And<ls::Or<ls::Causal, ls::BooleanMask>, ls::AdditiveMask<Eigen::half>>;
#endif

static_assert(ls::Mask<ls::PolicySet<float, Mask>::Mask>);

ls::PolicySet<float, Mask>::Mask mask;

int main() {}
