// Caches that share a pool of pages: many sequences of unknown length in one piece of memory, with common prefixes
// stored once.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lockstep/cache/block_cache.hpp"

namespace lockstep {

namespace detail {

/// The pages of a pool, and how many caches hold each. All members may be called from any thread.
template <class S>
class PageStore {
 public:
  PageStore(CacheShape shape, Index pages, MemorySource source)
      : shape_(shape), blocks_(shape, pages, source), holders_(static_cast<std::size_t>(pages), 0) {
    free_.reserve(holders_.size());
    for (Index page = pages; page-- > 0;) free_.push_back(page);
  }

  const CacheShape& shape() const noexcept { return shape_; }
  Index pages() const noexcept { return blocks_.blocks(); }
  Index bytes() const noexcept { return blocks_.bytes(); }
  ByteRange memory() const noexcept { return blocks_.memory(); }
  Index page_bytes() const noexcept { return shape_.kv_heads * BlockBytes<S>(shape_).all(); }
  Index free_pages() const noexcept {
    const std::lock_guard lock(mutex_);
    return static_cast<Index>(free_.size());
  }

  /// Takes `count` pages, each with one holder, or none; false if fewer are free. `put(page)` must not throw.
  template <class Put>
  bool take(Index count, Put&& put) noexcept {
    const std::lock_guard lock(mutex_);
    if (count > static_cast<Index>(free_.size())) return false;
    for (Index i = 0; i < count; ++i) {
      const Index page = free_.back();
      free_.pop_back();
      holders(page) = 1;
      put(page);
    }
    return true;
  }
  void share(const Index* pages, Index count) noexcept {
    const std::lock_guard lock(mutex_);
    for (Index i = 0; i < count; ++i) ++holders(pages[i]);
  }
  void give_back(const Index* pages, Index count) noexcept {
    const std::lock_guard lock(mutex_);
    for (Index i = 0; i < count; ++i)
      if (--holders(pages[i]) == 0) free_.push_back(pages[i]);  // within what was reserved
  }
  /// Whether others hold a page too, so many that let go of it apart.
  bool is_shared(Index page, Index apart = 0) const noexcept {
    const std::lock_guard lock(mutex_);
    return holders_[static_cast<std::size_t>(page)] > 1 + apart;
  }

  WritableBlock<S> block(Index page, Index kv_head) const noexcept { return blocks_.block(kv_head, page); }
  void copy_page(Index to, Index from) noexcept { blocks_.copy_block(to, blocks_, from); }

 private:
  Index& holders(Index page) noexcept { return holders_[static_cast<std::size_t>(page)]; }

  CacheShape shape_;
  BlockArray<S> blocks_;
  mutable std::mutex mutex_;
  std::vector<Index> holders_;  // caches that hold a page
  std::vector<Index> free_;     // its last page is taken next
};

}  // namespace detail

template <class S>
class PagedCache;

/// Pages of 256 places, all kv heads of one layer shape, for any number of PagedCaches. A handle: copies name the same
/// pages, which live until the last handle and the last cache are gone.
///
/// Memory is taken, and touched, at construction. Taking, sharing and giving back pages is guarded by a mutex: caches
/// of one pool may be used by different threads at once, each cache by one.
template <class S>
class PagePool {
 public:
  using Storage = S;

  /// Errors: kv_heads or a head size below 1, a number of pages below 0, sizes beyond 63 bits.
  PagePool(CacheShape shape, Index pages, MemorySource source = {}) {
    constexpr Index limit = Index{1} << 40;
    if (pages < 0 || pages > limit) raise(Status::length("pages", "given {}, allowed 0 to 2^40", pages));
    raise_unless_ok(detail::check_cache_sizes<S>(shape, "pages", pages * block_keys));
    store_ = std::make_shared<detail::PageStore<S>>(shape, pages, source);
  }
  // Moving copies: a handle always names pages.
  PagePool(const PagePool&) noexcept = default;
  PagePool& operator=(const PagePool&) noexcept = default;

  CacheShape shape() const noexcept { return store_->shape(); }
  Index pages() const noexcept { return store_->pages(); }            ///< of 256 places each
  Index free_pages() const noexcept { return store_->free_pages(); }  ///< that no cache holds
  /// Memory of all pages, in bytes.
  Index bytes() const noexcept { return store_->bytes(); }

