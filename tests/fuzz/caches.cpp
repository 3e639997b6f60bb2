// Layers and caches under random operations.
#include "world.hpp"

void fuzz::target(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  switch (in.below(3)) {
    case 0:
      return World<ls::PagedCache<float>>(in).run();
    case 1:
      return World<ls::RingCache<std::int8_t>>(in).run();
    default:
      return World<ls::ContiguousCache<Eigen::half>>(in).run();
  }
}
