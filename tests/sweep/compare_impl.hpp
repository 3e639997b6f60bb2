// What compare() does, for the one source of each storage type that includes this.
#pragma once

#include <algorithm>
#include <array>
#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <lockstep/kernel/tiled.hpp>
#include <memory>
#include <thread>

#include "compare.hpp"
#include "kernel_instances.hpp"

namespace sweep {

/// A caller's pool that runs tasks on the caller, on the caller in reverse, or each on a thread of its own.
class Pool {
 public:
  explicit Pool(const Configuration& c) : threads_(c.threads), concurrency_(c.concurrency) {}
  ls::Hook hook() { return {&Pool::run, this, concurrency_, 0}; }  // small work too

 private:
  static void run(void* self, Index n, ls::Hook::Task task, void* argument) {
    const Threads threads = static_cast<Pool*>(self)->threads_;
    std::vector<std::thread> running;
    for (Index i = 0; i < n; ++i) {
      const Index which = threads == Threads::reversed ? n - 1 - i : i;
      if (threads == Threads::real)
        running.emplace_back([=] { task(argument, which); });
      else
        task(argument, which);
    }
    for (std::thread& thread : running) thread.join();
  }

  Threads threads_;
  Index concurrency_;
};

/// The host rounds upwards in every second configuration, which shows in no bit, and still does afterwards: so on every
/// architecture that a sweep runs on.
class HostRounding {
 public:
  explicit HostRounding(const Configuration& c) : mode_(c.number % 2 == 0 ? FE_TONEAREST : FE_UPWARD) {
    std::fesetround(mode_);
  }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;
  ~HostRounding() {
    if (std::fegetround() != mode_) {
      std::printf("the host's rounding mode is another one than before\n");
      std::abort();
    }
    std::fesetround(FE_TONEAREST);
  }

 private:
  int mode_;
};

inline double size_of(Numbers numbers) { return numbers == Numbers::large ? 16 : 1; }

/// Now and then something that is no finite number.
template <class T>
void make_wild(std::vector<T>& values, std::uint64_t seed) {
  using Limits = std::numeric_limits<ls::compute_t<T>>;
  Integers random(seed);
  for (Index i = random.below(300); i < static_cast<Index>(values.size()); i += 1 + random.below(3000))
    values[at(i)] = ls::narrow<T>(random.pick(
        {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min(), Limits::max()}));
}

/// Memory for a result, with a pattern in it that shows whatever is written beside the result.
template <class C>
std::vector<C> untouched(Index n) {
  std::vector<C> memory(at(n));
  if (n > 0) std::memset(static_cast<void*>(memory.data()), 0x5A, at(n) * sizeof(C));
  return memory;
}

/// The inputs of an attend(), and the shape of its results.
template <class S>
class Call {
 public:
  using C = ls::compute_t<S>;
  using Cache = ls::ContiguousCache<S>;
  struct Results {
    std::vector<C> context, lse, weights;
  };

  explicit Call(const Configuration& c)
      : c_(c),
        q_row_(c.heads * c.head_dim * c.q_step + c.q_gap),
        context_row_(c.heads * c.v_head_dim * c.context_step + c.context_gap),
        q_(bits::numbers<C>(c.batch() * c.q_len * q_row_, c.number, size_of(c.numbers))) {
    if (c.numbers == Numbers::wild) make_wild(q_, c.number + 1);
    for (Index b = 0; b < c.batch(); ++b)
      caches_.push_back(filled(c.kv_len[at(b)], c.number + 10 * static_cast<std::uint64_t>(b)));
    flags_ = std::make_unique<bool[]>(at(c.batch() * c.longest()));
    for (Index i = 0; i < c.batch() * c.longest(); ++i)
      flags_[at(i)] = c.irregular.visible({.row = 0, .place = c.longest()}, i % 997);
    for (Index b = 0; b < c.batch(); ++b) offsets_.push_back(c.kv_len[at(b)] - c.q_len - 3 + 5 * b);
    for (Index b = 0; b < c.batch(); ++b)
      streams_.push_back(static_cast<std::uint32_t>(c.number) + static_cast<std::uint32_t>(b));
  }

