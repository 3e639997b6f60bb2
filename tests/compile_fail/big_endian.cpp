// expect: big-endian platforms are not supported
// flags: -U__BYTE_ORDER__ -Wno-builtin-macro-redefined
#include <lockstep/contract.hpp>

int main() {}
