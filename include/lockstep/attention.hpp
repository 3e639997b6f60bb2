// The attention layer: project, rotate, append, attend, project.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <vector>

#include "lockstep/attend.hpp"
#include "lockstep/attend/sequences.hpp"
#include "lockstep/defaults.hpp"

namespace lockstep {

/// The sizes of a layer. `heads` and `kv_heads` are for Dynamic head numbers; where the type says them, 0 or the same
/// number.
struct LayerShape {
  Index hidden = 0;
  Index head_dim = 0;
  Index v_head_dim = 0;  ///< 0: head_dim
  Index heads = 0;
  Index kv_heads = 0;
};

/// Projection weights as checkpoints have them, [out, in]; each bias may be absent. Borrowed during construction only.
template <class T>
struct LayerWeights {
  View<const T, 2> query{};        ///< [heads head_dim, hidden]
  View<const T, 2> key{};          ///< [kv_heads head_dim, hidden]
  View<const T, 2> value{};        ///< [kv_heads v_head_dim, hidden]
  View<const T, 2> output{};       ///< [hidden, heads v_head_dim]
  View<const T, 1> query_bias{};   ///< [heads head_dim]
  View<const T, 1> key_bias{};     ///< [kv_heads head_dim]
  View<const T, 1> value_bias{};   ///< [kv_heads v_head_dim]
  View<const T, 1> output_bias{};  ///< [hidden]
};

/// A layer of causal grouped-query attention, y = W_o attention(rope(W_q x), rope(W_k x), W_v x).
///
/// T: float and double compute in their own type; Eigen::half and Eigen::bfloat16 are stored and computed in float.
/// Heads query heads share KvHeads key/value heads; either may be Dynamic. Policies: at most one of each kind, in any
/// order (defaults.hpp names the usual ones).
///
/// The promise: a row's output depends on that row, the keys it sees and fixed constants alone. Decoding with a cache
/// has the bits of the full forward, at any chunking, among any batch mates, on any executor. A const layer may be used
/// by many threads at once, each with its own caches.
template <class T, int Heads, int KvHeads, class... Policies>
class Attention {
  static_assert(Element<T>,
                "lockstep::Attention: the element type must be float, double, Eigen::half or Eigen::bfloat16");
  static_assert(Heads == Dynamic || Heads >= 1, "lockstep::Attention: Heads must be at least 1, or Dynamic");
  static_assert(KvHeads == Dynamic || KvHeads >= 1, "lockstep::Attention: KvHeads must be at least 1, or Dynamic");

 public:
  using Set = PolicySet<T, Policies...>;
  using Scalar = T;
  using Compute = compute_t<T>;
  using Position = typename Set::Position;
  using Mask = typename Set::Mask;
  using Sharing = typename Set::Sharing;
  using Logits = typename Set::Logits;
  using Bias = typename Set::Bias;
  using Sinks = typename Set::Sinks;
  using Norm = typename Set::Norm;
  using Cache = typename Set::Cache;
  using Dropout = typename Set::Dropout;
  using Kernel = typename Set::Kernel;
  using Executor = typename Set::Executor;

  static_assert(Heads == Dynamic || KvHeads == Dynamic || detail::shares<Sharing>(Heads, KvHeads),
                "lockstep::Attention: Heads must be a multiple of KvHeads, because each kv head serves a group of "
                "equally many query heads");

  /// What a forward takes and gives beside x, cache and y.
  struct Options {
    /// Ragged batch: x [tokens, hidden] holds sequences of these lengths, one after the other, each with its own cache
    /// (a forward without caches: packed documents, each with the bits it has alone). All results have x's shape:
    /// batch 1, q_len tokens.
    std::span<const Index> lengths{};
    /// Also write attention weights [batch, heads, q_len, kv_len]; +0 beyond a shorter sequence's keys.
    View<Compute, 4> weights{};
    View<Compute, 3> lse{};  ///< also write the natural log-sum-exp [batch, heads, q_len]
    /// Also write logits [batch, heads, q_len, kv_len]; -inf beyond a shorter sequence's keys, and for keys after the
    /// last one that the row may need.
    View<Compute, 4> raw_logits{};
    LogitStage logit_stage = LogitStage::masked;  ///< which ones
    /// Also write the context before the output projection [batch, q_len, heads v_head_dim].
    View<Compute, 3> context{};
    View<const Index, 2> positions{};  ///< rotary positions [batch, q_len] instead of places
    std::optional<Index> offset{};     ///< the cache length that the caller counts on; another one is refused. 0
                                       ///< without a cache
    const Mask* mask = nullptr;        ///< instead of the layer's own, for this call
    Mode mode = Mode::inference;       ///< training: the dropout policy takes part
    std::span<const std::uint32_t> dropout_streams{};  ///< one a sequence; empty: 0 for all
    Workspace* workspace = nullptr;                    ///< null: the layer keeps one for each call that runs at once
  };

