// The C library's allocation functions, replaced by ones that count and hand on; operator new ends in them.
#include "allocation/counter.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

// glibc offers its own functions under these names too. The sanitizers replace the heap themselves and are left alone.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_COUNTS_ALLOCATIONS 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#undef LOCKSTEP_COUNTS_ALLOCATIONS
#endif
#endif

namespace {
std::atomic<long> taken{0};
}

namespace allocation {
long count() { return taken.load(std::memory_order_relaxed); }
}  // namespace allocation

#if defined(LOCKSTEP_COUNTS_ALLOCATIONS)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  taken.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  taken.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  taken.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  taken.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  taken.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  taken.fetch_add(1, std::memory_order_relaxed);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}  // extern "C"

namespace {

// Kept from being optimised away.
void use(void* memory) { asm volatile("" : : "r"(memory) : "memory"); }

TEST(AllocationCounter, SeesEveryWayToTheHeap) {
  void* memory = nullptr;
  EXPECT_EQ(allocation::taken_by([&] { use(memory = std::malloc(100)); }), 1);
  EXPECT_EQ(allocation::taken_by([&] { use(memory = std::realloc(memory, 200)); }), 1);
  EXPECT_EQ(allocation::taken_by([&] { std::free(memory); }), 0);
  EXPECT_EQ(allocation::taken_by([&] { use(memory = std::calloc(3, 5)); }), 1);
  std::free(memory);
  EXPECT_EQ(allocation::taken_by([&] { use(memory = std::aligned_alloc(64, 128)); }), 1);
  std::free(memory);
  EXPECT_EQ(allocation::taken_by([&] { EXPECT_EQ(posix_memalign(&memory, 64, 128), 0); }), 1);
  use(memory);
  std::free(memory);
  EXPECT_EQ(allocation::taken_by([&] { use(memory = ::operator new(100)); }), 1);
  ::operator delete(memory);
  EXPECT_EQ(allocation::taken_by([&] { use(memory = ::operator new(100, std::align_val_t{64})); }), 1);
  ::operator delete(memory, std::align_val_t{64});
  EXPECT_GE(allocation::taken_by([&] { use(std::make_unique<std::vector<int>>(7).get()); }), 2);
}

}  // namespace
#else
TEST(AllocationCounter, SeesEveryWayToTheHeap) { GTEST_SKIP() << "this platform's heap cannot be counted here"; }
#endif