 private:
  friend class PagedCache<S>;
  std::shared_ptr<detail::PageStore<S>> store_;
};

/// Keys (rotated) and values of one sequence in pages of a pool, in any order there: a block table says which page has
/// which places.
///
/// Copying and fork() share all pages and cost no memory; who then writes into a page that others hold copies it first
/// (a page of the prefix that is full is never written again, so it stays shared). An append takes all the pages it
/// needs or none: out of pages is an error that changes nothing. Pages go back when the last cache that holds them
/// drops them, by truncate(), clear() or its end. Which pages a sequence has does not show in its bits. A forward that
/// fails half-way, or a write_circular() that finds pages for one end only, may leave a cache that shares pages with
/// copies of those it would have written to, contents as before.
template <class S = void>
class PagedCache : public detail::BlockCache<PagedCache<S>, S> {
  using Base = detail::BlockCache<PagedCache<S>, S>;
  friend Base;

 public:
  static constexpr const char* name = "paged";

  PagedCache() = default;

  /// For as many tokens as the whole pool has places.
  explicit PagedCache(const PagePool<S>& pool) : PagedCache(pool, pool.pages() * block_keys) {}
  /// For `capacity` tokens at most; the block table is made for so many, pages are taken as tokens come. Errors: a
  /// capacity below 0.
  PagedCache(const PagePool<S>& pool, Index capacity) : Base(pool.shape(), capacity), store_(pool.store_) {
    raise_unless_ok(detail::check_cache_sizes<S>(pool.shape(), "capacity", capacity));
    const Index most = ceil_div(capacity, block_keys), pages = pool.pages();
    table_of_pages_.reserve(static_cast<std::size_t>(most < pages ? most : pages));
  }
  /// The same for a layer's make_cache(capacity, pool). Errors: a pool of another shape.
  PagedCache(CacheShape shape, Index capacity, const PagePool<S>& pool) : PagedCache(pool, capacity) {
    raise_unless_ok(detail::check_cache_shape("pool", pool.shape(), shape));
  }

  /// A fork.
  PagedCache(const PagedCache& other) : Base(other), store_(other.store_) {
    table_of_pages_.reserve(other.table_of_pages_.capacity());
    table_of_pages_ = other.table_of_pages_;
    if (store_ != nullptr) store_->share(table_of_pages_.data(), pages());
  }
  /// Moving leaves an empty cache without capacity and pool.
  PagedCache(PagedCache&& other) noexcept { swap(other); }
  PagedCache& operator=(PagedCache other) noexcept {
    swap(other);
    return *this;
  }
  ~PagedCache() { drop_pages(0); }

  /// Another sequence with the same tokens so far; pages are shared until one of both writes into them.
  PagedCache fork() const { return *this; }
  /// Another sequence with the first `length` tokens. Errors: a length beyond the present one, or below 0.
  PagedCache fork(Index length) const {
    raise_unless_ok(this->check_truncate(length));
    PagedCache prefix(*this);
    prefix.shorten(length);
    return prefix;
  }

  /// Pages held, shared ones too.
  Index pages() const noexcept { return static_cast<Index>(table_of_pages_.size()); }
  /// Their memory, in bytes.
  Index bytes() const noexcept { return store_ == nullptr ? 0 : pages() * store_->page_bytes(); }
  /// Where the pages of the whole pool lie.
  detail::ByteRange memory() const noexcept { return store_ == nullptr ? detail::ByteRange{} : store_->memory(); }

  /// Also whether the pool has pages at this moment: other threads may take them before append() does.
  Status check_append(Index tokens) const noexcept {
    if (Status s = Base::check_append(tokens); !s.ok() || tokens == 0) return s;
    return check_pages(pages_needed(this->length_, this->length_ + tokens));
  }
  /// Whether pools have the pages, at this moment, for appending tokens(i) to each of the caches at(i), i < count; null
  /// is none. A page that caches share is copied for all of them but the last holder.
  template <class At, class Tokens>
  static Status check_append_together(Index count, const At& at, const Tokens& tokens) noexcept {
    for (Index i = 0; i < count; ++i) {
      // Pool by pool, with the first of its caches.
      const detail::PageStore<S>* store = store_of(at(i));
      Index caches = 0, needed = 0;
      bool counted = store == nullptr;
      for (Index c = 0; c < i && !counted; ++c) counted = store_of(at(c)) == store;
      if (counted) continue;
      for (Index c = i; c < count; ++c) {
        if (store_of(at(c)) != store || tokens(c) == 0) continue;
        const PagedCache& cache = *at(c);
        ++caches;
        needed += cache.pages_needed(cache.length_, cache.length_ + tokens(c), [&](Index b) {
          Index earlier = 0;
          for (Index e = i; e < c; ++e)
            if (store_of(at(e)) == store) earlier += at(e)->writes_page(b, cache.page(b), tokens(e));
          return earlier;
        });
      }
      if (const Index free = store->free_pages(); needed > free)
        return Status::length("pages",
                              "given appends to {} caches that need {} together, allowed {}: the pool has no more",
                              caches, needed, free);
    }
    return {};
  }