  /// Packs the weights. `values` are the policies' values (a RopeTable, a mask, an executor ...), in any order; those
  /// not given are default-constructed. Errors: sizes below 1, head numbers that do not divide, weights of other
  /// shapes, a rotary_dim above head_dim.
  template <class... Values>
  Attention(const LayerShape& shape, const LayerWeights<T>& weights, Values&&... values)
      : shape_(completed(shape)),
        position_(detail::pick_policy<Position>(values...)),
        mask_(detail::pick_policy<Mask>(values...)),
        sharing_(detail::pick_policy<Sharing>(values...)),
        logits_(detail::pick_policy<Logits>(values...)),
        bias_(detail::pick_policy<Bias>(values...)),
        sinks_(detail::pick_policy<Sinks>(values...)),
        norm_(detail::pick_policy<Norm>(values...)),
        dropout_(detail::pick_policy<Dropout>(values...)),
        executor_(detail::pick_policy<Executor>(values...)) {
    static_assert(
        (serves_a_policy<Values> && ...),
        "lockstep::Attention: every value after the weights must be the value of one of the layer's policies");
    raise_unless_ok(check_shapes(weights));
    if constexpr (requires { position_.prepare(Index{}); }) position_.prepare(shape_.head_dim);
    if constexpr (requires { bias_.prepare(Index{}); }) bias_.prepare(shape_.heads);
    raise_unless_ok(check_policies());
    qkv_ = PackedWeights<WeightElement>(query_width() + key_width() + value_width(), shape_.hidden);
    qkv_.place(0, weights.query, weights.query_bias);
    qkv_.place(query_width(), weights.key, weights.key_bias);
    qkv_.place(query_width() + key_width(), weights.value, weights.value_bias);
    output_ = PackedWeights<WeightElement>(shape_.hidden, context_width());
    output_.place(0, weights.output, weights.output_bias);
    for (const auto& bias : {weights.query_bias, weights.key_bias, weights.value_bias, weights.output_bias})
      biases_ += bias.present() ? bias.extent[0] : 0;
  }

  /// An empty cache of this layer's shape for one sequence. The arguments are those of the cache's constructor after
  /// the shape: for most caches the capacity in tokens, and what options they have.
  template <class... Args>
    requires std::constructible_from<Cache, CacheShape, Args...>
  Cache make_cache(Args&&... args) const {
    return Cache(cache_shape(), std::forward<Args>(args)...);
  }

  /// x [q_len, hidden] and one cache, or x [batch, q_len, hidden] and a list of caches (or of pointers to them), one a
  /// sequence, of any lengths: appends q_len keys and values to each cache and writes y of x's shape. With
  /// options.lengths x is [tokens, hidden] and sequences have as many rows as those say: prompts and single tokens may
  /// mix. x, y, the caches, what options ask for and what policies borrow must not overlap. Errors: those of check(),
  /// raised before anything is written; whatever else fails leaves the caches as before.
  template <class X, detail::CacheOrList K, class Y>
  void forward(const X& x, K&& caches, Y&& y, const Options& options = {}) const {
    static_assert(check_types<X, Y, detail::CacheIn<K>>());
    const Call call{View<const T, 3>(x), View<T, 3>(y), options};
    raise_unless_ok(check_call(call, caches));
    run<Cache>(call, caches, *pool_->borrow());
  }

  /// Draft trees over cached contexts, verified in one call: row i of a sequence is node i of its tree, and parents
  /// holds, for each row of x, the node that it follows, before it in the same sequence, or -1 for the last token in
  /// the cache. A node has the place, the rotary position and the bits that it would have if its path were decoded
  /// token by token; weights [batch, heads, q_len, kv_len] have its path from the place after the context on. Appends
  /// all nodes, in x's order: cache.keep(context, path) then keeps an accepted path and drops the rest.
  template <class X, detail::CacheOrList K, class Y>
  void forward_tree(const X& x, std::span<const Index> parents, K&& caches, Y&& y, const Options& options = {}) const {
    static_assert(check_types<X, Y, detail::CacheIn<K>>());
    const Call call{View<const T, 3>(x), View<T, 3>(y), options, parents, true};
    raise_unless_ok(check_call(call, caches));
    run<TreeCache<Cache>>(call, caches, *pool_->borrow());
  }

  /// Full forward over x [q_len, hidden] or [batch, q_len, hidden] from position 0; no cache is kept.
  template <class X, class Y>
  void forward(const X& x, Y&& y, const Options& options = {}) const {
    static_assert(check_types<X, Y>());
    const Call call{View<const T, 3>(x), View<T, 3>(y), options};
    raise_unless_ok(check_call(call, NoCaches{}));
    const auto scratch = pool_->borrow();
    const detail::Sequences sequences = call.sequences();
    const auto count = static_cast<std::size_t>(sequences.count);
    if (scratch->caches.size() < count) scratch->caches.resize(count);
    const std::span<FullCache> caches(scratch->caches.data(), count);
    for (Index b = 0; b < sequences.count; ++b) {
      FullCache& cache = caches[static_cast<std::size_t>(b)];
      if (cache.shape() == cache_shape() && cache.capacity() >= sequences.length(b))
        cache.truncate(0);
      else
        cache = FullCache(cache_shape(), sequences.length(b));
    }
    run<FullCache>(call, caches, *scratch);
  }

