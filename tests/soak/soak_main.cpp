// A server as a seeded simulation: sequences join, fork, roll back, are preempted and leave a pool of pages in random
// order, in ragged batches of prompts and single tokens, and keep the bits that they have alone.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "golden/bits.hpp"
#include "kernel_instances.hpp"

namespace {
std::atomic<long> live{0};

[[maybe_unused]] void* take(std::size_t bytes, std::size_t alignment) {
  void* memory = alignment == 0 ? std::malloc(bytes == 0 ? 1 : bytes)
                                : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}
[[maybe_unused]] void give_back(void* memory) noexcept {
  if (memory != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}
}  // namespace

// Counted, so that what is left at the end shows. The other forms end in these. The sanitizers have their own.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define LOCKSTEP_SANITIZED 1
#endif
#endif
#if !defined(LOCKSTEP_SANITIZED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t bytes) { return take(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }
#endif

namespace {

namespace ls = lockstep;
using bits::at;
using ls::Index;

constexpr int exit_failed = 1, exit_usage = 2;
constexpr const char* usage =
    "usage: lockstep_soak [--steps N] [--seconds N] [--seed N]\n"
    "  --steps N    steps of each engine (default 300; 0: no end but that of --seconds)\n"
    "  --seconds N  ends after so many seconds, where steps do not end it before (default 600)\n"
    "  --seed N     which simulation (default 1); with steps alone the same one every time, but for the threads\n";

using Layer = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, ls::PagedCache<float>, ls::Hook>;
using Cache = Layer::Cache;

constexpr ls::LayerShape shape{.hidden = 16, .head_dim = 8, .v_head_dim = 8, .heads = 4, .kv_heads = 2};
constexpr Index most_tokens = 1200, vocabulary = 97, pool_pages = 70;
constexpr std::size_t most_running = 60;
/// One in so many results is compared with a full forward.
constexpr long check_every = 50;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "lockstep_soak: %s\n", what.c_str());
  std::_Exit(exit_failed);
}

/// One thread that helps its owner with tasks.
class Helper {
 public:
  Helper() : thread_([this] { work(); }) {}
  ~Helper() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  ls::Hook hook() { return {&Helper::run, this, 2, 0}; }  // small work too

 private:
  static void run(void* self, Index n, ls::Hook::Task task, void* argument) {
    Helper& helper = *static_cast<Helper*>(self);
    {
      const std::lock_guard lock(helper.mutex_);
      helper.task_ = task;
      helper.argument_ = argument;
      helper.left_ = n - 1;
    }
    helper.changed_.notify_all();
    task(argument, 0);
    std::unique_lock lock(helper.mutex_);
    helper.changed_.wait(lock, [&helper] { return helper.left_ == 0; });
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || left_ > 0; });
      if (ends_) return;
      const Index i = left_;
      lock.unlock();
      task_(argument_, i);
      lock.lock();
      --left_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  ls::Hook::Task task_ = nullptr;
  void* argument_ = nullptr;
  Index left_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

/// A sequence: what is cached are the first of its tokens, and `results` are the rows that came out for these.
struct Sequence {
  Cache cache;
  std::vector<Index> tokens{};   // prompt, then what was decoded
  std::vector<float> results{};  // [cache.length(), hidden]
  Index wanted = 0;              // tokens in all
  std::string saved{};           // while it is swapped out
};

/// What all engines share: a layer, a pool, prefixes, and sequences handed from one to the other.
class Server {
 public:
  Server(std::uint64_t seed, const ls::Hook& hook)
      : weights(shape, seed, true, 0.5),
        layer(shape, weights.views(), ls::RopeTable<float>({.rotary_dim = 8, .positions = most_tokens}), hook),
        pool(layer.cache_shape(), pool_pages),
        rows_(bits::numbers<float>(vocabulary * shape.hidden, seed + 100)) {}

  const float* row(Index token) const { return rows_.data() + token * shape.hidden; }
  Cache cache() const { return layer.make_cache(most_tokens, pool); }

  void hand_over(Sequence sequence) {
    const std::lock_guard lock(mutex_);
    handed_.push_back(std::move(sequence));
  }
  std::optional<Sequence> receive() {
    const std::lock_guard lock(mutex_);
    if (handed_.empty()) return {};
    std::optional<Sequence> first(std::move(handed_.front()));
    handed_.pop_front();
    return first;
  }