  template <class K, class... Policies>
  Results run(const ls::AttendOptions<C, K, Policies...>& given) const {
    Results r;
    const Index batch = c_.batch(), longest = c_.longest();
    auto options = given;
    r.context = untouched<C>(batch * c_.q_len * context_row_);
    if (c_.lse) {
      r.lse = untouched<C>(batch * c_.heads * c_.q_len);
      options.lse = ls::View<C, 3>::contiguous(r.lse.data(), {batch, c_.heads, c_.q_len});
    }
    if (c_.weights) {
      r.weights = untouched<C>(batch * c_.heads * c_.q_len * longest);
      options.weights = ls::View<C, 4>::contiguous(r.weights.data(), {batch, c_.heads, c_.q_len, longest});
    }
    options.offset = c_.offset;
    ls::attend<K, Policies...>(
        ls::View<const C, 4>(q_.data(), {batch, c_.q_len, c_.heads, c_.head_dim},
                             {c_.q_len * q_row_, q_row_, c_.head_dim * c_.q_step, c_.q_step}),
        caches_,
        ls::View<C, 4>(r.context.data(), {batch, c_.q_len, c_.heads, c_.v_head_dim},
                       {c_.q_len * context_row_, context_row_, c_.v_head_dim * c_.context_step, c_.context_step}),
        options);
    return r;
  }

  ls::KeyPadding padding() const {
    return ls::KeyPadding(ls::View<const bool, 2>::contiguous(flags_.get(), {c_.batch(), c_.longest()}));
  }
  ls::OffsetCausal offset() const { return ls::OffsetCausal(std::span<const Index>(offsets_)); }
  std::span<const std::uint32_t> streams() const { return streams_; }

 private:
  Cache filled(Index kv_len, std::uint64_t seed) const {
    using Limits = std::numeric_limits<C>;
    Cache cache({c_.kv_heads, c_.head_dim, c_.v_head_dim}, kv_len + static_cast<Index>(seed % 5));
    if constexpr (std::is_same_v<S, std::int8_t>)
      poison(cache, S{0x5A});
    else
      poison(cache, ls::narrow<S>(c_.garbage == Garbage::nan ? Limits::quiet_NaN() : Limits::infinity()));
    using Given = ls::cache_value_t<S>;
    auto k = bits::numbers<Given>(c_.kv_heads * kv_len * c_.head_dim, seed + 2, size_of(c_.numbers));
    auto v = bits::numbers<Given>(c_.kv_heads * kv_len * c_.v_head_dim, seed + 3, 2);
    if (c_.numbers == Numbers::wild) make_wild(k, seed + 4), make_wild(v, seed + 5);
    cache.import(ls::View<const Given, 3>::contiguous(k.data(), {c_.kv_heads, kv_len, c_.head_dim}),
                 ls::View<const Given, 3>::contiguous(v.data(), {c_.kv_heads, kv_len, c_.v_head_dim}));
    return cache;
  }