  /// Whether forward() would take these arguments: ok, or the error that it would raise. Nothing is done.
  template <class X, detail::CacheOrList K, class Y>
  Status check(const X& x, const K& caches, Y&& y, const Options& options = {}) const noexcept {
    static_assert(check_types<X, Y, detail::CacheIn<K>>());
    return check_call({View<const T, 3>(x), View<T, 3>(y), options}, caches);
  }
  /// The same for forward_tree().
  template <class X, detail::CacheOrList K, class Y>
  Status check_tree(const X& x, std::span<const Index> parents, const K& caches, Y&& y,
                    const Options& options = {}) const noexcept {
    static_assert(check_types<X, Y, detail::CacheIn<K>>());
    return check_call({View<const T, 3>(x), View<T, 3>(y), options, parents, true}, caches);
  }
  /// The same for the full forward.
  template <class X, class Y>
  Status check(const X& x, Y&& y, const Options& options = {}) const noexcept {
    static_assert(check_types<X, Y>());
    return check_call({View<const T, 3>(x), View<T, 3>(y), options}, NoCaches{});
  }

  /// Workspace of a forward of `batch` sequences with at most q_len queries each, at most kv_len keys afterwards, in
  /// bytes, alignment included. Sizes that no memory holds give 2^45 or more.
  Index workspace_bytes(Index batch, Index q_len, Index kv_len) const noexcept {
    // Whether rows see keys after their own, as far as one row tells.
    const bool later = detail::holds_arrays<Mask> || mask_.keys_needed(QueryRow{}) > 1;
    return stated_bytes<Cache>(batch, q_len, kv_len, later);
  }
  /// The same for forward_tree().
  Index tree_workspace_bytes(Index batch, Index q_len, Index kv_len) const noexcept {
    return stated_bytes<TreeCache<Cache>>(batch, q_len, kv_len, false);
  }

  const LayerShape& shape() const noexcept { return shape_; }  ///< the sizes, none of them 0
  /// The shape of caches that forward() takes.
  CacheShape cache_shape() const noexcept { return {shape_.kv_heads, shape_.head_dim, shape_.v_head_dim}; }
  Index hidden() const noexcept { return shape_.hidden; }
  Index heads() const noexcept { return shape_.heads; }
  Index kv_heads() const noexcept { return shape_.kv_heads; }
  Index group_size() const noexcept { return shape_.heads / shape_.kv_heads; }
  Index head_dim() const noexcept { return shape_.head_dim; }
  Index v_head_dim() const noexcept { return shape_.v_head_dim; }
  const Position& position() const noexcept { return position_; }
  /// Weights and biases.
  Index parameter_count() const noexcept { return qkv_.out() * qkv_.in() + output_.out() * output_.in() + biases_; }

  /// One line: sizes, policies, parameter count.
  friend std::ostream& operator<<(std::ostream& out, const Attention& layer) {
    out << "Attention<" << element_name() << ">: hidden " << layer.hidden() << ", " << layer.heads()
        << " query heads over " << layer.kv_heads() << " kv heads, head_dim " << layer.head_dim();
    if (layer.v_head_dim() != layer.head_dim()) out << ", v_head_dim " << layer.v_head_dim();
    out << "; position " << detail::name_of<Position>();
    if (layer.position_.rotary_dim() > 0)
      out << " (rotary_dim " << layer.position_.rotary_dim() << ", positions " << layer.position_.positions() << ")";
    return out << ", mask " << detail::name_of<Mask>() << ", heads " << detail::name_of<Sharing>() << ", logits "
               << detail::name_of<Logits>() << ", bias " << detail::name_of<Bias>() << ", sinks "
               << detail::name_of<Sinks>() << ", norm " << detail::name_of<Norm>() << ", cache "
               << detail::name_of<Cache>() << ", dropout " << detail::name_of<Dropout>() << ", kernel "
               << detail::name_of<Kernel>() << ", executor " << detail::name_of<Executor>() << "; "
               << layer.parameter_count() << " parameters";
  }

 private:
  using WeightElement = typename Set::Weights::Storage;
  /// Of forwards without a cache: holds every place, in the storage of the layer's own.
  using FullCache = ContiguousCache<typename Cache::Storage>;
  template <class K>
  using CacheOf = std::conditional_t<std::derived_from<detail::CacheIn<K>, Cache>, Cache, FullCache>;

  struct Call {
    View<const T, 3> x;
    View<T, 3> y;
    const Options& options;
    std::span<const Index> parents{};  // [rows of all sequences], of draft trees
    bool tree = false;
    mutable bool later = false;  // found by check_call: rows see keys after their own
    detail::Sequences sequences() const noexcept { return {x.extent[0], x.extent[1], options.lengths}; }
    Index rows() const noexcept { return x.extent[0] * x.extent[1]; }
    /// The rotary position of a row whose place is `place`.
    Index position(Index row, Index place) const noexcept {
      const auto& given = options.positions;
      return given.present() ? given(row / x.extent[1], row % x.extent[1]) : place;
    }
  };
  struct NoCaches {};
  template <class K>
  static constexpr bool has_caches = !std::same_as<K, NoCaches>;
  struct Scratch {
    Workspace workspace;
    std::vector<FullCache> caches;  // of cacheless forwards
  };

