// Lockstep below an engine that has everything of its own: projections, threads, memory, errors. Built without
// exceptions and run-time type information.
//
// attend() reads and writes raw pointers with strides, runs on the engine's threads through a Hook, works in the
// engine's memory, and whatever could be refused is asked about first and comes back as a Status.
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/attend.hpp"
#include "lockstep/executor/hook.hpp"

namespace {

namespace ls = lockstep;

// The engine's threads. run() hands out the numbers below n and takes part itself.
class Threads {
 public:
  explicit Threads(int count) {
    for (int i = 0; i < count; ++i) workers_.emplace_back([this] { work(); });
  }
  ~Threads() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  // As a Hook wants it: calls task(argument, i) for every i below n, returns when all have returned.
  static void run(void* self, ls::Index n, ls::Hook::Task task, void* argument) {
    Threads& threads = *static_cast<Threads*>(self);
    std::unique_lock lock(threads.mutex_);
    threads.task_ = task;
    threads.argument_ = argument;
    threads.next_ = 0;
    threads.end_ = threads.unfinished_ = n;
    threads.changed_.notify_all();
    while (threads.take_one(lock)) {
    }
    threads.changed_.wait(lock, [&] { return threads.unfinished_ == 0; });
  }
  ls::Hook hook() { return {&Threads::run, this, static_cast<ls::Index>(workers_.size()) + 1}; }

 private:
  bool take_one(std::unique_lock<std::mutex>& lock) {
    if (next_ == end_) return false;
    const ls::Index i = next_++;
    lock.unlock();
    task_(argument_, i);
    lock.lock();
    if (--unfinished_ == 0) changed_.notify_all();
    return true;
  }
  void work() {
    for (std::unique_lock lock(mutex_); !stop_;)
      if (!take_one(lock)) changed_.wait(lock, [&] { return stop_ || next_ != end_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  ls::Hook::Task task_ = nullptr;
  void* argument_ = nullptr;
  ls::Index next_ = 0, end_ = 0, unfinished_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;  // the last member: they use all the others
};

constexpr ls::Index heads = 8, kv_heads = 2, head_dim = 64, capacity = 600;
constexpr ls::Index row = (heads + 2 * kv_heads) * head_dim;  // q, k and v of a token, as one projection leaves them

// Rows of [heads, head_dim] within rows of q, k and v.
ls::View<const float, 3> part(const float* qkv, ls::Index tokens, ls::Index first_head, ls::Index count) {
  return {qkv + first_head * head_dim, {tokens, count, head_dim}, {row, head_dim, 1}};
}

// One step of the engine: what could be refused is asked first, so that nothing is half done.
ls::Status step(const float* qkv, ls::Index tokens, ls::ContiguousCache<float>& cache, const ls::Hook& hook,
                std::vector<std::byte>& memory, float* context) {
  if (ls::Status s = cache.check_append(tokens); !s.ok()) return s;
  cache.append(part(qkv, tokens, heads, kv_heads), part(qkv, tokens, heads + kv_heads, kv_heads));
  const auto query = part(qkv, tokens, 0, heads);
  const auto out = ls::View<float, 3>::contiguous(context, {tokens, heads, head_dim});
  ls::Workspace workspace(memory.data(), static_cast<ls::Index>(memory.size()));
  const ls::AttendOptions<float, ls::Causal, ls::Hook> options{.executor = hook, .workspace = &workspace};
  const ls::Status s = ls::check_attend<ls::Causal, ls::Hook>(query, cache, out, options);
  if (s.ok())
    ls::attend<ls::Causal, ls::Hook>(query, cache, out, options);
  else
    cache.truncate(cache.length() - tokens);
  return s;
}

bool say(bool ok, const char* what) {
  std::printf("%s: %s\n", what, ok ? "yes" : "NO");
  return ok;
}

}  // namespace

int main() {
  constexpr ls::Index prompt = 500, tokens = 520;
  std::vector<float> qkv(static_cast<std::size_t>(tokens * row));
  for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(i * i % 211) / 100 - 1;
  std::vector<float> context(static_cast<std::size_t>(tokens * heads * head_dim)), alone(context);

  Threads threads(3);
  const ls::CacheShape shape{kv_heads, head_dim, head_dim};
  ls::ContiguousCache<float> cache(shape, capacity), cache_alone(shape, capacity);
  std::vector<std::byte> memory(64), memory_alone(std::size_t{1} << 24);

  // Too little memory is refused with the number that is enough, and the cache is as before.
  const ls::Status small = step(qkv.data(), prompt, cache, threads.hook(), memory, context.data());
  std::printf("%s\n", small.message());
  bool ok = say(!small.ok() && cache.length() == 0, "refused before anything was done");
  memory.resize(std::size_t{1} << 24);

  ls::Status s = step(qkv.data(), prompt, cache, threads.hook(), memory, context.data());
  for (ls::Index i = prompt; s.ok() && i < tokens; ++i)
    s = step(qkv.data() + i * row, 1, cache, threads.hook(), memory, context.data() + i * heads * head_dim);
  ok = say(s.ok(), "prompt and decode on own threads in own memory") && ok;
  s = step(qkv.data(), tokens, cache_alone, ls::Hook(), memory_alone, alone.data());
  ok = s.ok() && ok;
  ok = say(std::memcmp(context.data(), alone.data(), context.size() * sizeof(float)) == 0,
           "every step has the bits of a run without threads") &&
       ok;

  // A full cache is an error as well.
  const ls::Status full = step(qkv.data(), capacity - tokens + 1, cache, threads.hook(), memory, context.data());
  std::printf("%s\n", full.message());
  return say(full.code() == ls::StatusCode::length_error && cache.length() == tokens, "a full cache is refused") && ok
             ? 0
             : 1;
}
