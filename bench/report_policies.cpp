// The report's lines of policies: each beside plain causal attention in a contiguous float cache, per visible work.
#include <array>
#include <optional>

#include "attended.hpp"
#include "lockstep/bias/alibi.hpp"
#include "lockstep/cache/paged.hpp"
#include "lockstep/kernel/tiled.hpp"
#include "lockstep/logit/soft_cap.hpp"
#include "lockstep/mask/sliding_window.hpp"
#include "lockstep/sinks/learned.hpp"
#include "report.hpp"

namespace bench {

namespace {

/// Queries at the end of each of some caches in turn.
template <class Cache, class... Policies>
class UnderPolicies {
 public:
  using C = ls::compute_t<typename Cache::Storage>;
  using Options = ls::AttendOptions<C, Policies...>;

  UnderPolicies(const std::vector<Cache>& caches, Index q_len, Index heads, Options options = {})
      : caches_(caches), q_len_(q_len), heads_(heads), options_(std::move(options)) {
    options_.workspace = &workspace_;
    query_ = numbers<C>(q_len * heads * shape().head_dim, 3);
    context_.resize(at(q_len * heads * shape().v_head_dim));
  }
  UnderPolicies(const UnderPolicies&) = delete;
  UnderPolicies& operator=(const UnderPolicies&) = delete;

  void run() {
    for (const Cache& cache : caches_) run(cache);
  }
  /// Whether the last rows have the bits of the specification.
  bool right() {
    run(caches_.front());
    const Index rows = q_len_ < 2 ? q_len_ : 2, first = q_len_ - rows;
    const Index width = heads_ * shape().v_head_dim;
    ls::AttendOptions<C, Policies..., ls::Specification> options;
    options.mask = options_.mask;
    options.logits = options_.logits;
    options.bias = options_.bias;
    options.sinks = options_.sinks;
    ls::AlignedVector<C> expected(at(rows * width));
    ls::attend<Policies..., ls::Specification>(
        ls::View<const C, 3>::contiguous(query_.data() + first * heads_ * shape().head_dim,
                                         {rows, heads_, shape().head_dim}),
        caches_.front(), ls::View<C, 3>::contiguous(expected.data(), {rows, heads_, shape().v_head_dim}), options);
    return same_bits({context_.begin() + first * width, context_.end()}, expected);
  }

 private:
  ls::CacheShape shape() const noexcept { return caches_.front().shape(); }
  void run(const Cache& cache) {
    ls::attend<Policies...>(ls::View<const C, 3>::contiguous(query_.data(), {q_len_, heads_, shape().head_dim}), cache,
                            ls::View<C, 3>::contiguous(context_.data(), {q_len_, heads_, shape().v_head_dim}),
                            options_);
  }

