// Memory on 64-byte boundaries, so that a tile line never straddles two cache lines, and where it comes from.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>
#include <vector>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "lockstep/contract.hpp"

namespace lockstep {

/// A standard allocator on cache-line boundaries.
template <class T>
struct AlignedAllocator {
  using value_type = T;                             ///< what is allocated
  static constexpr std::align_val_t alignment{64};  ///< bytes of a cache line

  AlignedAllocator() noexcept = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) noexcept {}

  /// Memory for n elements.
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), alignment)); }
  /// Gives back what allocate() gave.
  void deallocate(T* p, std::size_t) noexcept { ::operator delete(p, alignment); }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) noexcept { return true; }
};

/// A vector on cache-line boundaries.
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

/// Where caches take their memory: two functions of the caller's and what they are called with. What `context` points
/// to must outlive all memory taken. Default: the C++ heap.
struct MemorySource {
  /// `bytes` > 0 on a multiple of `alignment`, a power of two; null, or an exception, where there is none.
  void* (*take)(void* context, std::size_t bytes, std::size_t alignment) = nullptr;
  /// Gives back what take() gave for the same numbers.
  void (*give_back)(void* context, void* memory, std::size_t bytes, std::size_t alignment) noexcept = nullptr;
  void* context = nullptr;  ///< handed to both
};

namespace detail {

inline constexpr std::size_t huge_page = std::size_t{1} << 21;

inline void* take_huge_pages(void*, std::size_t bytes, std::size_t) {
  const std::size_t whole = (bytes + huge_page - 1) / huge_page * huge_page;
  void* memory = ::operator new(whole, std::align_val_t{huge_page});
#if defined(__linux__)
  // A wish: where the system knows no huge pages, the memory is as good as any other.
  static_cast<void>(::madvise(memory, whole, MADV_HUGEPAGE));
#endif
  return memory;
}
inline void give_back_huge_pages(void*, void* memory, std::size_t, std::size_t) noexcept {
  ::operator delete(memory, std::align_val_t{huge_page});
}

}  // namespace detail

/// Whole pages of 2 MiB, which Linux is asked to back by huge pages: fewer address translations for caches that are
/// read from end to end at every step.
inline constexpr MemorySource huge_pages{&detail::take_huge_pages, &detail::give_back_huge_pages, nullptr};

/// Bytes on a cache-line boundary, of a fixed number, all 0 and touched from the start.
class AlignedBuffer {
 public:
  static constexpr std::size_t alignment = 64;  ///< bytes of a cache line

  AlignedBuffer() noexcept = default;
  /// Errors: a source that has no memory, or one of its two functions only.
  AlignedBuffer(std::size_t bytes, MemorySource source) : source_(source) {
    if ((source.take == nullptr) != (source.give_back == nullptr))
      raise(Status::invalid("memory source", "given one function, allowed both or neither"));
    if (bytes == 0) return;
    memory_ = static_cast<std::byte*>(source_.take == nullptr ? ::operator new(bytes, std::align_val_t{alignment})
                                                              : source_.take(source_.context, bytes, alignment));
    if (memory_ == nullptr) raise(Status::length("memory source", "given none for {} bytes, allowed that many", bytes));
    size_ = bytes;
    std::memset(memory_, 0, size_);
  }
  AlignedBuffer(const AlignedBuffer& other) : AlignedBuffer(other.size_, other.source_) {
    if (size_ > 0) std::memcpy(memory_, other.memory_, size_);
  }
  AlignedBuffer(AlignedBuffer&& other) noexcept { swap(other); }
  AlignedBuffer& operator=(AlignedBuffer other) noexcept {
    swap(other);
    return *this;
  }
  ~AlignedBuffer() {
    if (memory_ == nullptr) return;
    if (source_.take == nullptr)
      ::operator delete(memory_, std::align_val_t{alignment});
    else
      source_.give_back(source_.context, memory_, size_, alignment);
  }

  /// The first byte, or null where there are none.
  std::byte* data() const noexcept { return memory_; }
  std::size_t size() const noexcept { return size_; }              ///< in bytes
  const MemorySource& source() const noexcept { return source_; }  ///< where the memory is from
  void swap(AlignedBuffer& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    std::swap(source_, other.source_);
  }

 private:
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  MemorySource source_;
};

}  // namespace lockstep
