// The report's lines of attention proper: prefill, chunk, decode, two threads, the latency of one call.
#include "attended.hpp"
#include "lockstep/executor/hook.hpp"
#include "lockstep/executor/thread_pool.hpp"
#include "lockstep/kernel/tiled.hpp"
#include "report.hpp"
#include "spinning_threads.hpp"

namespace bench {

namespace {

/// Queries against each of some caches in turn: what one leaves behind in the CPU's caches is gone when its turn comes
/// again.
template <class S, class Executor>
class InTurn {
 public:
  InTurn(const std::vector<ls::ContiguousCache<S>>& caches, Index q_len, Index heads, Executor executor)
      : caches_(caches), call_(1, q_len, heads, caches.front().shape(), options(executor)) {}
  void run() {
    for (const auto& cache : caches_) call_.run(cache);
  }
  bool right() {
    call_.run(caches_.front());
    return call_.right(caches_.front());
  }

 private:
  using Call = Attended<S, ls::Causal, ls::Tiled, Executor>;
  static typename Call::Options options(Executor executor) {
    typename Call::Options options;
    options.executor = executor;
    return options;
  }
  const std::vector<ls::ContiguousCache<S>>& caches_;
  Call call_;
};

template <class S>
std::vector<ls::ContiguousCache<S>> caches_of(Index count, Index kv_heads, Index head_dim, Index length) {
  std::vector<ls::ContiguousCache<S>> caches;
  caches.reserve(at(count));
  caches.emplace_back(ls::CacheShape{kv_heads, head_dim, head_dim}, length);
  fill(caches.front(), length, 1);
  while (static_cast<Index>(caches.size()) < count) caches.push_back(caches.front());
  return caches;
}

constexpr Index prefill_heads = 8, prefill_kv_heads = 2;

Entry prefill(const std::string& name, Index head_dim, Index q_len, Index past, std::vector<std::string> units) {
  return {name, std::move(units), [=](Report& report, const Entry& entry) {
            const auto caches = caches_of<float>(1, prefill_kv_heads, head_dim, past + q_len);
            InTurn<float, ls::Serial> work(caches, q_len, prefill_heads, {});
            report.check(work.right());
            report.compare(entry,
                           Gauge([&] { work.run(); }, causal_flops(q_len, past + q_len, prefill_heads, head_dim)),
                           {{"/sgemm", &report.sgemm()}, {"/fma", &report.fma()}});
          }};
}

/// Caches for decode, together far larger than the last-level cache; kept while lines ask for the same ones.
template <class S>
class DecodeCaches {
 public:
  static constexpr Index kv_heads = 8, head_dim = 128;
  static constexpr Index bytes(Index length) {
    return 2 * kv_heads * head_dim * length * static_cast<Index>(sizeof(S));
  }

  const std::vector<ls::ContiguousCache<S>>& of(Index length) {
    if (length != length_) {
      caches_.clear();
      caches_ = caches_of<S>(ls::ceil_div(beyond_cache(), bytes(length)), kv_heads, head_dim, length);
      length_ = length;
    }
    return caches_;
  }
  void release() {
    caches_.clear();
    length_ = 0;
  }

