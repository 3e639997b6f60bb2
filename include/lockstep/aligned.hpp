// Memory on 64-byte boundaries, so that a tile line never straddles two cache lines, and where it comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
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

  /// Memory for n elements. Errors: std::bad_alloc.
  T* allocate(std::size_t n) {
    constexpr std::size_t most = static_cast<std::size_t>(-1) / 2;  // bytes, which nobody has
    return static_cast<T*>(::operator new(n > most / sizeof(T) ? most : n * sizeof(T), alignment));
  }
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
  AlignedBuffer(std::size_t bytes, MemorySource source) : memory_(nullptr, GiveBack{source, bytes}) {
    if ((source.take == nullptr) != (source.give_back == nullptr))
      raise(Status::invalid("memory source", "given one function, allowed both or neither"));
    if (bytes == 0) return;
    memory_.reset(static_cast<std::byte*>(source.take == nullptr ? ::operator new(bytes, std::align_val_t{alignment})
                                                                 : source.take(source.context, bytes, alignment)));
    if (memory_ == nullptr) raise(Status::length("memory source", "given none for {} bytes, allowed that many", bytes));
    if (reinterpret_cast<std::uintptr_t>(data()) % alignment != 0)
      raise(Status::invalid("memory source", "given an address between, allowed multiples of {}", alignment));
    std::memset(data(), 0, bytes);
  }
  AlignedBuffer(const AlignedBuffer& other) : AlignedBuffer(other.size(), other.source()) {
    if (size() > 0) std::memcpy(data(), other.data(), size());
  }
  AlignedBuffer(AlignedBuffer&&) noexcept = default;
  AlignedBuffer& operator=(AlignedBuffer other) noexcept {
    memory_.swap(other.memory_);
    return *this;
  }

  /// The first byte, or null where there are none.
  std::byte* data() const noexcept { return memory_.get(); }
  std::size_t size() const noexcept { return memory_ == nullptr ? 0 : memory_.get_deleter().bytes; }  ///< in bytes
  /// Where the memory is from.
  const MemorySource& source() const noexcept { return memory_.get_deleter().source; }

 private:
  struct GiveBack {
    MemorySource source;
    std::size_t bytes;
    void operator()(std::byte* memory) const noexcept {
      if (source.take == nullptr)
        ::operator delete(memory, std::align_val_t{alignment});
      else
        source.give_back(source.context, memory, bytes, alignment);
    }
  };
  std::unique_ptr<std::byte[], GiveBack> memory_;
};

}  // namespace lockstep
