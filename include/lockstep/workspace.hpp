// Memory that one call works in: taken before the work starts, never during it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lockstep/contract.hpp"

namespace lockstep {

/// Scratch of one call at a time. Grows to what a call asks for and keeps it; or lies in the caller's memory and never
/// grows.
class Workspace {
 public:
  Workspace() noexcept = default;
  /// The caller's memory, any alignment; a call that needs more refuses with length_error.
  Workspace(void* memory, Index bytes) noexcept
      : memory_(static_cast<std::byte*>(memory)), size_(memory == nullptr ? 0 : bytes), fixed_(true) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Whether a call that needs `bytes` can have them.
  Status check(Index bytes) const noexcept {
    if (const Index needed = product(bytes) + alignment; fixed_ && size_ < needed)
      return Status::length("workspace", "given {} bytes, allowed from {}", size_, needed);
    return {};
  }
  /// Makes room for `bytes`, forgetting what was there.
  void reserve(Index bytes) {
    raise_unless_ok(check(bytes));
    used_ = 0;
    const Index needed = product(bytes) + alignment;
    if (size_ >= needed) return;
    // Half as much again as before at least: what a decode needs grows with its cache, a little at a time.
    const Index grown = size_ + size_ / 2, size = needed > grown ? needed : grown;
    own_.reset();
    size_ = 0;
    own_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(size));
    memory_ = own_.get();
    size_ = size;
  }
  /// The next n elements, on a 64-byte boundary. Precondition: reserved.
  template <class T>
  T* take(Index n) noexcept {
    const auto base = reinterpret_cast<std::uintptr_t>(memory_);
    const auto start = (base + static_cast<std::uintptr_t>(used_) + (alignment - 1)) / alignment * alignment;
    used_ = static_cast<Index>(start - base) + bytes_for<T>(n);
    return reinterpret_cast<T*>(memory_ + (start - base));
  }
  /// What take<T>(n) uses up.
  template <class T>
  static constexpr Index bytes_for(Index n) noexcept {
    return round_up(product(n, static_cast<Index>(sizeof(T))), alignment);
  }
  /// The product of sizes from 0 on, at most 2^45: more than any memory has, and so little that sums of a call's parts
  /// over all threads stay within 63 bits.
  template <class... Sizes>
  static constexpr Index product(Sizes... sizes) noexcept {
    Index all = 1;
    ((all = __builtin_mul_overflow(all, sizes < 0 ? Index{0} : sizes, &all) || all > most ? most : all), ...);
    return ((sizes <= 0) || ...) ? 0 : all;
  }
  Index size() const noexcept { return size_; }  ///< bytes held
  /// The caller's memory; empty for a workspace that has its own.
  std::span<std::byte> given() const noexcept {
    return fixed_ && size_ > 0 ? std::span(memory_, static_cast<std::size_t>(size_)) : std::span<std::byte>{};
  }
  /// How many bytes are used.
  Index mark() const noexcept { return used_; }
  /// Back to that: what was taken since may be taken again.
  void rewind(Index mark) noexcept { used_ = mark; }

  /// Bytes that a caller's memory needs beyond what a call asks for, for alignment.
  static constexpr Index alignment = 64;
  static constexpr Index most = Index{1} << 45;  ///< what product() gives at most

 private:
  std::unique_ptr<std::byte[]> own_;  // none where the memory is the caller's
  std::byte* memory_ = nullptr;
  Index size_ = 0;
  Index used_ = 0;
  bool fixed_ = false;
};

namespace detail {

/// Scratch objects that come back after use, so that steady calls take nothing from the heap. As many live as calls
/// have run at once.
template <class Scratch>
class ScratchPool {
  struct GiveBack {
    ScratchPool* pool;
    void operator()(Scratch* scratch) const noexcept {
      const std::lock_guard lock(pool->mutex_);
      pool->free_.emplace_back(scratch);
    }
  };

 public:
  std::unique_ptr<Scratch, GiveBack> borrow() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(++made_);  // so that giving back never allocates
      return {new Scratch, GiveBack{this}};
    }
    Scratch* const scratch = free_.back().release();
    free_.pop_back();
    return {scratch, GiveBack{this}};
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
  std::size_t made_ = 0;
};

/// Taken from in place of a workspace, it tells how much of one is needed.
struct WorkspaceSize {
  Index bytes = 0;
  template <class T>
  constexpr T* take(Index n) noexcept {
    bytes += Workspace::bytes_for<T>(n);
    return nullptr;
  }
};

}  // namespace detail

}  // namespace lockstep