  // Rows of all sequences, one after the other, go through the layer in chunks of this many, which bounds the
  // workspace: q, k, v and context of a chunk stay in cache, and the projections are long enough to run at full speed
  // from some 200 rows on.
  static constexpr Index chunk_rows = 256;

  template <class V>
  static constexpr bool serves_a_policy =
      detail::stands_for<Position, V> || detail::stands_for<Mask, V> || detail::stands_for<Sharing, V> ||
      detail::stands_for<Logits, V> || detail::stands_for<Bias, V> || detail::stands_for<Sinks, V> ||
      detail::stands_for<Norm, V> || detail::stands_for<Dropout, V> || detail::stands_for<Executor, V>;

  // Where it is asserted it is looked into at once, so that its sentence is the first error.
  template <class X, class Y, class K = Cache>
  static consteval bool check_types() noexcept {
    static_assert(std::derived_from<K, Cache>,
                  "lockstep::Attention: the cache must be of the layer's own type, Layer::Cache, which make_cache() "
                  "gives");
    static_assert(ViewableAs<const X&, const T, 3>,
                  "lockstep::Attention: x must be a matrix [q_len, hidden] or tensor [batch, q_len, hidden] of the "
                  "layer's element type that lies in memory");
    static_assert(ViewableAs<Y&, T, 3>,
                  "lockstep::Attention: y must be a writable matrix [q_len, hidden] or tensor [batch, q_len, hidden] "
                  "of the layer's element type that lies in memory");
    return true;
  }

  static constexpr const char* element_name() noexcept {
    return std::same_as<T, float>         ? "float"
           : std::same_as<T, double>      ? "double"
           : std::same_as<T, Eigen::half> ? "half"
                                          : "bfloat16";
  }

  Index query_width() const noexcept { return shape_.heads * shape_.head_dim; }
  Index key_width() const noexcept { return shape_.kv_heads * shape_.head_dim; }
  Index value_width() const noexcept { return shape_.kv_heads * shape_.v_head_dim; }
  Index context_width() const noexcept { return shape_.heads * shape_.v_head_dim; }

  /// Fills in what the type says.
  static LayerShape completed(LayerShape shape) {
    const auto complete = [](const char* name, Index& given, int type) {
      if (type == Dynamic) return;
      if (given != 0 && given != type) raise(Status::invalid(name, "given {}, allowed the type's {}", given, type));
      given = type;
    };
    complete("shape.heads", shape.heads, Heads);
    complete("shape.kv_heads", shape.kv_heads, KvHeads);
    if (shape.v_head_dim == 0) shape.v_head_dim = shape.head_dim;
    return shape;
  }

  Status check_shapes(const LayerWeights<T>& weights) const noexcept {
    for (const auto& [name, size] : {std::pair{"shape.hidden", shape_.hidden},
                                     {"shape.head_dim", shape_.head_dim},
                                     {"shape.v_head_dim", shape_.v_head_dim},
                                     {"shape.heads", shape_.heads},
                                     {"shape.kv_heads", shape_.kv_heads}})
      if (size < 1 || size >= detail::size_limit) return Status::invalid(name, "given {}, allowed 1 to 2^31 - 1", size);
    if (Status s = detail::check_heads(sharing_, shape_.heads, shape_.kv_heads); !s.ok()) return s;
    constexpr Index widest = Index{1} << 40;
    if (query_width() > widest || context_width() > widest)
      return Status::invalid("shape", "given {} heads of {} and {}, allowed 2^40 numbers in all heads", shape_.heads,
                             shape_.head_dim, shape_.v_head_dim);
    using Packed = PackedWeights<WeightElement>;
    using detail::check_optional, detail::check_shape;
    const Index hidden = shape_.hidden, query = query_width(), key = key_width(), value = value_width();
    return first_error(Packed::check(query + key + value, hidden), Packed::check(hidden, context_width()),
                       check_shape("weights.query", weights.query, {query, hidden}),
                       check_shape("weights.key", weights.key, {key, hidden}),
                       check_shape("weights.value", weights.value, {value, hidden}),
                       check_shape("weights.output", weights.output, {hidden, context_width()}),
                       check_optional("weights.query_bias", weights.query_bias, {query}),
                       check_optional("weights.key_bias", weights.key_bias, {key}),
                       check_optional("weights.value_bias", weights.value_bias, {value}),
                       check_optional("weights.output_bias", weights.output_bias, {hidden}));
  }
  Status check_policies() const noexcept {
    if (position_.rotary_dim() > shape_.head_dim)
      return Status::invalid("rotary_dim", "given {}, allowed at most head_dim {}", position_.rotary_dim(),
                             shape_.head_dim);
    return first_error(detail::check_logits<Compute>(logits_, shape_.head_dim),
                       detail::check_policy(bias_, shape_.heads), detail::check_policy(sinks_, shape_.heads),
                       detail::check_policy(norm_, shape_.heads, shape_.kv_heads, shape_.head_dim),
                       detail::check_policy(mask_), detail::check_policy(dropout_));
  }

