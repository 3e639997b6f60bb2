#include <lockstep/lockstep.hpp>

#include <cstdio>

int main() {
  std::printf("lockstep %d.%d.%d\n", lockstep::version_major, lockstep::version_minor, lockstep::version_patch);
  const auto mask = lockstep::causal_mask<float>(2, 3, 1);
  return mask(0, 1) == 0 && mask(0, 2) < 0 && mask(1, 2) == 0 ? 0 : 1;
}
