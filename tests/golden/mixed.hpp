// A layer and its cache, worked on by translation units that were compiled with different flags. The type is open to
// those alone, so that the program beside them brings no copies of the library's functions that a linker could prefer
// to theirs.
#pragma once

#include <cstdint>

namespace mixed {

struct Session;

/// What each translation unit offers.
struct Part {
  const char* name;
  Session* (*begin)();
  void (*forward)(Session*, int tokens);
  std::uint64_t (*end)(Session*);  ///< the hash of all that came out
};

extern const Part plain, other;

}  // namespace mixed