  const Mask& mask_of(const Call& call) const noexcept {
    return call.options.mask != nullptr ? *call.options.mask : mask_;
  }

  template <class K>
  Status check_call(const Call& call, const K& caches) const noexcept {
    const auto [batch, q_len, hidden] = call.x.extent;
    const Options& options = call.options;
    if (pool_ == nullptr) return Status::invalid("layer", "given one that was moved from, allowed one with weights");
    const detail::Sequences sequences = call.sequences();
    if (Status s =
            first_error(detail::check_shape("x", call.x, {batch, q_len, shape_.hidden}),
                        detail::check_shape("y", call.y, {batch, q_len, shape_.hidden}), sequences.check(batch, q_len));
        !s.ok())
      return s;
    if (Status s = check_caches(caches, sequences, options); !s.ok()) return s;
    const Index kv_len = longest_after(caches, sequences);
    if (Status s = first_error(detail::check_results<Compute>(options.weights, options.raw_logits, options.lse, batch,
                                                              shape_.heads, q_len, kv_len),
                               detail::check_optional("context", options.context, {batch, q_len, context_width()}),
                               detail::check_optional("positions", options.positions, {batch, q_len}));
        !s.ok())
      return s;
    if (Status s =
            first_error(detail::check_dropout(dropout_, options.mode, options.dropout_streams, sequences.count),
                        detail::check_mask(mask_of(call), sequences.count, sequences.longest(), kv_len, shape_.heads),
                        call.tree ? sequences.check_parents(call.parents, call.rows()) : Status{});
        !s.ok())
      return s;
    if (Status s = check_memory(call, caches); !s.ok()) return s;
    for (Index b = 0, first = 0; b < sequences.count; first += sequences.length(b), ++b) {
      const Index length = length_of(caches, b), rows = sequences.length(b);
      if (Status s = check_positions(call, length, first, rows); !s.ok()) return s;
      if (Status s = check_needed(call, b, length, rows, has_caches<K>); !s.ok()) return s;
      if constexpr (has_caches<K>)
        if (Status s = check_held(call, b, *detail::cache_at(caches, b), rows); !s.ok()) return s;
    }
    if (options.workspace == nullptr) return {};
    return options.workspace->check(
        call.tree ? call_bytes<TreeCache<Cache>>(sequences.count, call.rows(), sequences.longest(), kv_len, call.later)
                  : call_bytes<Cache>(sequences.count, call.rows(), sequences.longest(), kv_len, call.later));
  }

  /// Sequences without caches stand at the start, and get caches for the time of the call.
  Status check_caches(const NoCaches&, const detail::Sequences& sequences, const Options& options) const noexcept {
    if (options.offset && *options.offset != 0)
      return Status::invalid("offset", "given {}, allowed 0 without a cache", *options.offset);
    if (sequences.count > detail::size_limit)
      return Status::length("x", "given {} sequences, allowed up to 2^31 without caches", sequences.count);
    return detail::check_cache_sizes<typename Cache::Storage>(cache_shape(), "x", sequences.longest());
  }

  template <class K>
  Status check_memory(const Call& call, const K& caches) const noexcept {
    using detail::bytes_of, detail::check_apart, detail::check_apart_from, detail::NamedBytes;
    const Options& options = call.options;
    const std::initializer_list<NamedBytes> read{{"x", bytes_of(call.x)},
                                                 {"positions", bytes_of(options.positions)},
                                                 {"lengths", bytes_of(options.lengths)},
                                                 {"parents", bytes_of(call.parents)},
                                                 {"dropout_streams", bytes_of(options.dropout_streams)}};
    const std::initializer_list<NamedBytes> written{{"y", bytes_of(call.y)},
                                                    {"lse", bytes_of(options.lse)},
                                                    {"weights", bytes_of(options.weights)},
                                                    {"raw_logits", bytes_of(options.raw_logits)},
                                                    {"context", bytes_of(options.context)},
                                                    {"workspace", bytes_of(options.workspace)}};
    const auto check_read = [&](std::initializer_list<NamedBytes> changed) noexcept {
      return first_error(check_apart(read, changed), check_apart_from("mask", mask_of(call), changed),
                         check_apart_from("positions", position_, changed));
    };
    if constexpr (has_caches<K>)
      for (Index b = 0; b < detail::cache_count(caches); ++b) {
        const NamedBytes cache{"cache", detail::memory_of(*detail::cache_at(caches, b))};
        if (Status s = first_error(check_read({cache}), check_apart(written, {cache})); !s.ok()) return s;
      }
    return check_read(written);
  }

  /// The most keys that a sequence will have.
  template <class K>
  static Index longest_after(const K& caches, const detail::Sequences& sequences) noexcept {
    Index kv_len = sequences.count == 0 ? sequences.each : 0;
    for (Index b = 0; b < sequences.count; ++b) kv_len = std::max(kv_len, length_of(caches, b) + sequences.length(b));
    return kv_len;
  }