  const Configuration& c_;
  Index q_row_, context_row_;
  std::vector<C> q_;
  std::vector<Cache> caches_;
  std::unique_ptr<bool[]> flags_;
  std::vector<Index> offsets_;
  std::vector<std::uint32_t> streams_;
};

/// Notes the first result that differs.
template <class R>
void note(Outcome& outcome, ls::InstructionSet set, const char* name, const std::vector<R>& expected,
          const std::vector<R>& got) {
  if (same_bits(expected, got)) return;
  std::size_t first = 0, count = 0;
  for (std::size_t i = expected.size(); i-- > 0;)
    if (std::memcmp(&expected[i], &got[i], sizeof(R)) != 0) first = i, ++count;
  outcome.different += std::string(outcome.different.empty() ? "" : "; ") + ls::name_of(set) + ": " + name +
                       " differs in " + std::to_string(count) + " of " + std::to_string(expected.size()) +
                       " numbers, first at " + std::to_string(first) + ": " +
                       std::to_string(static_cast<double>(expected[first])) + " in Specification, " +
                       std::to_string(static_cast<double>(got[first]));
}

/// Under policies whose values fill(options) sets.
template <class... Policies, class S, class Fill>
Outcome compare_under(const Configuration& c, const Call<S>& call, const std::vector<ls::InstructionSet>& sets,
                      const Fill& fill) {
  using C = ls::compute_t<S>;
  ls::AttendOptions<C, ls::Specification, Policies...> plain;
  fill(plain);
  const auto expected = call.run(plain);
  Pool pool(c);
  Outcome outcome;
  for (const ls::InstructionSet set : sets) {
    ls::force_instruction_set(set);
    ls::AttendOptions<C, ls::Tiled, Policies..., ls::Hook> options;
    fill(options);
    options.executor = pool.hook();
    const auto got = [&] {
      const HostRounding rounding(c);
      return call.run(options);
    }();
    const std::size_t before = outcome.different.size();
    note(outcome, set, "context", expected.context, got.context);
    note(outcome, set, "log-sum-exp", expected.lse, got.lse);
    note(outcome, set, "weights", expected.weights, got.weights);
    if (outcome.different.size() == before) ++outcome.equal;
  }
  return outcome;
}

template <class S>
Outcome compare_calls(const Configuration& c, const std::vector<ls::InstructionSet>& sets) {
  const Call<S> call(c);
  const auto under = [&](const auto& mask) {
    return compare_under<std::remove_cvref_t<decltype(mask)>>(c, call, sets, [&](auto& o) { o.mask = mask; });
  };
  if constexpr (std::is_same_v<S, float>) switch (c.mask) {
      case MaskKind::none:
        return under(ls::NoMask{});
      case MaskKind::offset:
        return under(call.offset());
      case MaskKind::padding:
        return under(ls::Causal{} & call.padding());
      case MaskKind::either:
        return under(c.irregular | call.offset());
      case MaskKind::window: {
        const auto sinks = bits::numbers<float>(c.heads, c.number + 7, 4);
        return compare_under<ls::SlidingWindow, ls::SoftCap, ls::Alibi<>, ls::LearnedSinks<>>(
            c, call, sets, [&](auto& o) {
              o.mask = ls::SlidingWindow(4 * c.irregular.size, c.irregular.size % 5);
              o.logits.cap = static_cast<double>(1 + c.number % 50);
              o.bias = ls::Alibi<float>(c.heads);
              o.sinks = ls::LearnedSinks<float>(ls::View<const float, 1>(sinks));
            });
      }
      default:
        break;
    }
  if (c.mask == MaskKind::causal) return under(ls::Causal{});
  return compare_under<Irregular, ls::Dropout>(c, call, sets, [&](auto& o) {
    o.mask = c.irregular;
    o.dropout = ls::Dropout{.probability = c.dropout, .seed = static_cast<std::uint32_t>(c.number)};
    o.mode = c.dropout > 0 ? ls::Mode::training : ls::Mode::inference;
    o.dropout_streams = call.streams();
  });
}

/// Layers: y and log-sum-exp of all tokens, and what the caches hold.
template <class T>
class Layers {
 public:
  using C = ls::compute_t<T>;
  using Style = std::conditional_t<std::is_same_v<T, float> || std::is_same_v<T, Eigen::bfloat16>, ls::HalfSplit,
                                   ls::Interleaved>;
  template <class K>
  using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, ls::Rope<Style>, Irregular, ls::Dropout, ls::Hook, K>;
  struct Results {
    std::vector<T> y, keys, values;
    std::vector<C> lse;
  };

  explicit Layers(const Configuration& c)
      : c_(c),
        shape_{.hidden = c.hidden,
               .head_dim = c.head_dim,
               .v_head_dim = c.v_head_dim,
               .heads = c.heads,
               .kv_heads = c.kv_heads},
        weights_(shape_, c.number + 1, c.biased, c.hidden > 64 ? 0.125 : 0.5),
        rope_({.rotary_dim = c.rotary_dim, .positions = c.q_len}),
        x_(bits::numbers<T>(c.batch() * c.q_len * c.hidden, c.number, size_of(c.numbers))) {
    for (Index b = 0; b < c.batch(); ++b)
      streams_.push_back(static_cast<std::uint32_t>(c.number) + static_cast<std::uint32_t>(b));
  }