  const bits::Weights<float> weights;
  const Layer layer;
  const ls::PagePool<float> pool;

 private:
  std::vector<float> rows_;
  std::mutex mutex_;
  std::deque<Sequence> handed_;
};

struct Counts {
  long steps = 0, rows = 0, joined = 0, forked = 0, rolled_back = 0, preempted = 0, swapped = 0, left = 0, received = 0,
       out_of_pages = 0, results = 0, checked = 0;
  Counts& operator+=(const Counts& c) {
    steps += c.steps, rows += c.rows, joined += c.joined, forked += c.forked, rolled_back += c.rolled_back;
    preempted += c.preempted, swapped += c.swapped, left += c.left, received += c.received;
    out_of_pages += c.out_of_pages, results += c.results, checked += c.checked;
    return *this;
  }
};

/// The bytes of a row as a number: the next token depends on every bit that came out.
std::uint64_t number_of(const float* row) {
  bits::Hash hash;
  hash.add(std::vector<float>(row, row + shape.hidden));
  return hash.value();
}

class Engine {
 public:
  Engine(Server& server, std::uint64_t seed, std::vector<Sequence> prefixes)
      : server_(server), random_(seed), prefixes_(std::move(prefixes)) {}

  /// Runs until `ends(steps)`, then lets all sequences leave.
  template <class Ends>
  void run(Ends&& ends) {
    while (!ends(counts_.steps)) step();
    running_.clear();
    prefixes_.clear();
    while (server_.receive()) ++counts_.left;
  }
  const Counts& counts() const { return counts_; }

 private:
  void step() {
    ++counts_.steps;
    if (running_.size() < most_running && !random_.one_in(4)) join();
    if (std::optional<Sequence> sequence; random_.one_in(4) && (sequence = server_.receive())) {
      ++counts_.received;
      running_.push_back(std::move(*sequence));
    }
    if (!running_.empty()) {
      switch (random_.below(12)) {
        case 0:
          fork();
          break;
        case 1:
          roll_back();
          break;
        case 2:
          preempt(any());
          break;
        case 3:
          swap_out();
          break;
        case 4:
          leave(any());
          break;
        case 5:
          hand_over();
          break;
        default:
          break;
      }
    }
    forward();
    for (std::size_t s = running_.size(); s-- > 0;)
      if (running_[s].cache.length() == running_[s].wanted) leave(s);
  }

  std::size_t any() { return at(random_.below(static_cast<Index>(running_.size()))); }

  void join() {
    ++counts_.joined;
    Sequence s{server_.cache()};
    if (!prefixes_.empty() && random_.one_in(2)) {
      const Sequence& prefix = prefixes_[at(random_.below(static_cast<Index>(prefixes_.size())))];
      s = forked(prefix, random_.one_in(2) ? prefix.cache.length() : random_.below(prefix.cache.length() + 1));
    }
    const Index prompt = random_.one_in(4) ? random_.below(400) : random_.below(40);
    for (Index i = 0; i <= prompt; ++i) s.tokens.push_back(random_.below(vocabulary));
    s.wanted = std::min(most_tokens, static_cast<Index>(s.tokens.size()) + 1 + random_.below(60));
    running_.push_back(std::move(s));
  }
  static Sequence forked(const Sequence& origin, Index length) {
    return {origin.cache.fork(length),
            {origin.tokens.begin(), origin.tokens.begin() + length},
            {origin.results.begin(), origin.results.begin() + length * shape.hidden},
            origin.wanted};
  }
  void fork() {
    const Sequence& origin = running_[any()];
    if (running_.size() >= most_running) return;
    ++counts_.forked;
    Sequence s = forked(origin, random_.below(origin.cache.length() + 1));
    s.tokens.push_back(random_.below(vocabulary));  // another choice than the origin's, mostly
    s.wanted = std::min(most_tokens, static_cast<Index>(s.tokens.size()) + 1 + random_.below(60));
    running_.push_back(std::move(s));
  }
  void roll_back() {
    Sequence& s = running_[any()];
    const Index length = random_.below(s.cache.length() + 1);
    if (length == s.cache.length()) return;
    ++counts_.rolled_back;
    s.cache.truncate(length);
    s.results.resize(at(length * shape.hidden));
    s.tokens.resize(at(length));
    s.tokens.push_back(random_.below(vocabulary));
  }
  /// Its pages go back; it is computed again.
  void preempt(std::size_t which) {
    ++counts_.preempted;
    Sequence& s = running_[which];
    s.cache.clear();
    s.saved.clear();
    s.results.clear();
  }
  /// Its pages go back; its cache comes back from a stream.
  void swap_out() {
    Sequence& s = running_[any()];
    if (s.cache.length() == 0) return;
    ++counts_.swapped;
    std::ostringstream out;
    ls::save_cache(s.cache, out);
    s.saved = out.str();
    s.cache.clear();
  }
  /// Whether a sequence has its cache again.
  bool swap_in(Sequence& s) {
    if (s.saved.empty()) return true;
    std::istringstream in(s.saved);
    try {
      ls::restore_cache(s.cache, in);
    } catch (const std::length_error&) {
      ++counts_.out_of_pages;
      return false;
    }
    s.saved.clear();
    return true;
  }
  void leave(std::size_t which) {
    ++counts_.left;
    std::swap(running_[which], running_.back());
    running_.pop_back();
  }
  /// To whatever engine takes it.
  void hand_over() {
    const std::size_t which = any();
    std::swap(running_[which], running_.back());
    server_.hand_over(std::move(running_.back()));
    running_.pop_back();
  }