  template <class K>
  static Index length_of(const K& caches, Index b) noexcept {
    if constexpr (has_caches<K>)
      return detail::cache_at(caches, b)->length();
    else
      return 0;
  }

  template <class K>
  Status check_caches(const K& caches, const detail::Sequences& sequences, const Options& options) const noexcept {
    if (Status s = detail::check_caches(caches, sequences.count); !s.ok()) return s;
    for (Index b = 0; b < sequences.count; ++b) {
      const auto& cache = *detail::cache_at(caches, b);
      if (Status s = detail::check_cache_shape("cache", cache.shape(), cache_shape()); !s.ok()) return s;
      if (options.offset && *options.offset != cache.length())
        return Status::invalid("offset", "given {}, allowed the cache's length {}", *options.offset, cache.length());
      if constexpr (requires { cache.table(); })
        if (cache.table() != 0 && cache.table() != table())
          return Status::invalid("cache", "given keys that another rotary table has rotated, allowed this layer's");
      if (Status s = detail::check_append_all(cache, sequences.length(b)); !s.ok()) return s;
      for (Index other = 0; other < b; ++other)
        if (detail::cache_at(caches, other) == &cache)
          return Status::invalid("caches", "given one cache for sequences {} and {}, allowed one for each", other, b);
    }
    return detail::check_append_together<detail::CacheIn<K>>(
        sequences.count, [&](Index b) { return detail::cache_at(caches, b); },
        [&](Index b) { return sequences.length(b); });
  }

  /// Rotary positions of `rows` rows from row `first` of the call on, of a sequence of `length` keys so far.
  Status check_positions(const Call& call, Index length, Index first, Index rows) const noexcept {
    const Index known = position_.positions();
    const bool given = call.options.positions.present();
    for (Index i = rows; i-- > 0;) {
      // A node is no deeper than it is far from the first: mostly that is enough to know.
      const bool exact = call.tree && !given && (detail::ChecksPosition<Position> || length + i >= known);
      const Index place = length + (exact ? detail::Sequences::depth(call.parents.data() + first, i) : i);
      const Index p = call.position(first + i, place);
      if (p < 0 || p >= known)
        return Status::invalid(given ? "positions" : "position", "given {}, allowed the table's 0 to {}", p, known - 1);
      if constexpr (detail::ChecksPosition<Position>)
        if (Status s = position_.check_position(p); !s.ok()) return s;
    }
    return {};
  }

  // A row must not depend on where a chunk ends: keys that it sees must be present.
  Status check_needed(const Call& call, Index b, Index length, Index q_len, bool cached) const noexcept {
    if (call.tree) return {};  // no node has keys after its own
    for (Index i = 0; i < q_len; ++i) {
      const Index needed = mask_of(call).keys_needed(QueryRow{b, 0, i, length + i});
      call.later = call.later || needed > length + i + 1;
      if (cached && needed > length + q_len)
        return Status::invalid("mask",
                               "given a chunk that ends at key {}, allowed none that ends before keys which row {} "
                               "sees: take the forward without a cache",
                               length + q_len, i);
    }
    return {};
  }

  // Rows are attended to once the piece that brings them has been appended: what they see must be held then.
  template <class K>
  Status check_held(const Call& call, Index b, const K& cache, Index q_len) const noexcept {
    const Index length = cache.length(), limit = detail::append_limit(cache);
    if (call.tree && q_len > limit)
      return Status::length("parents", "given {} nodes, allowed the {} that the cache takes at once", q_len, limit);
    if (q_len <= limit && detail::missing_after(cache, q_len).empty()) return {};
    if (Status s = detail::check_all_held(call.options.raw_logits, detail::missing_after(cache, q_len)); !s.ok())
      return s;
    for (Index i = 0; i < q_len; ++i) {
      const Index held = q_len - i < limit ? q_len : i + limit;
      const KeyRange missing = detail::missing_after(cache, held);
      for (Index head = 0; head < shape_.heads; ++head) {
        // A node of a tree may stand right after the context.
        const QueryRow q{b, head, i, call.tree ? length : length + i};
        if (Status s = detail::check_held(mask_of(call), q, length + held, missing); !s.ok()) return s;
        if (q_len > limit && mask_of(call).keys_needed(q) > length + i + 1)
          return Status::invalid("mask",
                                 "given row {}, which sees later keys, in a chunk of {}, allowed chunks up to the {} "
                                 "tokens that the cache takes at once",
                                 i, q_len, limit);
      }
    }
    return {};
  }

  Index rows_at_once(Index rows, bool later) const noexcept { return later || rows < chunk_rows ? rows : chunk_rows; }

  template <class Seen>
  Index stated_bytes(Index batch, Index q_len, Index kv_len, bool later) const noexcept {
    return call_bytes<Seen>(Workspace::product(batch), Workspace::product(batch, q_len), Workspace::product(q_len),
                            Workspace::product(kv_len), later) +
           Workspace::alignment;
  }
  template <class Seen>
  Index call_bytes(Index batch, Index rows, Index q_len, Index kv_len, bool later) const noexcept {
    const Index at_once = rows_at_once(rows, later);
    detail::WorkspaceSize size;
    size.take<Index>(batch);
    static_cast<void>(Chunk<Seen>(size, *this, batch, at_once, rows));
    return size.bytes +
           Kernel::template bytes<Compute>({std::min(batch, at_once), std::min(q_len, at_once), kv_len, shape_.heads,
                                            shape_.kv_heads, shape_.head_dim, shape_.v_head_dim,
                                            detail::concurrency_of(executor_), own_bytes<Seen>(cache_shape())});
  }

