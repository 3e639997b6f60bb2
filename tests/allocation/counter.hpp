// How many pieces of memory the program has taken from the heap, by any way.
#pragma once

namespace allocation {

/// Calls of malloc, calloc, realloc, aligned_alloc, posix_memalign, memalign and operator new since the start.
long count();

/// What a call takes.
template <class F>
long taken_by(F&& call) {
  const long before = count();
  call();
  return count() - before;
}

}  // namespace allocation
