// Scratch that a const layer lends to the calls that run at once.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::detail {

/// Scratch objects that come back after use, so that steady calls take nothing from the heap. As many live as calls
/// have run at once.
template <class Scratch>
class ScratchPool {
 public:
  std::unique_ptr<Scratch> borrow() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      ++made_;
      free_.reserve(made_);  // so that giving back never allocates
      return std::make_unique<Scratch>();
    }
    std::unique_ptr<Scratch> scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<Scratch> scratch) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
  std::size_t made_ = 0;
};

template <class Scratch>
class Borrowed {
 public:
  explicit Borrowed(ScratchPool<Scratch>& pool) : pool_(pool), scratch_(pool.borrow()) {}
  ~Borrowed() { pool_.give_back(std::move(scratch_)); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Scratch* operator->() noexcept { return scratch_.get(); }

 private:
  ScratchPool<Scratch>& pool_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace lockstep::detail
