// What the machine says of itself: processor, caches, memory.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "numbers.hpp"

namespace bench {

inline std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

/// Bytes of the last-level cache that the first processor sees.
inline Index last_level_cache() {
  Index most = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  most = std::max<Index>({0, sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE)});
#endif
  for (int level = 0; level < 8; ++level) {
    std::ifstream in("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level) + "/size");
    Index size = 0;
    char unit = ' ';
    if (in >> size) most = std::max(most, size * (in >> unit ? unit == 'K' ? 1024 : unit == 'M' ? 1024 * 1024 : 1 : 1));
  }
  constexpr Index where_nothing_is_said = Index{32} << 20;
  return most > 0 ? most : where_nothing_is_said;
}

/// Bytes that may be taken without swapping.
inline Index memory_available() {
  std::ifstream in("/proc/meminfo");
  Index kilobytes = 0;
  for (std::string word; in >> word;)
    if (word == "MemAvailable:" && in >> kilobytes) break;
  Index bytes = kilobytes * 1024;
  if (bytes == 0) bytes = sysconf(_SC_PHYS_PAGES) / 2 * sysconf(_SC_PAGESIZE);
  // A container may have less than its machine.
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    if (Index limit = 0; std::ifstream(file) >> limit && limit > 0) bytes = std::min(bytes, limit);
  return bytes;
}

/// Bytes of a working set far beyond the last-level cache: twice its size, or what memory allows.
inline Index beyond_cache() {
  static const Index bytes = std::min(2 * last_level_cache(), memory_available() / 6) & ~Index{0xffff};
  return bytes;
}

}  // namespace bench
