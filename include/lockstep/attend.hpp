// Attention proper: queries against a cache to context, below the projections.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <new>
#include <optional>
#include <span>

#include "lockstep/attend/sequences.hpp"
#include "lockstep/defaults.hpp"
#include "lockstep/kernel/call.hpp"
#include "lockstep/views.hpp"
#include "lockstep/workspace.hpp"

namespace lockstep {

namespace detail {

/// What a kernel is given: pieces, consecutive rows of one sequence each. Seen: the caches as it sees them, Cache or
/// TreeCache<Cache>.
template <class C, class Seen>
class Pieces {
  using Call = AttentionCall<C, Seen>;

 public:
  static constexpr bool tree = HasOwnBlocks<Seen>;  // rows are nodes of draft trees

  /// Takes memory for `most` pieces of `rows` rows together at once, in a call of `all_rows`.
  template <class Memory>
  Pieces(Memory& memory, Index most, Index rows, [[maybe_unused]] Index all_rows) noexcept
      : calls_(memory.template take<Call>(most)) {
    if constexpr (tree) {
      seen_ = memory.template take<Seen>(most);
      places_ = memory.template take<Index>(rows);
      depths_ = memory.template take<Index>(all_rows);
    }
  }
  /// Of a call whose results are [batch, q_len, ...].
  void begin(const Sequences& sequences, Index q_len, std::span<const Index> parents) noexcept {
    q_len_ = q_len;
    parents_ = parents.data();
    if constexpr (tree) sequences.set_depths(parents, depths_);
  }

  /// `call` has its query, context and places; its rows are those from `first` on of the whole call, and from `done` on
  /// of what is attended to at once.
  template <class Cache, class Options>
  const Call& add(Call call, const Cache& cache, const Options& options, Index first,
                  [[maybe_unused]] Index done) noexcept {
    const Index rows = call.query.extent[0], at_batch = first / q_len_, at_row = first % q_len_;
    if constexpr (tree) {
      const Index context = call.kv_len - rows - call.first_row, root = first - call.first_row;
      call.cache = new (seen_ + count_) Seen(cache, context, parents_ + root, depths_ + root);
      call.places = places_ + done;
      for (Index i = 0; i < rows; ++i) places_[done + i] = context + depths_[first + i];
    } else {
      call.cache = &cache;
    }
    call.lse = options.lse.at(at_batch).part(1, at_row, rows);
    call.weights = options.weights.at(at_batch).part(1, at_row, rows);
    call.raw_logits = options.raw_logits.at(at_batch).part(1, at_row, rows);
    if (!options.dropout_streams.empty())
      call.stream = options.dropout_streams[static_cast<std::size_t>(call.sequence)];
    return *new (calls_ + count_++) Call(call);
  }
  std::span<const Call> calls() const noexcept { return {calls_, count_}; }
  void clear() noexcept { count_ = 0; }

