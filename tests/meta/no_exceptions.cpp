#include <lockstep/lockstep.hpp>

int main() {}