  /// Some sequences go on, with a part of their prompt or with one token.
  void forward() {
    std::vector<Sequence*> batch;
    std::vector<Cache*> caches;
    std::vector<Index> lengths;
    std::vector<float> x;
    const Index most = 1 + random_.below(24);
    const std::size_t from = running_.empty() ? 0 : any();
    for (std::size_t i = 0; i < running_.size() && static_cast<Index>(batch.size()) < most; ++i) {
      Sequence& s = running_[(from + i) % running_.size()];
      if (!swap_in(s)) continue;
      const Index done = s.cache.length(), ready = static_cast<Index>(s.tokens.size()) - done;
      const Index rows = std::min({ready, s.wanted - done, 1 + random_.below(random_.one_in(3) ? 300 : 8)});
      for (Index t = done; t < done + rows; ++t) {
        const float* row = server_.row(s.tokens[at(t)]);
        x.insert(x.end(), row, row + shape.hidden);
      }
      batch.push_back(&s);
      caches.push_back(&s.cache);
      lengths.push_back(rows);
    }
    const Index rows = static_cast<Index>(x.size()) / shape.hidden;
    if (batch.empty()) return;
    std::vector<Index> before;
    for (const Cache* cache : caches) before.push_back(cache->length());
    std::vector<float> y(x.size());
    try {
      server_.layer.forward(ls::View<const float, 2>::contiguous(x.data(), {rows, shape.hidden}), caches,
                            ls::View<float, 2>::contiguous(y.data(), {rows, shape.hidden}), {.lengths = lengths});
    } catch (const std::length_error&) {
      ++counts_.out_of_pages;
      for (std::size_t i = 0; i < caches.size(); ++i)
        if (caches[i]->length() != before[i]) fail("a forward that ran out of pages left tokens in a cache");
      for (Index i = 0; i < 3; ++i) random_.one_in(2) ? preempt(any()) : leave_one();
      return;
    }
    counts_.rows += rows;
    const float* out = y.data();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Sequence& s = *batch[i];
      s.results.insert(s.results.end(), out, out + lengths[i] * shape.hidden);
      out += lengths[i] * shape.hidden;
      const Index done = s.cache.length();
      if (done != before[i] + lengths[i]) fail("a cache has another length than the rows it got");
      if (done == static_cast<Index>(s.tokens.size()) && done < s.wanted)
        s.tokens.push_back(static_cast<Index>(number_of(out - shape.hidden) % vocabulary));
      if (++counts_.results % check_every == 0) check(s);
    }
  }
  void leave_one() {
    if (running_.size() > 1) leave(any());
  }

  /// All rows of a sequence so far, against a full forward.
  void check(const Sequence& s) {
    ++counts_.checked;
    const Index tokens = s.cache.length();
    std::vector<float> x, y(at(tokens * shape.hidden));
    for (Index t = 0; t < tokens; ++t) {
      const float* row = server_.row(s.tokens[at(t)]);
      x.insert(x.end(), row, row + shape.hidden);
    }
    server_.layer.forward(ls::View<const float, 2>::contiguous(x.data(), {tokens, shape.hidden}),
                          ls::View<float, 2>::contiguous(y.data(), {tokens, shape.hidden}));
    if (!bits::same_bits(y, s.results))
      fail("a sequence of " + std::to_string(tokens) + " tokens has other bits than a full forward, in step " +
           std::to_string(counts_.steps));
  }

  Server& server_;
  bits::Integers random_;
  std::vector<Sequence> prefixes_, running_;
  Counts counts_;
};

