// The report's lines of policies: each beside plain causal attention in a contiguous float cache, per visible work, or
// beside a layer without it.
#include <array>
#include <optional>

#include "attended.hpp"
#include "lockstep/attention.hpp"
#include "lockstep/bias/distance.hpp"
#include "lockstep/cache/paged.hpp"
#include "lockstep/cache/ring.hpp"
#include "lockstep/kernel/tiled.hpp"
#include "lockstep/logit/soft_cap.hpp"
#include "lockstep/mask/causal.hpp"
#include "lockstep/norm/qk_norm.hpp"
#include "lockstep/position/rope.hpp"
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

/// Decode over a ring, long after it has come round, beside as many keys in contiguous caches.
Entry ring_decode() {
  return {"policy_ring_decode", {"/plain"}, [](Report& report, const Entry& entry) {
            constexpr ls::CacheShape cache_shape{8, 128, 128};
            constexpr Index window = 4096, bytes = Index{2} * 8 * 128 * window * 4;
            const Index count = ls::ceil_div(beyond_cache(), bytes);
            const Contiguous plain_caches = filled<float>(count, cache_shape, window);
            std::vector<ls::RingCache<float>> rings{{cache_shape, {.window = window, .slack = 508}}};
            fill(rings.front(), 2 * window + 300, 1);
            while (static_cast<Index>(rings.size()) < count) rings.push_back(rings.front());
            ls::AttendOptions<float, ls::SlidingWindow> options;
            options.mask = ls::SlidingWindow{window};
            UnderPolicies<ls::RingCache<float>, ls::SlidingWindow> work(rings, 1, 32, options);
            UnderPolicies<ls::ContiguousCache<float>, ls::Causal> plain(plain_caches, 1, 32);
            report.check(work.right());
            Gauge contiguous([&] { plain.run(); }, 1);
            report.compare(entry, Gauge([&] { work.run(); }, 1), {{"/plain", &contiguous}});
          }};
}

/// A draft tree of 16 nodes over a context, beside a chunk of 16 tokens.
Entry tree() {
  return {"policy_tree", {"/plain"}, [](Report& report, const Entry& entry) {
            constexpr Index nodes = 16, context = 1024;
            const Contiguous caches = filled<float>(1, shape, context + nodes);
            const auto query = numbers<float>(nodes * heads * shape.head_dim, 3);
            ls::AlignedVector<float> of_tree(query.size()), of_chunk(query.size());
            std::array<Index, nodes> parents{}, chain{};
            for (Index i = 0; i < nodes; ++i) {
              parents[at(i)] = i == 0 ? -1 : (i - 1) / 2;
              chain[at(i)] = i - 1;
            }
            ls::Workspace workspace;
            ls::AttendOptions<float> options;
            options.workspace = &workspace;
            const auto q = ls::View<const float, 3>::contiguous(query.data(), {nodes, heads, shape.head_dim});
            const auto view = [](auto& y) {
              return ls::View<float, 3>::contiguous(y.data(), {nodes, heads, shape.head_dim});
            };
            const auto run_tree = [&](const auto& over) {
              ls::attend_tree(q, over, caches.front(), view(of_tree), options);
            };
            const auto run_chunk = [&] { ls::attend(q, caches.front(), view(of_chunk), options); };
            run_tree(chain);
            run_chunk();
            report.check(same_bits(of_tree, of_chunk));
            Gauge chunk(run_chunk, 1);
            report.compare(entry, Gauge([&] { run_tree(parents); }, 1), {{"/plain", &chunk}});
          }};
}

/// A layer under Policies, beside one without any: 64 tokens through projections of a small model.
template <class... Policies>
using SmallLayer = ls::Attention<float, 14, 2, Policies...>;
template <class... Policies, class... Values>
Entry layer(const std::string& name, const Values&... values) {
  return {name, {"/plain"}, [=](Report& report, const Entry& entry) {
            constexpr Index hidden = 896, head_dim = 64, tokens = 64;
            const auto numbers_of = numbers<float>(hidden * hidden, 7);
            const auto matrix = [&](Index out) {
              return ls::View<const float, 2>::contiguous(numbers_of.data(), {out, hidden});
            };
            const ls::LayerShape layer_shape{.hidden = hidden, .head_dim = head_dim};
            const ls::LayerWeights<float> weights{
                .query = matrix(hidden), .key = matrix(128), .value = matrix(128), .output = matrix(hidden)};
            const SmallLayer<Policies...> layer(layer_shape, weights, values...);
            const SmallLayer<> plain(layer_shape, weights);
            const auto x = numbers<float>(tokens * hidden, 8);
            const auto in = ls::View<const float, 2>::contiguous(x.data(), {tokens, hidden});
            ls::AlignedVector<float> y(x.size()), last(at(hidden));
            const auto out = ls::View<float, 2>::contiguous(y.data(), {tokens, hidden});
            auto cache = layer.make_cache(tokens);
            layer.forward(in, out);
            layer.forward(in.part(0, 0, tokens - 1), cache, out.part(0, 0, tokens - 1));
            layer.forward(in.part(0, tokens - 1, 1), cache, ls::View<float, 2>::contiguous(last.data(), {1, hidden}));
            report.check(same_bits({y.end() - hidden, y.end()}, last));
            Gauge without([&] { plain.forward(in, out); }, 1);
            report.compare(entry, Gauge([&] { layer.forward(in, out); }, 1), {{"/plain", &without}});
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
  const ls::RopeTable<float> rope({.rotary_dim = 64, .base = 1e6, .positions = 64});
  const auto ones = ls::AlignedVector<float>(64, 1.0F);
  const auto one = ls::View<const float, 1>::contiguous(ones.data(), {64});
  const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> norm(one, one);
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
      ring_decode(),
      tree(),
      layer<ls::Rope<ls::HalfSplit>>("policy_rope_layer", rope),
      layer<ls::Rope<ls::HalfSplit>, ls::QkNorm<>>("policy_qk_norm_layer", rope, norm),
  };
}

}  // namespace bench
