// Little to compile: what is asked is whether the library is found, and Eigen through it.
#include <lockstep/mask/causal.hpp>
#include <lockstep/version.hpp>

#include <cstdio>

int main() {
  std::printf("lockstep %d.%d.%d\n", lockstep::version_major, lockstep::version_minor, lockstep::version_patch);
  const auto mask = lockstep::causal_mask<float>(2, 3, 1);
  return mask(0, 1) == 0 && mask(0, 2) < 0 && mask(1, 2) == 0 ? 0 : 1;
}