  /// The checked call: chunks of rows through projection, rotation, append, attention and output projection. Seen: the
  /// caches as the kernel sees them, Cache or TreeCache<Cache>.
  template <class Seen, class K>
  void run(const Call& call, K& caches, Scratch& scratch) const {
    static_assert(!HasOwnBlocks<Seen> || TreeKernel<Kernel>,
                  "lockstep: draft trees are offered under kernels Tiled and Specification");
    const Index rows = call.rows();
    if (rows == 0) return;
    const detail::Sequences sequences = call.sequences();
    Index at_once = rows_at_once(rows, call.later);
    Workspace& workspace = call.options.workspace != nullptr ? *call.options.workspace : scratch.workspace;
    workspace.reserve(
        call_bytes<Seen>(sequences.count, rows, sequences.longest(), longest_after(caches, sequences), call.later));
    detail::Rollback<K> lengths(caches, workspace.template take<Index>(sequences.count));
    for (Index b = 0; b < sequences.count; ++b) {
      const Index limit = detail::append_limit(*detail::cache_at(caches, b));
      if (limit < sequences.length(b) && limit < at_once) at_once = limit;
      lengths.prepare(b, sequences.length(b));
    }
    Chunk<Seen> chunk(workspace, *this, sequences.count, at_once, rows);
    chunk.pieces.begin(sequences, call.x.extent[1], call.parents);
    for (; chunk.first < rows; chunk.first += chunk.rows) {
      chunk.rows = std::min(rows - chunk.first, at_once);
      chunk.begin = run_chunk(call, caches, lengths, chunk, workspace);
    }
    lengths.complete();
    for (Index b = 0; b < sequences.count; ++b)
      if constexpr (requires { detail::cache_at(caches, b)->set_table(table()); })
        if (sequences.length(b) > 0) detail::cache_at(caches, b)->set_table(table());
  }

  /// Which table rotates this layer's keys; 0 where none does.
  std::uint64_t table() const noexcept {
    if constexpr (detail::NamesItsTable<Position>)
      return position_.identity();
    else
      return 0;
  }

  /// Rows [first, first + rows) of all sequences taken one after the other.
  template <class Seen>
  struct Chunk {
    Index first = 0, rows = 0;
    detail::Sequences::Cursor begin{};  // the first row
    detail::Pieces<Compute, Seen> pieces;
    Index* positions;  // [rows] rotary
    Compute* qkv;      // [rows, query_width + key_width + value_width]
    Compute* context;  // [rows, context_width]
    Compute* x;        // [rows, hidden], where x must be widened or gathered first

    /// For up to `at_once` rows of so many sequences, which have all_rows.
    template <class Memory>
    Chunk(Memory& memory, const Attention& layer, Index sequences, Index at_once, Index all_rows) noexcept
        : pieces(memory, std::min(sequences, at_once), at_once, all_rows),
          positions(memory.template take<Index>(at_once)),
          qkv(memory.template take<Compute>(Workspace::product(at_once, layer.qkv_.out()))),
          context(memory.template take<Compute>(Workspace::product(at_once, layer.context_width()))),
          x(memory.template take<Compute>(Workspace::product(at_once, layer.shape_.hidden))) {}
  };

  /// f(view of rows, index of the first in the chunk): as few views as the tensor's strides allow, mostly one.
  template <class V, class Seen, class F>
  static void for_each_run_of_rows(const V& tensor, const Chunk<Seen>& chunk, F&& f) {
    using Rows = View<std::remove_pointer_t<decltype(tensor.data)>, 2>;
    const Index q_len = tensor.extent[1];
    const Index step = q_len == 1 ? tensor.stride[0] : tensor.stride[1];
    if (tensor.extent[0] == 1 || q_len == 1 || tensor.stride[0] == q_len * tensor.stride[1])
      return f(Rows(tensor.data + chunk.first * step, {chunk.rows, tensor.extent[2]}, {step, tensor.stride[2]}),
               Index{0});
    detail::Sequences(tensor.extent[0], q_len, {})
        .for_each_piece({chunk.first / q_len, chunk.first % q_len}, chunk.rows,
                        [&](Index b, Index row, Index rows, Index done) { f(tensor.at(b).part(0, row, rows), done); });
  }

  /// Normalises and rotates the queries and keys of one token.
  void rotate(Compute* row, Index position) const noexcept {
    const auto normalise = [&]() noexcept {
      norm_.query(row, shape_.heads, shape_.head_dim);
      norm_.key(row + query_width(), shape_.kv_heads, shape_.head_dim);
    };
    if constexpr (Norm::active && Norm::before_rotation) normalise();
    for (Index h = 0; h < shape_.heads + shape_.kv_heads; ++h) position_.rotate(row + h * shape_.head_dim, position);
    if constexpr (Norm::active && !Norm::before_rotation) normalise();
  }

