// expect: q must be a view of the cache's compute type
// expect: context must be a writable view of the cache's compute type
// expect: two masks given, at most one is allowed
// expect: every type after the head numbers must be a policy
// Types that attend() refuses.
#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

using Cache = ls::ContiguousCache<Eigen::half>;  // computed in float

void use(const Cache& cache, const ls::View<const float, 3>& q, const ls::View<const Eigen::half, 3>& half_q,
         ls::View<float, 3> context) {
#if LOCKSTEP_BAD == 1
  ls::attend(half_q, cache, context);
#elif LOCKSTEP_BAD == 2
  ls::attend(q, cache, ls::View<const float, 3>(context));
#elif LOCKSTEP_BAD == 3
  ls::attend<ls::Causal, ls::NoMask>(q, cache, context);
#elif LOCKSTEP_BAD == 4
  ls::attend<ls::Causal, float>(q, cache, context);
#else
  ls::attend<ls::Causal>(q, cache, context);
  (void)half_q;
#endif
}

int main() {}
