// The same with the other storage types, which say less for what they cost to compile.
#include "world.hpp"

void fuzz::target(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  switch (in.below(3)) {
    case 0:
      return World<ls::PagedCache<std::int8_t>>(in).run();
    case 1:
      return World<ls::RingCache<float>>(in).run();
    default:
      return World<ls::ContiguousCache<float>>(in).run();
  }
}