/// Common beginnings, of lengths on both sides of a page's end.
std::vector<Sequence> prefixes(const Server& server, std::uint64_t seed) {
  bits::Integers random(seed);
  std::vector<Sequence> result;
  for (const Index tokens : {256, 300, 511, 40}) {
    Sequence s{server.cache()};
    std::vector<float> x;
    for (Index t = 0; t < tokens; ++t) {
      s.tokens.push_back(random.below(vocabulary));
      x.insert(x.end(), server.row(s.tokens.back()), server.row(s.tokens.back()) + shape.hidden);
    }
    s.results.resize(x.size());
    server.layer.forward(ls::View<const float, 2>::contiguous(x.data(), {tokens, shape.hidden}), s.cache,
                         ls::View<float, 2>::contiguous(s.results.data(), {tokens, shape.hidden}));
    result.push_back(std::move(s));
  }
  return result;
}

struct Arguments {
  long steps = 300;
  double seconds = 600;
  std::uint64_t seed = 1;
};

/// One engine whose layer has two threads, or two engines that share a pool.
Counts simulate(const Arguments& arguments, int engines) {
  std::optional<Helper> helper;
  if (engines == 1) helper.emplace();
  Counts sum;
  Server server(arguments.seed, helper ? helper->hook() : ls::Hook());
  {
    std::vector<std::unique_ptr<Engine>> all;
    {
      const std::vector<Sequence> common = prefixes(server, arguments.seed);
      for (int e = 0; e < engines; ++e)
        all.push_back(std::make_unique<Engine>(server, arguments.seed * 100 + static_cast<std::uint64_t>(e), common));
    }
    const auto start = std::chrono::steady_clock::now();
    const auto ends = [&](long steps) {
      return (arguments.steps > 0 && steps >= arguments.steps) ||
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= arguments.seconds;
    };
    std::vector<std::thread> threads;
    for (const auto& engine : all) threads.emplace_back([&engine, &ends] { engine->run(ends); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& engine : all) sum += engine->counts();
    while (server.receive()) ++sum.left;
  }
  if (server.pool.free_pages() != server.pool.pages())
    fail(std::to_string(server.pool.pages() - server.pool.free_pages()) + " pages did not come back");
  return sum;
}

void report(int engines, const Counts& c) {
  std::printf(
      "%d engine(s): %ld steps, %ld rows, %ld joined, %ld forked, %ld rolled back, %ld preempted, %ld swapped out, "
      "%ld received, %ld left, %ld times out of pages, %ld results, %ld checked\n",
      engines, c.steps, c.rows, c.joined, c.forked, c.rolled_back, c.preempted, c.swapped, c.received, c.left,
      c.out_of_pages, c.results, c.checked);
  std::fflush(stdout);
  if (c.checked == 0 || c.out_of_pages == 0) fail("too few steps to say anything");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (value != nullptr && name == "--steps")
      arguments.steps = std::strtol(value, nullptr, 10);
    else if (value != nullptr && name == "--seconds")
      arguments.seconds = std::strtod(value, nullptr);
    else if (value != nullptr && name == "--seed")
      arguments.seed = std::strtoull(value, nullptr, 10);
    else {
      std::fputs(usage, stderr);
      return exit_usage;
    }
  }
  arguments.seconds /= 2;
  try {
    for (const int engines : {1, 2}) {
      simulate({.steps = 3, .seconds = 600, .seed = 1}, engines);  // what a program takes for good, it takes now
      const long before = live.load();
      const Counts counts = simulate(arguments, engines);
      report(engines, counts);
      if (live.load() != before) fail(std::to_string(live.load() - before) + " pieces of memory are left");
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
  return 0;
}
