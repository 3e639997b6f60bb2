// Scratch that a const layer lends to the calls that run at once.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::detail {

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

}  // namespace lockstep::detail