  /// An empty cache over the same pool.
  PagedCache empty_like() const {
    PagedCache empty;
    empty.shape_ = this->shape_;
    empty.capacity_ = this->capacity_;
    empty.store_ = store_;
    empty.table_of_pages_.reserve(table_of_pages_.capacity());
    return empty;
  }

 private:
  static const detail::PageStore<S>* store_of(const PagedCache* cache) noexcept {
    return cache == nullptr ? nullptr : cache->store_.get();
  }
  /// Whether appending `tokens` writes to this page as block b.
  bool writes_page(Index b, Index of_block, Index tokens) const noexcept {
    return b < pages() && page(b) == of_block && b >= this->length_ / block_keys &&
           b * block_keys < this->length_ + tokens && tokens > 0;
  }
  /// New pages, and copies of shared ones, for writing places [first, last). Earlier(b): how many holders of block b's
  /// page will have let go of it.
  template <class Earlier>
  Index pages_needed(Index first, Index last, Earlier&& earlier) const noexcept {
    Index needed = std::max(ceil_div(last, block_keys) - pages(), Index{0});
    for (Index b = first / block_keys; b * block_keys < last && b < pages(); ++b)
      needed += store_->is_shared(page(b)) && store_->is_shared(page(b), earlier(b));
    return needed;
  }
  Index pages_needed(Index first, Index last) const noexcept {
    return pages_needed(first, last, [](Index) { return Index{0}; });
  }
  Status check_pages(Index needed) const noexcept {
    if (const Index free = store_->free_pages(); needed > free)
      return Status::length("pages", "given an append that needs {}, allowed {}: the pool has no more", needed, free);
    return {};
  }

  void make_room(Index first, Index last) {
    if (first >= last) return;
    const Index needed = pages_needed(first, last);
    if (needed == 0) return;
    raise_unless_ok(check_pages(needed));
    const Index held = pages(), wanted = std::max(held, ceil_div(last, block_keys));
    const auto all = static_cast<std::size_t>(held + needed);
    if (table_of_pages_.capacity() < all) table_of_pages_.reserve(all);
    // Those that replace shared pages wait at the end of the table for a moment.
    if (!store_->take(needed, [this](Index taken) noexcept { table_of_pages_.push_back(taken); }))
      raise(Status::length("pages", "given an append that needs {}, allowed fewer: other caches were faster", needed));
    for (Index b = first / block_keys; b < held && b * block_keys < last && pages() > wanted; ++b) {
      if (!store_->is_shared(page(b))) continue;
      std::swap(page(b), table_of_pages_.back());
      store_->copy_page(page(b), table_of_pages_.back());
      drop_pages(pages() - 1);
    }
    drop_pages(wanted);  // another holder may have let go meanwhile: then a page that was taken is not needed
  }
  void settle() noexcept {}
  void release() noexcept { drop_pages(ceil_div(this->length_, block_keys)); }
  /// Keeps the first `count` pages.
  void drop_pages(Index count) noexcept {
    if (store_ == nullptr || count >= pages()) return;
    store_->give_back(table_of_pages_.data() + count, pages() - count);
    table_of_pages_.resize(static_cast<std::size_t>(count));
  }

  Index& page(Index b) noexcept { return table_of_pages_[static_cast<std::size_t>(b)]; }
  Index page(Index b) const noexcept { return table_of_pages_[static_cast<std::size_t>(b)]; }
  detail::WritableBlock<S> writable(Index kv_head, Index b) const noexcept { return store_->block(page(b), kv_head); }

  void swap(PagedCache& other) noexcept {
    Base::swap(other);
    store_.swap(other.store_);
    table_of_pages_.swap(other.table_of_pages_);
  }

  std::shared_ptr<detail::PageStore<S>> store_;
  std::vector<Index> table_of_pages_;  // page of block b
};

/// The paged cache with the layer's own element type as storage; a name only, until a layer rebinds it.
template <>
class PagedCache<void> : public detail::Unbound<PolicyKind::cache, PagedCache> {};

static_assert(KeyValueCache<PagedCache<float>> && KeyValueCache<PagedCache<std::int8_t>>);

}  // namespace lockstep