 private:
  Call* calls_;
  std::size_t count_ = 0;
  Index q_len_ = 0;
  // Of draft trees:
  const Index* parents_ = nullptr;  // [rows of the whole call]
  Seen* seen_ = nullptr;
  Index* places_ = nullptr;  // [rows at once]
  Index* depths_ = nullptr;  // [rows of the whole call]
};

/// The rules of a call: its policies, and numbers of heads and their sizes.
template <class M, class L, class H, class D, class B, class S>
AttentionRules<M, L, H, D, B, S> rules_of(const M& mask, const L& logits, const H& sharing, const D& dropout,
                                          const B& bias, const S& sinks, const auto& shape, bool training = false,
                                          LogitStage stage = LogitStage::masked) noexcept {
  return {mask,        logits,         sharing,        dropout,          bias,     sinks,
          shape.heads, shape.kv_heads, shape.head_dim, shape.v_head_dim, training, stage};
}

/// Optional results: log-sum-exp [batch, heads, q_len], weights and logits [batch, heads, q_len, kv_len].
template <class C>
Status check_results(View<C, 4> weights, View<C, 4> raw_logits, View<C, 3> lse, Index batch, Index heads, Index q_len,
                     Index kv_len) noexcept {
  return first_error(check_optional<C, 3>("lse", lse, {batch, heads, q_len}),
                     check_optional<C, 4>("weights", weights, {batch, heads, q_len, kv_len}),
                     check_optional<C, 4>("raw_logits", raw_logits, {batch, heads, q_len, kv_len}));
}

/// The memory of a workspace that is the caller's.
inline ByteRange bytes_of(const Workspace* workspace) noexcept {
  return workspace == nullptr ? ByteRange{} : bytes_of(workspace->given());
}

template <class D>
Status check_dropout(const D& dropout, Mode mode, std::span<const std::uint32_t> streams, Index batch) noexcept {
  if (Status s = check_policy(dropout); !s.ok()) return s;
  if (mode == Mode::training && !D::active)
    return Status::invalid("mode", "given training, allowed inference: there is no dropout policy");
  if (!streams.empty() && static_cast<Index>(streams.size()) != batch)
    return Status::invalid("dropout_streams", "given {}, allowed none or one for each of {} sequences", streams.size(),
                           batch);
  return {};
}

}  // namespace detail

/// What attend() takes beside queries and cache. C is the cache's compute type.
template <class C, class... Policies>
struct AttendOptions {
  using Set = PolicySet<C, Policies...>;
  static_assert(!Set::Norm::active,
                "lockstep::attend: q and k are normalised before attend(); a q/k norm is for layers");
  /// Place of the first query, -2^62 to 2^62. Default: kv_len - q_len of each sequence, so that the last query stands
  /// at the last key.
  std::optional<Index> offset{};
  /// Ragged batch: q [tokens, heads, head_dim] holds the queries of these many rows a sequence, one sequence after the
  /// other, each with its own cache. All results have q's shape: batch 1, q_len tokens.
  std::span<const Index> lengths{};
  /// Also write attention weights [batch, heads, q_len, kv_len]; +0 beyond a shorter sequence's keys.
  View<C, 4> weights{};
  View<C, 3> lse{};  ///< also write the natural log-sum-exp [batch, heads, q_len]
  /// Also write logits [batch, heads, q_len, kv_len]; -inf beyond a shorter sequence's keys.
  View<C, 4> raw_logits{};
  LogitStage logit_stage = LogitStage::masked;  ///< which ones
  typename Set::Mask mask{};
  typename Set::Logits logits{};
  typename Set::Bias bias{};
  typename Set::Sinks sinks{};
  typename Set::Sharing sharing{};
  typename Set::Dropout dropout{};
  Mode mode = Mode::inference;                       ///< training: the dropout policy takes part
  std::span<const std::uint32_t> dropout_streams{};  ///< one a sequence; empty: 0 for all
  typename Set::Executor executor{};
  Workspace* workspace = nullptr;  ///< null: memory is taken and given back within the call
};

/// Keys and values as other engines keep them: [kv_len, kv_heads, dim] or [kv_heads, kv_len, dim], rotated, not packed.
template <Element S>
struct PlainKeyValues {
  View<const S, 3> keys;                ///< rotated
  View<const S, 3> values;              ///< as many tokens and heads
  Order order = Order::token_head_dim;  ///< of both
};

namespace detail {

/// Plain keys and values, tokens outermost. For the checks, a cache of which only the sizes are known.
template <class S>
struct TokensFirst {
  using Storage = S;
  View<const S, 3> keys;    // [kv_len, kv_heads, head_dim]
  View<const S, 3> values;  // [kv_len, kv_heads, v_head_dim]

  explicit TokensFirst(const PlainKeyValues<S>& plain) noexcept
      : keys(tokens_first(plain.keys, plain.order)), values(tokens_first(plain.values, plain.order)) {}

