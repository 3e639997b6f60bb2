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
  const char* (*refusal)(Session*);  ///< what it says to more tokens than fit
  void (*force)(const char* set);    ///< from now on this instruction set, where the CPU has it
  const char* (*set)();              ///< the name of the one in use
  std::uint64_t (*end)(Session*);    ///< the hash of all that came out
};

// The one may lie in a shared library that shows nothing else.
[[gnu::visibility("default")]] extern const Part plain, other;

}  // namespace mixed