 private:
  std::vector<ls::ContiguousCache<S>> caches_;
  Index length_ = 0;
};

struct Shared {
  DecodeCaches<float> float_caches;
  DecodeCaches<Eigen::bfloat16> bfloat16_caches;
  template <class S>
  DecodeCaches<S>& caches() {
    if constexpr (std::same_as<S, float>) {
      bfloat16_caches.release();
      return float_caches;
    } else {
      float_caches.release();
      return bfloat16_caches;
    }
  }
};

template <class S>
Entry decode(std::shared_ptr<Shared> shared, const std::string& name, Index group_size, Index length) {
  return {name, {"/stream"}, [=](Report& report, const Entry& entry) {
            using Caches = DecodeCaches<S>;
            const auto& caches = shared->caches<S>().of(length);
            InTurn<S, ls::Serial> work(caches, 1, group_size * Caches::kv_heads, {});
            report.check(work.right());
            const auto bytes = static_cast<double>(caches.size()) * static_cast<double>(Caches::bytes(length));
            report.compare(entry, Gauge([&] { work.run(); }, bytes), {{"/stream", &report.stream()}});
          }};
}

/// The same work on two threads and on one.
template <class Executor>
void compare_threads(Report& report, const Entry& entry, const std::vector<ls::ContiguousCache<float>>& caches,
                     Index q_len, Index heads, Executor two_threads) {
  InTurn<float, Executor> work(caches, q_len, heads, two_threads);
  InTurn<float, ls::Serial> alone(caches, q_len, heads, {});
  report.check(work.right());
  Gauge one([&] { alone.run(); }, 1, Clock::wall);
  report.compare(entry, Gauge([&] { work.run(); }, 1, Clock::wall), {{"/one_thread", &one}});
}

template <class Caches>
std::vector<Entry> threads_entries(const std::string& name, Index q_len, Index heads, Caches caches) {
  return {{name,
           {"/one_thread"},
           [=](Report& report, const Entry& entry) {
             SpinningThreads threads(2);
             compare_threads(report, entry, caches(), q_len, heads, threads.executor());
           }},
          {name + "_pool", {"/one_thread"}, [=](Report& report, const Entry& entry) {
             Eigen::ThreadPool pool(1);
             compare_threads(report, entry, caches(), q_len, heads, ls::ThreadPool(pool));
           }}};
}

/// A limit with two threads over the same with one, which bounds what two can do for decode or prefill.
template <class LimitOf>
Entry limit_of_two(const std::string& name, LimitOf limit_of) {
  return {name, {"/one_thread"}, [=](Report& report, const Entry& entry) {
            SpinningThreads threads(2);
            Gauge one = limit_of(report, ls::Serial{});
            report.compare(entry, limit_of(report, threads.executor()), {{"/one_thread", &one}});
          }};
}

Entry latency() {
  return {"decode_s1_latency", {"us"}, [](Report& report, const Entry& entry) {
            const auto caches = caches_of<float>(1, 2, 64, 1);
            InTurn<float, ls::Serial> work(caches, 1, 14, {});
            report.check(work.right());
            Gauge calls([&] { work.run(); }, 1);
            report.absolute(entry, calls, [](double rate) { return 1e6 / rate; });
          }};
}

}  // namespace

std::vector<Entry> attention_entries() {
  const std::vector<std::string> both{"/sgemm", "/fma"};
  const auto shared = std::make_shared<Shared>();
  std::vector<Entry> entries{
      prefill("prefill_d128_t2048", 128, 2048, 0, both),       prefill("prefill_d64_t2048", 64, 2048, 0, both),
      prefill("prefill_d128_t512", 128, 512, 0, both),         prefill("prefill_d64_t512", 64, 512, 0, both),
      prefill("chunk256_past3840_d128", 128, 256, 3840, both), latency(),
      decode<float>(shared, "decode_g4_d128_s1024", 4, 1024),  decode<float>(shared, "decode_g4_d128_s32768", 4, 32768),
      decode<float>(shared, "decode_g4_d128_s8192", 4, 8192),  decode<float>(shared, "decode_g8_d128_s8192", 8, 8192),
      decode<float>(shared, "decode_g1_d128_s8192", 1, 8192),
  };
  const auto add = [&entries](const std::vector<Entry>& more) {
    entries.insert(entries.end(), more.begin(), more.end());
  };
  add({limit_of_two("threads2_fma",
                    [](Report&, auto executor) { return fma_limit(ls::instruction_set(), Clock::wall, executor); }),
       limit_of_two("threads2_stream",
                    [](Report& report, auto executor) { return report.buffer().limit<4>(Clock::wall, executor); })});
  add(threads_entries("threads2_decode", 1, 32,
                      [shared]() -> const auto& { return shared->caches<float>().of(8192); }));
  add({decode<Eigen::bfloat16>(shared, "decode_bf16_g4_d128_s8192", 4, 8192)});
  add(threads_entries("threads2_prefill", 2048, prefill_heads,
                      [caches = std::make_shared<std::vector<ls::ContiguousCache<float>>>()]() -> const auto& {
                        if (caches->empty()) *caches = caches_of<float>(1, prefill_kv_heads, 128, 2048);
                        return *caches;
                      }));
  return entries;
}

}  // namespace bench