  template <class K>
  Results run(const std::vector<Index>& plan, const ls::Hook& hook) const {
    const Layer<K> layer(shape_, weights_.views(), rope_, c_.irregular,
                         ls::Dropout{.probability = c_.dropout, .seed = 5}, hook);
    const Index batch = c_.batch(), tokens = c_.q_len;
    Results r;
    r.y = untouched<T>(batch * tokens * c_.hidden);
    r.lse = untouched<C>(batch * c_.heads * tokens);
    std::vector<ls::ContiguousCache<T>> caches;
    for (Index b = 0; b < batch; ++b) {
      caches.push_back(layer.make_cache(tokens + b));
      poison(caches.back(), ls::narrow<T>(std::numeric_limits<C>::quiet_NaN()));
    }
    const auto x = ls::View<const T, 3>::contiguous(x_.data(), {batch, tokens, c_.hidden});
    const auto y = ls::View<T, 3>::contiguous(r.y.data(), {batch, tokens, c_.hidden});
    const auto lse = ls::View<C, 3>::contiguous(r.lse.data(), {batch, c_.heads, tokens});
    Index first = 0;
    for (const Index rows : plan) {
      layer.forward(x.part(1, first, rows), caches, y.part(1, first, rows),
                    {.lse = lse.part(2, first, rows),
                     .mode = c_.dropout > 0 ? ls::Mode::training : ls::Mode::inference,
                     .dropout_streams = streams_});
      first += rows;
    }
    for (const auto& cache : caches) {
      std::vector<T> keys(at(c_.kv_heads * tokens * c_.head_dim)), values(at(c_.kv_heads * tokens * c_.v_head_dim));
      cache.export_keys(ls::View<T, 3>::contiguous(keys.data(), {c_.kv_heads, tokens, c_.head_dim}));
      cache.export_values(ls::View<T, 3>::contiguous(values.data(), {c_.kv_heads, tokens, c_.v_head_dim}));
      r.keys.insert(r.keys.end(), keys.begin(), keys.end());
      r.values.insert(r.values.end(), values.begin(), values.end());
    }
    return r;
  }

 private:
  const Configuration& c_;
  ls::LayerShape shape_;
  Weights<T> weights_;
  ls::RopeTable<C> rope_;
  std::vector<T> x_;
  std::vector<std::uint32_t> streams_;
};

/// Specification in one chunk on plain C++ against Tiled in the chunks of the plan.
template <class T>
Outcome compare_layers(const Configuration& c, const std::vector<ls::InstructionSet>& sets) {
  const Layers<T> layers(c);
  ls::force_instruction_set(ls::InstructionSet::portable);
  const auto expected = layers.template run<ls::Specification>({c.q_len}, {});
  Pool pool(c);
  Outcome outcome;
  for (const ls::InstructionSet set : sets) {
    ls::force_instruction_set(set);
    const auto got = [&] {
      const HostRounding rounding(c);
      return layers.template run<ls::Tiled>(c.plan, pool.hook());
    }();
    const std::size_t before = outcome.different.size();
    note(outcome, set, "y", expected.y, got.y);
    note(outcome, set, "log-sum-exp", expected.lse, got.lse);
    note(outcome, set, "keys", expected.keys, got.keys);
    note(outcome, set, "values", expected.values, got.values);
    if (outcome.different.size() == before) ++outcome.equal;
  }
  return outcome;
}

template <class S>
Outcome compare(const Configuration& c, const std::vector<ls::InstructionSet>& sets) {
  if constexpr (!std::is_same_v<S, std::int8_t>)
    if (c.layer) return compare_layers<S>(c, sets);
  return compare_calls<S>(c, sets);
}

}  // namespace sweep