  const std::vector<Cache>& caches_;
  Index q_len_, heads_;
  Options options_;
  ls::AlignedVector<C> query_, context_;
  ls::Workspace workspace_;
};

using Contiguous = std::vector<ls::ContiguousCache<float>>;

template <class S>
std::vector<ls::ContiguousCache<S>> filled(Index count, ls::CacheShape shape, Index length) {
  std::vector<ls::ContiguousCache<S>> caches;
  caches.reserve(at(count));
  caches.emplace_back(shape, length);
  fill(caches.front(), length, 1);
  while (static_cast<Index>(caches.size()) < count) caches.push_back(caches.front());
  return caches;
}

/// Caches of one pool whose pages are interleaved, as sequences that grow together have them.
struct Paged {
  Paged(Index count, ls::CacheShape shape, Index length) : pool(shape, count * ls::ceil_div(length, ls::block_keys)) {
    for (Index i = 0; i < count; ++i) caches.emplace_back(pool, length);
    for (Index done = 0; done < length; done += ls::block_keys)
      for (auto& cache : caches) fill(cache, length - done < ls::block_keys ? length - done : ls::block_keys, 1);
  }
  ls::PagePool<float> pool;
  std::vector<ls::PagedCache<float>> caches;
};

constexpr ls::CacheShape shape{2, 128, 128};
constexpr Index heads = 8;

/// Prefill of q_len tokens under Policies, which leave `flops` to do, beside plain causal prefill of as many tokens.
/// `per_work`: rates of visible work; else of tokens.
template <class... Policies, class MakeOptions>
Entry prefill(const std::string& name, Index q_len, double flops, bool per_work, MakeOptions make_options) {
  return {name, {"/plain"}, [=](Report& report, const Entry& entry) {
            const Contiguous caches = filled<float>(1, shape, q_len);
            UnderPolicies<ls::ContiguousCache<float>, Policies...> work(caches, q_len, heads, make_options());
            UnderPolicies<ls::ContiguousCache<float>, ls::Causal> plain(caches, q_len, heads);
            report.check(work.right());
            const double all = causal_flops(q_len, q_len, heads, shape.head_dim);
            Gauge causal([&] { plain.run(); }, per_work ? all : 1);
            report.compare(entry, Gauge([&] { work.run(); }, per_work ? flops : 1), {{"/plain", &causal}});
          }};
}

/// FLOP of rows that see `window` keys at most.
double window_flops(Index q_len, Index window) {
  const auto full = static_cast<double>(q_len - window);
  return causal_flops(window, window, heads, shape.head_dim) +
         4 * static_cast<double>(heads * shape.head_dim) * full * static_cast<double>(window);
}

Entry paged(const std::string& name, Index q_len, Index length, ls::CacheShape cache_shape, Index query_heads,
            Index count) {
  return {name, {"/plain"}, [=](Report& report, const Entry& entry) {
            const Contiguous plain_caches = filled<float>(count, cache_shape, length);
            const Paged paged_caches(count, cache_shape, length);
            UnderPolicies<ls::PagedCache<float>, ls::Causal> work(paged_caches.caches, q_len, query_heads);
            UnderPolicies<ls::ContiguousCache<float>, ls::Causal> plain(plain_caches, q_len, query_heads);
            report.check(work.right());
            Gauge contiguous([&] { plain.run(); }, 1);
            report.compare(entry, Gauge([&] { work.run(); }, 1), {{"/plain", &contiguous}});
          }};
}

/// Tokens a second from int8 caches beside those from float caches, both far beyond the last-level cache.
Entry int8_decode() {
  return {"policy_int8_decode", {"/plain"}, [](Report& report, const Entry& entry) {
            constexpr ls::CacheShape cache_shape{8, 128, 128};
            constexpr Index length = 32768, bytes = 2 * 8 * 128 * length;
            const auto codes = filled<std::int8_t>(ls::ceil_div(beyond_cache(), bytes), cache_shape, length);
            const auto floats = filled<float>(ls::ceil_div(beyond_cache(), 4 * bytes), cache_shape, length);
            UnderPolicies<ls::ContiguousCache<std::int8_t>, ls::Causal> work(codes, 1, 32);
            UnderPolicies<ls::ContiguousCache<float>, ls::Causal> plain(floats, 1, 32);
            report.check(work.right());
            Gauge tokens([&] { plain.run(); }, static_cast<double>(floats.size()));
            report.compare(entry, Gauge([&] { work.run(); }, static_cast<double>(codes.size())), {{"/plain", &tokens}});
          }};
}

}  // namespace

std::vector<Entry> policy_entries() {
  const double all = causal_flops(2048, 2048, heads, shape.head_dim);
  using Float = float;
  const auto sinks = [] {
    static const std::array<Float, heads> logits{1, -1, 0.5, 2, 0, -3, 1.5, 0.25};
    ls::AttendOptions<Float, ls::Causal, ls::LearnedSinks<>> options;
    options.sinks = ls::LearnedSinks<Float>(ls::View<const Float, 1>(logits));
    return options;
  };
  const auto alibi = [] {
    ls::AttendOptions<Float, ls::Causal, ls::Alibi<>> options;
    options.bias = ls::Alibi<Float>(heads);
    return options;
  };
  const auto cap = [] {
    ls::AttendOptions<Float, ls::Causal, ls::SoftCap> options;
    options.logits = ls::SoftCap{.cap = 50};
    return options;
  };
  const auto window = [] {
    ls::AttendOptions<Float, ls::SlidingWindow> options;
    options.mask = ls::SlidingWindow{1024};
    return options;
  };
  return {
      prefill<ls::Causal, ls::SoftCap>("policy_softcap", 2048, all, true, cap),
      prefill<ls::Causal, ls::Alibi<>>("policy_alibi", 2048, all, true, alibi),
      prefill<ls::SlidingWindow>("policy_window", 4096, window_flops(4096, 1024), true, window),
      prefill<ls::SlidingWindow>("policy_window_t8192_time", 8192, 1, false, window),
      prefill<ls::Causal, ls::LearnedSinks<>>("policy_sink", 2048, all, true, sinks),
      paged("policy_paged", 2048, 2048, shape, heads, 1),
      paged("policy_paged_decode", 1, 8192, {8, 128, 128}, 32,
            ls::ceil_div(beyond_cache(), Index{2} * 8 * 128 * 8192 * 4)),
      int8_decode(),
  };
}

}  // namespace bench
