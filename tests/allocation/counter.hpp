// How many pieces of memory the program has taken from the heap, by any way, and an end of the heap on request.
#pragma once

namespace allocation {

/// Calls of malloc, calloc, realloc, aligned_alloc, posix_memalign, memalign and operator new since the start.
long count();

/// Whether the heap is counted here: not under sanitizers, which replace it themselves.
bool counts();

/// Pieces that have not been given back.
long live();

/// The n-th allocation of this thread from now on fails, counted from 0: once, as one of many threads would see it.
void fail_at(long n);
/// No allocation fails any more; whether one has failed.
bool stop_failing();

/// What a call takes.
template <class F>
long taken_by(F&& call) {
  const long before = count();
  call();
  return count() - before;
}

}  // namespace allocation