  /// Logits before the mask are there for keys of the same chunk too, where there are such: how many must not show.
  template <class Seen>
  static void hide_unneeded(const Mask& mask, const AttentionCall<Compute, Seen>& call) noexcept {
    for (Index head = 0; head < call.raw_logits.extent[0]; ++head)
      for (Index i = 0; i < call.raw_logits.extent[1]; ++i)
        for (Index key = std::max(Index{0}, mask.keys_needed(call.row(i, head))); key < call.kv_len; ++key)
          call.raw_logits(head, i, key) = -std::numeric_limits<Compute>::infinity();
  }

  /// Returns the row after the chunk.
  template <class K, class Seen>
  detail::Sequences::Cursor run_chunk(const Call& call, K& caches, const detail::Rollback<K>& lengths,
                                      Chunk<Seen>& chunk, Workspace& workspace) const {
    const detail::Sequences sequences = call.sequences();
    const Index q_len = call.x.extent[1], width = qkv_.out();
    const auto qkv = View<Compute, 2>::contiguous(chunk.qkv, {chunk.rows, width});
    const auto context = View<Compute, 2>::contiguous(chunk.context, {chunk.rows, context_width()});
    const auto heads_of = [&](Index first_column, Index done, Index rows, Index heads, Index dim) {
      return View<Compute, 3>(chunk.qkv + done * width + first_column, {rows, heads, dim}, {width, dim, 1});
    };
    const auto piece_rows = [&](Index done, Index rows) { return qkv.part(0, done, rows); };

    for_each_run_of_rows(call.x, chunk, [&](auto x, Index done) {
      project(x, qkv_, piece_rows(done, x.extent[0]), executor_, chunk.x);
    });
    chunk.pieces.clear();
    const auto end = sequences.for_each_piece(chunk.begin, chunk.rows, [&](Index b, Index row, Index rows, Index done) {
      const Index place = lengths.length(b) + row, first = chunk.first + done;
      const auto& piece =
          chunk.pieces.add({.query = heads_of(0, done, rows, shape_.heads, shape_.head_dim),
                            .context = View<Compute, 3>::contiguous(chunk.context + done * context_width(),
                                                                    {rows, shape_.heads, shape_.v_head_dim}),
                            .sequence = b,
                            .first_row = row,
                            .first_place = place,
                            .kv_len = place + rows},
                           *detail::cache_at(caches, b), call.options, first, done);
      for (Index i = 0; i < rows; ++i) chunk.positions[done + i] = call.position(first + i, piece.row(i, 0).place);
    });
    detail::for_each_task(executor_, chunk.rows, {.bytes = chunk.rows * (query_width() + key_width()) * 8},
                          [&](Index, Index i) noexcept { rotate(chunk.qkv + i * width, chunk.positions[i]); });
    sequences.for_each_piece(chunk.begin, chunk.rows, [&](Index b, Index, Index rows, Index done) {
      CacheOf<K>& cache = *detail::cache_at(caches, b);
      cache.append(heads_of(query_width(), done, rows, shape_.kv_heads, shape_.head_dim),
                   heads_of(query_width() + key_width(), done, rows, shape_.kv_heads, shape_.v_head_dim));
    });

    const auto rules = detail::rules_of(mask_of(call), logits_, sharing_, dropout_, bias_, sinks_, shape_,
                                        call.options.mode == Mode::training, call.options.logit_stage);
    const Index mark = workspace.mark();
    Kernel::template attend<Compute, Seen>(chunk.pieces.calls(), rules, executor_, workspace);
    workspace.rewind(mark);
    if (call.options.raw_logits.present())
      for (const auto& piece : chunk.pieces.calls()) hide_unneeded(mask_of(call), piece);

    for_each_run_of_rows(call.y, chunk, [&](auto y, Index done) {
      project(View<const Compute, 2>(context.part(0, done, y.extent[0])), output_, y, executor_,
              static_cast<Compute*>(nullptr));
    });
    for (Index i = 0; call.options.context.present() && i < chunk.rows; ++i)
      for (Index n = 0; n < context_width(); ++n)
        call.options.context((chunk.first + i) / q_len, (chunk.first + i) % q_len, n) = context(i, n);
    return end;
  }

  LayerShape shape_;
  [[no_unique_address]] Position position_;
  [[no_unique_address]] Mask mask_;
  [[no_unique_address]] Sharing sharing_;
  [[no_unique_address]] Logits logits_;
  [[no_unique_address]] Bias bias_;
  [[no_unique_address]] Sinks sinks_;
  [[no_unique_address]] Norm norm_;
  [[no_unique_address]] Dropout dropout_;
  [[no_unique_address]] Executor executor_;
  PackedWeights<WeightElement> qkv_;
  PackedWeights<WeightElement> output_;
  Index biases_ = 0;
  std::shared_ptr<detail::ScratchPool<Scratch>> pool_ = std::make_shared<detail::ScratchPool<Scratch>>();
};

}  // namespace lockstep
