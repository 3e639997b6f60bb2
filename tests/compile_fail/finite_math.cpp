// expect: finite-math
// flags: -ffast-math
// flags: -ffinite-math-only
// flags: -Ofast
// Minus infinity marks what a row does not see, so a compiler that may assume there is none is refused.
#include <lockstep/contract.hpp>

int main() {}
