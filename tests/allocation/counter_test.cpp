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
std::atomic<long> taken{0}, alive{0};
constexpr long never = -1;
thread_local long until_failure = never;
thread_local bool has_failed = false;
}  // namespace

namespace allocation {
long count() { return taken.load(std::memory_order_relaxed); }
long live() { return alive.load(std::memory_order_relaxed); }
void fail_at(long n) {
  until_failure = n;
  has_failed = false;
}
bool stop_failing() {
  until_failure = never;
  return has_failed;
}
#if defined(LOCKSTEP_COUNTS_ALLOCATIONS)
bool counts() { return true; }
#else
bool counts() { return false; }
#endif
}  // namespace allocation

#if defined(LOCKSTEP_COUNTS_ALLOCATIONS)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* memory);
}

namespace {
// Counts an allocation; whether it is to fail.
bool fails() {
  taken.fetch_add(1, std::memory_order_relaxed);
  if (until_failure == never || until_failure-- > 0) return false;
  until_failure = never;
  has_failed = true;
  errno = ENOMEM;
  return true;
}
void* counted(void* memory) {
  if (memory != nullptr) alive.fetch_add(1, std::memory_order_relaxed);
  return memory;
}
}  // namespace

extern "C" {
void* malloc(std::size_t bytes) { return fails() ? nullptr : counted(__libc_malloc(bytes)); }
void* calloc(std::size_t count, std::size_t bytes) { return fails() ? nullptr : counted(__libc_calloc(count, bytes)); }
void* realloc(void* memory, std::size_t bytes) {
  if (fails()) return nullptr;
  void* moved = __libc_realloc(memory, bytes);
  if (memory == nullptr) return counted(moved);
  if (moved == nullptr && bytes == 0) alive.fetch_sub(1, std::memory_order_relaxed);
  return moved;
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return fails() ? nullptr : counted(__libc_memalign(alignment, bytes));
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return fails() ? nullptr : counted(__libc_memalign(alignment, bytes));
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  *memory = fails() ? nullptr : counted(__libc_memalign(alignment, bytes));
  return *memory == nullptr ? ENOMEM : 0;
}
void free(void* memory) {
  if (memory != nullptr) alive.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(memory);
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

TEST(AllocationCounter, KnowsWhatIsGivenBackAndFailsOnRequest) {
  const long before = allocation::live();
  void* memory = std::malloc(10);
  EXPECT_EQ(allocation::live(), before + 1);
  use(memory = std::realloc(memory, 1000));
  EXPECT_EQ(allocation::live(), before + 1);
  std::free(memory);
  EXPECT_EQ(allocation::live(), before);
  bool caught = false;
  void *first = nullptr, *third = nullptr;
  allocation::fail_at(1);
  first = ::operator new(1);
  try {
    use(::operator new(100, std::align_val_t{64}));
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  third = ::operator new(1);
  EXPECT_TRUE(allocation::stop_failing());
  EXPECT_TRUE(caught);
  ::operator delete(first);
  ::operator delete(third);
  EXPECT_EQ(allocation::live(), before);
  allocation::fail_at(1);
  EXPECT_FALSE(allocation::stop_failing());
}

}  // namespace
#else
TEST(AllocationCounter, SeesEveryWayToTheHeap) { GTEST_SKIP() << "this platform's heap cannot be counted here"; }
#endif