  CacheShape shape() const noexcept { return {keys.extent[1], keys.extent[2], values.extent[2]}; }
  Index length() const noexcept { return keys.extent[0]; }
  Status check() const noexcept {
    if (Status s = check_shape("keys", keys, keys.extent); !s.ok()) return s;
    if (Status s = check_shape("values", values, {keys.extent[0], keys.extent[1], values.extent[2]}); !s.ok()) return s;
    return check_cache_sizes<S>(shape(), "keys", length());
  }
};

template <class Options, class C, class K>
KernelShape kernel_shape(const Options& options, View<const C, 4> query, const K& caches) noexcept {
  const Sequences sequences(query.extent[0], query.extent[1], options.lengths);
  KernelShape shape{.sequences = sequences.count,
                    .rows = sequences.longest(),
                    .heads = Workspace::product(query.extent[2]),
                    .head_dim = Workspace::product(query.extent[3]),
                    .concurrency = concurrency_of(options.executor)};
  for (Index b = 0; b < std::min(sequences.count, cache_count(caches)); ++b) {
    const auto* cache = cache_at(caches, b);
    if (cache == nullptr) continue;
    shape.kv_len = std::max(shape.kv_len, cache->length());
    shape.kv_heads = cache->shape().kv_heads;
    shape.v_head_dim = cache->shape().v_head_dim;
  }
  return shape;
}

/// Workspace for `rows` rows in all.
template <class Options, class C, class Seen>
Index attend_bytes(KernelShape shape, Index rows) noexcept {
  WorkspaceSize size;
  static_cast<void>(Pieces<C, Seen>(size, shape.sequences, rows, rows));
  shape.own_bytes = own_bytes<Seen>({shape.kv_heads, shape.head_dim, shape.v_head_dim});
  return size.bytes + Options::Set::Kernel::template bytes<C>(shape);
}

template <class Seen, class Options, class Q, class K>
Index stated_bytes(const Q& q, const K& caches, const Options& options) noexcept {
  using C = compute_t<typename Seen::Storage>;
  const View<const C, 4> query(q);
  const Index rows = Workspace::product(query.extent[0], query.extent[1]);
  return attend_bytes<Options, C, Seen>(kernel_shape(options, query, caches), rows) + Workspace::alignment;
}

template <class Seen, class Options, class C, class K>
Status check_attend(View<const C, 4> query, std::span<const Index> parents, const K& caches, View<C, 4> context,
                    const Options& options) noexcept {
  constexpr bool tree = HasOwnBlocks<Seen>;
  const auto [batch, q_len, heads, head_dim] = query.extent;
  const Sequences sequences(batch, q_len, options.lengths);
  if (Status s = first_error(check_shape<const C, 4>("q", query, query.extent), sequences.check(batch, q_len),
                             check_caches(caches, sequences.count));
      !s.ok())
    return s;
  for (Index b = 0; b < sequences.count; ++b) {
    const CacheShape shape = cache_at(caches, b)->shape();
    if (shape.head_dim != head_dim)
      return Status::invalid("q", "given head_dim {}, allowed the cache's {}", head_dim, shape.head_dim);
    if (b > 0 && !(shape == cache_at(caches, 0)->shape()))
      return Status::invalid("caches", "given caches of different shapes, allowed one shape");
    if (tree && cache_at(caches, b)->length() < sequences.length(b))
      return Status::invalid("caches", "given {} tokens for {} nodes, allowed caches that hold them",
                             cache_at(caches, b)->length(), sequences.length(b));
  }
  if constexpr (tree)
    if (Status s = sequences.check_parents(parents, batch * q_len); !s.ok()) return s;
  if (sequences.count > 0)
    if (Status s = check_heads(options.sharing, heads, cache_at(caches, 0)->shape().kv_heads); !s.ok()) return s;
  const KernelShape shape = kernel_shape(options, query, caches);
  const Index v_head_dim = sequences.count > 0 ? shape.v_head_dim : context.extent[3];
  if (Status s = first_error(
          check_shape<C, 4>("context", context, {batch, q_len, heads, v_head_dim}),
          check_logits<C>(options.logits, head_dim), check_policy(options.bias, heads),
          check_policy(options.sinks, heads), check_offset(tree ? 0 : options.offset.value_or(0)),
          check_results<C>(options.weights, options.raw_logits, options.lse, batch, heads, q_len, shape.kv_len),
          check_dropout(options.dropout, options.mode, options.dropout_streams, sequences.count),
          check_mask(options.mask, sequences.count, sequences.longest(), shape.kv_len, heads));
      !s.ok())
    return s;
  for (Index b = 0; b < sequences.count; ++b) {
    const auto& cache = *cache_at(caches, b);
    const KeyRange missing = missing_after(cache, 0);
    if (missing.empty()) continue;
    if (Status s = check_all_held(options.raw_logits, missing); !s.ok()) return s;
    const Index kv_len = cache.length(), rows = sequences.length(b),
                first = !tree && options.offset ? *options.offset : kv_len - rows;
    for (Index i = 0; i < rows; ++i)
      for (Index head = 0; head < heads; ++head)
        if (Status s = check_held(options.mask, QueryRow{b, head, i, tree ? first : first + i}, kv_len, missing);
            !s.ok())
          return s;
  }
  const std::initializer_list<NamedBytes> written{{"context", bytes_of(context)},
                                                  {"lse", bytes_of(options.lse)},
                                                  {"weights", bytes_of(options.weights)},
                                                  {"raw_logits", bytes_of(options.raw_logits)},
                                                  {"workspace", bytes_of(options.workspace)}};
  if (Status s = first_error(check_apart({{"q", bytes_of(query)},
                                          {"lengths", bytes_of(options.lengths)},
                                          {"parents", bytes_of(parents)},
                                          {"dropout_streams", bytes_of(options.dropout_streams)}},
                                         written),
                             check_apart_from("mask", options.mask, written));
      !s.ok())
    return s;
  for (Index b = 0; b < sequences.count; ++b)
    if (Status s = check_apart_from("cache", *cache_at(caches, b), written); !s.ok()) return s;
  return options.workspace == nullptr ? Status{}
                                      : options.workspace->check(attend_bytes<Options, C, Seen>(shape, batch * q_len));
}

// Where it is asserted it is looked into at once, so that its sentence is the first error.
template <class C, class Q, class Out>
consteval bool check_attend_types() noexcept {
  static_assert(ViewableAs<const Q&, const C, 4>,
                "lockstep::attend: q must be a view of the cache's compute type, [q_len, heads, head_dim] or [batch, "
                "q_len, heads, head_dim]");
  static_assert(
      ViewableAs<Out&, C, 4>,
      "lockstep::attend: context must be a writable view of the cache's compute type with at most 4 dimensions");
  return true;
}

/// See attend(): refuses what does not fit, then does it.
template <class Seen, class Options, class Q, class K, class Out>
void run_attend(const Q& q, std::span<const Index> parents, const K& caches, Out& context, const Options& options) {
  using C = compute_t<typename Seen::Storage>;
  static_assert(!HasOwnBlocks<Seen> || TreeKernel<typename Options::Set::Kernel>,
                "lockstep: draft trees are offered under kernels Tiled and Specification");
  static_assert(check_attend_types<C, Q, Out>());
  const View<const C, 4> query(q);
  const View<C, 4> out(context);
  raise_unless_ok(check_attend<Seen>(query, parents, caches, out, options));
  const Index q_len = query.extent[1], all_rows = query.extent[0] * q_len;
  if (all_rows == 0) return;

  const Sequences sequences(query.extent[0], q_len, options.lengths);
  const KernelShape shape = kernel_shape(options, query, caches);
  Workspace own;
  Workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
  workspace.reserve(attend_bytes<Options, C, Seen>(shape, all_rows));
  Pieces<C, Seen> pieces(workspace, sequences.count, all_rows, all_rows);
  pieces.begin(sequences, q_len, parents);
  sequences.for_each_piece({}, all_rows, [&](Index b, Index, Index rows, Index first) {
    const auto& cache = *cache_at(caches, b);
    pieces.add({.query = query.at(first / q_len).part(0, first % q_len, rows),
                .context = out.at(first / q_len).part(0, first % q_len, rows),
                .sequence = b,
                .first_place = options.offset.value_or(cache.length() - rows),
                .kv_len = cache.length()},
               cache, options, first, first);
  });
  const auto rules = rules_of(options.mask, options.logits, options.sharing, options.dropout, options.bias,
                              options.sinks, shape, options.mode == Mode::training, options.logit_stage);
  Options::Set::Kernel::template attend<C, Seen>(pieces.calls(), rules, options.executor, workspace);
}

}  // namespace detail

/// The options of attend() on these caches.
template <class K, class... Policies>
using AttendOptionsFor = AttendOptions<compute_t<typename detail::CacheIn<K>::Storage>, Policies...>;

/// Whether attend() would take these arguments: ok, or the error that it would raise. Nothing is done.
template <class... Policies, class Q, detail::CacheOrList K, class Out>
Status check_attend(const Q& q, const K& caches, Out&& context,
                    const AttendOptionsFor<K, Policies...>& options = {}) noexcept {
  using C = compute_t<typename detail::CacheIn<K>::Storage>;
  static_assert(detail::check_attend_types<C, Q, Out>());
  return detail::check_attend<detail::CacheIn<K>>(View<const C, 4>(q), {}, caches, View<C, 4>(context), options);
}

/// Workspace that attend() takes for these arguments, in bytes, alignment included.
template <class... Policies, class Q, detail::CacheOrList K>
Index attend_workspace_bytes(const Q& q, const K& caches,
                             const AttendOptionsFor<K, Policies...>& options = {}) noexcept {
  return detail::stated_bytes<detail::CacheIn<K>>(q, caches, options);
}
/// The same for attend_tree().
template <class... Policies, class Q, detail::CacheOrList K>
Index attend_tree_workspace_bytes(const Q& q, const K& caches,
                                  const AttendOptionsFor<K, Policies...>& options = {}) noexcept {
  return detail::stated_bytes<TreeCache<detail::CacheIn<K>>>(q, caches, options);
}

/// context = softmax(scale q k^T, masked) v for every query and head.
///
/// q [q_len, heads, head_dim] against one cache, or [batch, q_len, heads, head_dim] against a list of caches, one a
/// sequence, or, with options.lengths, [tokens, heads, head_dim]; context the same with v_head_dim. q is rotated
/// already, and the cache holds the keys of these queries too. The number of kv heads is the cache's. Errors: those of
/// check_attend(), raised before anything is written.
template <class... Policies, class Q, detail::CacheOrList K, class Out>
void attend(const Q& q, const K& caches, Out&& context, const AttendOptionsFor<K, Policies...>& options = {}) {
  detail::run_attend<detail::CacheIn<K>>(q, {}, caches, context, options);
}

/// The same for draft trees: the last rows of each cache, one a query, are the nodes of a tree over what stands before
/// them, and parents holds for each query the node that it follows, before it in its sequence, or -1 for the end of the
/// context. Row i sees the context and its own path, and has the bits of decoding that path. options.offset is not
/// used.
template <class... Policies, class Q, detail::CacheOrList K, class Out>
void attend_tree(const Q& q, std::span<const Index> parents, const K& caches, Out&& context,
                 const AttendOptionsFor<K, Policies...>& options = {}) {
  detail::run_attend<TreeCache<detail::CacheIn<K>>>(q, parents, caches, context, options);
}

/// Whether attend() over plain key and value memory would take these arguments: ok, or the error that it would raise.
/// Nothing is done.
template <class... Policies, class Q, class S, class Out>
Status check_attend(const Q& q, const PlainKeyValues<S>& plain, Out&& context,
                    const AttendOptions<compute_t<S>, Policies...>& options = {}) noexcept {
  const std::array<detail::TokensFirst<S>, 1> turned{detail::TokensFirst<S>(plain)};
  if (Status s = turned[0].check(); !s.ok()) return s;
  return lockstep::check_attend<Policies...>(q, turned, context, options);
}

/// The same over plain key and value memory of one sequence: packed on the way, which costs one pass and memory for a
/// cache. Same bits. Errors: those of check_attend(), raised before anything is taken or written.
template <class... Policies, class Q, class S, class Out>
void attend(const Q& q, const PlainKeyValues<S>& plain, Out&& context,
            const AttendOptions<compute_t<S>, Policies...>& options = {}) {
  raise_unless_ok(lockstep::check_attend<Policies...>(q, plain, context, options));
  const detail::TokensFirst<S> turned(plain);
  ContiguousCache<S> cache(turned.shape(), turned.length());
  cache.import(turned.keys, turned.values, Order::token_head_dim);
  attend<Policies...>(q, cache, context, options);
}

}  // namespace lockstep
