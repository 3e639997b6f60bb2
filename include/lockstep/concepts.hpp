// What each kind of policy must offer, with its laws in words.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>

#include "lockstep/contract.hpp"
#include "lockstep/views.hpp"

namespace lockstep {

/// The kinds of policy. Every policy type says its own by a member `static constexpr PolicyKind policy_kind`. What a
/// kind may offer besides, a policy offers as it is said there, const and noexcept, or not at all: another form is
/// refused. For the same bits in every build, in a user's policy too a product that feeds an addition is fma() or
/// passes rounded(), or compilers fuse it where they may and not elsewhere; and so do sums, where -fassociative-math
/// may come.
enum class PolicyKind { position, mask, heads, logits, bias, sinks, norm, cache, dropout, weights, kernel, executor };

/// One row of attention: which query of which sequence, and where it stands.
struct QueryRow {
  Index sequence = 0;  ///< index in the batch of the call
  Index head = 0;      ///< query head
  Index row = 0;       ///< index of the query in the call, 0 .. q_len - 1
  Index place = 0;     ///< index of the query in its own sequence: offset + row
};

/// The half-open range of key places [first, last).
struct KeyRange {
  Index first = 0;                                                 ///< the lowest place
  Index last = 0;                                                  ///< the place after the highest
  constexpr bool empty() const noexcept { return first >= last; }  ///< no place
  constexpr Index size() const noexcept { return last - first; }   ///< places, where not empty
  friend constexpr bool operator==(KeyRange, KeyRange) noexcept = default;
};

/// The places that lie in both; {0, 0} where there are none.
constexpr KeyRange intersection(KeyRange a, KeyRange b) noexcept {
  const KeyRange both{a.first > b.first ? a.first : b.first, a.last < b.last ? a.last : b.last};
  return both.empty() ? KeyRange{} : both;
}

/// The least range that holds both; a where b has no place.
constexpr KeyRange hull(KeyRange a, KeyRange b) noexcept {
  if (a.empty() || b.empty()) return b.empty() ? a : b;
  return {a.first < b.first ? a.first : b.first, a.last > b.last ? a.last : b.last};
}

/// The places of block b.
constexpr KeyRange block_places(Index b) noexcept { return {b * block_keys, (b + 1) * block_keys}; }

/// What a mask says of a row and a range of keys: it sees none of them, some (ask for each), or all.
enum class Visibility { none, some, all };

/// keys_needed() of a mask whose rows see every key there will ever be.
inline constexpr Index all_keys = std::numeric_limits<Index>::max();

namespace detail {
/// Refuses a place of the first query from which sums with lengths and windows could leave 64 bits.
inline Status check_offset(Index offset) noexcept {
  constexpr Index limit = Index{1} << 62;
  if (offset < -limit || offset > limit) return Status::invalid("offset", "given {}, allowed -2^62 to 2^62", offset);
  return {};
}

/// A policy before a layer gives it its element or compute type C: a name only, of P<First..., C>.
template <PolicyKind Kind, template <class...> class P, class... First>
struct Unbound {
  static constexpr PolicyKind policy_kind = Kind;
  template <class C>
  using rebind = P<First..., C>;
};

template <class P, PolicyKind Kind>
concept OfKind = requires {
  { P::policy_kind } -> std::convertible_to<PolicyKind>;
  requires P::policy_kind == Kind;
};

// What a kind of policy may offer beyond what it must, a policy has as asked (const, noexcept, of that type) or not at
// all: in another form it would be passed over, and what it refuses let through. `&P::member` sees one of any
// signature.
template <class P, class... Numbers>
concept ChecksItself = requires(const P& policy, Numbers... numbers) {
  { policy.check(numbers...) } noexcept -> std::same_as<Status>;
};
template <class P, class... Numbers>
concept NoOtherCheck =
    ChecksItself<P, Numbers...> || !requires(P& policy, Numbers... numbers) { policy.check(numbers...); };
template <class P>
concept NamesCheck = requires { &P::check; };
template <class P, class... Numbers>
concept OptionalCheck = NoOtherCheck<P, Numbers...> && (ChecksItself<P, Numbers...> || !NamesCheck<P>);
template <class P>
concept Prepares = requires(P& policy, Index n) { policy.prepare(n); };
template <class P>
concept OptionalPrepare = Prepares<P> || !(requires { &P::prepare; });

/// What a policy says of itself, given the numbers that its kind of check takes, if it says anything.
template <class P, class... Numbers>
Status check_policy(const P& policy, Numbers... numbers) noexcept {
  if constexpr (ChecksItself<P, Numbers...>)
    return policy.check(numbers...);
  else
    return {};
}

template <class M>
concept ChecksCall = ChecksItself<M, Index, Index, Index>;
template <class M>
concept ChecksCallAndHeads = ChecksItself<M, Index, Index, Index, Index>;
template <class M>
concept OptionalMaskChecks =
    NoOtherCheck<M> && NoOtherCheck<M, Index, Index, Index> && NoOtherCheck<M, Index, Index, Index, Index> &&
    (ChecksItself<M> || ChecksCall<M> || ChecksCallAndHeads<M> || !NamesCheck<M>);
template <class M>
concept NarrowsKeys = requires(const M& m, QueryRow q, KeyRange keys) {
  { m.narrowed(q, keys) } noexcept -> std::same_as<KeyRange>;
};
template <class M>
concept OptionalNarrowed =
    NarrowsKeys<M> ||
    (!requires(M& m, QueryRow q, KeyRange keys) { m.narrowed(q, keys); } && !requires { &M::narrowed; });
template <class M, class C>
concept AddsTo = requires(const M& m, C s, C* block, QueryRow q, Index n, KeyRange keys) {
  { m.add(s, q, n) } noexcept -> std::same_as<C>;
  { m.add(block, q, keys) } noexcept;
};
template <class M, class C>
concept NoOtherAdd = AddsTo<M, C> || !requires(M& m, C* block, QueryRow q, KeyRange keys) { m.add(block, q, keys); };
template <class M>
concept OptionalAdd = NoOtherAdd<M, float> && NoOtherAdd<M, double> &&
                      (AddsTo<M, float> || AddsTo<M, double> ||
                       (!requires(M& m, QueryRow q, Index n) { m.add(1.0F, q, n); } && !requires { &M::add; }));
template <class P>
concept ChecksPosition = requires(const P& p, Index position) {
  { p.check_position(position) } noexcept -> std::same_as<Status>;
};
template <class P>
concept OptionalPositionCheck =
    ChecksPosition<P> ||
    (!requires(P& p, Index position) { p.check_position(position); } && !requires { &P::check_position; });
template <class P>
concept NamesItsTable = requires(const P& p) {
  { p.identity() } noexcept -> std::convertible_to<std::uint64_t>;
};
template <class P>
concept OptionalIdentity = NamesItsTable<P> || (!requires(P& p) { p.identity(); } && !requires { &P::identity; });
template <class H>
concept AcceptsHeads = requires(Index n) {
  { H::accepts(n, n) } noexcept -> std::same_as<bool>;
};
template <class H>
concept OptionalAccepts =
    AcceptsHeads<H> || (!requires(H& h, Index n) { h.accepts(n, n); } && !requires { &H::accepts; });
template <class K>
concept LimitsAppends = requires(const K& cache) {
  { cache.append_limit() } noexcept -> std::same_as<Index>;
};
template <class K>
concept MissesPlaces = requires(const K& cache, Index n) {
  { cache.missing_after(n) } noexcept -> std::same_as<KeyRange>;
};
template <class K>
concept ChecksTruncate = requires(const K& cache, Index n) {
  { cache.check_truncate(n) } noexcept -> std::same_as<Status>;
};
template <class K>
concept RollsBack = requires(K& k, const K& cache, Index n) {
  { cache.takes_back(n) } noexcept -> std::same_as<bool>;
  k.rollback(n);
};
template <class K>
concept OptionalCacheMembers =
    (LimitsAppends<K> || (!requires(K& k) { k.append_limit(); } && !requires { &K::append_limit; })) &&
    (MissesPlaces<K> || (!requires(K& k, Index n) { k.missing_after(n); } && !requires { &K::missing_after; })) &&
    (ChecksTruncate<K> || (!requires(K& k, Index n) { k.check_truncate(n); } && !requires { &K::check_truncate; })) &&
    (RollsBack<K> || (!requires(K& k, Index n) { k.takes_back(n); } && !requires { &K::takes_back; })) &&
    (requires(K& k, Index n) { k.reserve(n); } || !requires { &K::reserve; });
/// Stands for what run() is handed: a callable with state, hence no function pointer.
struct TaskArchetype {
  const void* state = nullptr;
  void operator()(Index) const noexcept {}
};
template <class E>
concept SaysWhatPays = requires(const E& e) {
  { e.parallel_from() } noexcept -> std::convertible_to<Index>;
};
template <class E>
concept OptionalParallelFrom =
    SaysWhatPays<E> || (!requires(E& e) { e.parallel_from(); } && !requires { &E::parallel_from; });
}  // namespace detail

/// Which keys a query sees. A cheap value; nothing in it may throw.
/// - `range(q, kv_len)`: the keys worth visiting, within [0, kv_len). Law: nothing outside is visible.
/// - `block(q, keys)`: for a part of that range. Laws: `none` means none of them is visible, `all` means each is.
/// - `visible(q, key)`: for one key of that range.
/// - `keys_needed(q)`: how many keys must be present for the row to be final in every head (place + 1 for causal,
///   `all_keys` where later keys are seen whatever their number). A cached forward that ends before them is refused.
///
/// Optional, each noexcept:
/// - `check() -> Status`: refuses the mask's own numbers; `check(sequences, q_len, kv_len) -> Status`, or with the
///   number of heads as a fourth argument: refuses arrays that do not fit a call. Asked before anything is written.
/// - `narrowed(q, keys) -> KeyRange`: a part of `keys`, which lie in the range. Law: nothing in the rest is visible.
///   Then block() is asked of that part alone, so that a row whose keys in a block are one range costs no look at
///   single keys.
/// - `add`: what the mask adds to logits, see AddingMask.
template <class M>
concept Mask =
    detail::OfKind<M, PolicyKind::mask> && std::copyable<M> && detail::OptionalMaskChecks<M> &&
    detail::OptionalNarrowed<M> && detail::OptionalAdd<M> && requires(const M& m, QueryRow q, Index n, KeyRange keys) {
      { m.range(q, n) } noexcept -> std::same_as<KeyRange>;
      { m.block(q, keys) } noexcept -> std::same_as<Visibility>;
      { m.visible(q, n) } noexcept -> std::same_as<bool>;
      { m.keys_needed(q) } noexcept -> std::same_as<Index>;
    };

/// A mask that also adds to the logits, after their transform and before hidden keys are left out: fl(s + b).
/// - `add(s, q, key)`: the logit with the addend, for any key that is present; outside of range(q) it is not looked at.
/// - `add(s, q, keys)`: the same, in place, for the logits s[0 .. keys.size()) of keys within range(q).
///
/// Laws: both forms agree bit for bit; an addend of 0 has the bits of none.
template <class M, class C>
concept AddingMask = Mask<M> && detail::AddsTo<M, C>;

/// Rotates query and key head rows by their absolute position, in place.
/// - `rotate(row, position)`: row of at least rotary_dim() numbers. Laws: position 0 only scales by the stated
///   magnitude (1 for plain RoPE); norms scale by it; the product of a rotated query and key depends on their distance.
/// - `rotary_dim()`: how many leading numbers of a row it changes.
/// - `positions()`: positions 0 .. positions() - 1 are known.
///
/// Optional: `prepare(head_dim)`, called once by the layer before it checks; `rebind<C>`, the same policy for compute
/// type C; `check_position(position) -> Status`, asked by the layer before it rotates, where a position may be refused
/// that lies within positions(); `identity() -> std::uint64_t`, equal for policies that rotate alike (0: not at all);
/// `shift(rows, delta)` and `shift(row, delta)` with `check_shift(delta) -> Status`, which move rotated rows on by
/// delta positions without scaling them.
template <class P, class C>
concept Position =
    detail::OfKind<P, PolicyKind::position> && std::copyable<P> && detail::OptionalPrepare<P> &&
    detail::OptionalPositionCheck<P> && detail::OptionalIdentity<P> && requires(const P& p, C* row, Index position) {
      { p.rotate(row, position) } noexcept;
      { p.rotary_dim() } noexcept -> std::same_as<Index>;
      { p.positions() } noexcept -> std::same_as<Index>;
    };

/// Which kv head a query head reads. Law: the result is in [0, kv_heads). Optional: a static
/// `accepts(heads, kv_heads) -> bool`, which says for which numbers there is such a map.
template <class H>
concept HeadSharing = detail::OfKind<H, PolicyKind::heads> && std::copyable<H> && detail::OptionalAccepts<H> &&
                      requires(const H& h, Index n) {
                        { h.kv_head(n, n, n) } noexcept -> std::same_as<Index>;
                      };

/// What happens to a logit between the dot product and the bias.
/// - `scale(head_dim)`: the factor on the query, in double (rounded once to the compute type).
/// - `apply(s, q, key)`: the transformed logit; `apply(s, q, keys)`: the same, in place, for the logits s[0 ..
/// keys.size()) of a range of keys. Law: both forms agree bit for bit.
/// Optional: `check() -> Status`.
template <class L, class C>
concept LogitTransform = detail::OfKind<L, PolicyKind::logits> && std::copyable<L> && detail::OptionalCheck<L> &&
                         requires(const L& l, C s, C* block, QueryRow q, Index n, KeyRange keys) {
                           { l.scale(n) } noexcept -> std::same_as<double>;
                           { l.apply(s, q, n) } noexcept -> std::same_as<C>;
                           { l.apply(block, q, keys) } noexcept;
                         };

/// A number that is added to a logit after its transform and depends on the head and the two places alone.
/// - `apply(s, q, key)`: the logit with its bias; `apply(s, q, keys)`: the same, in place, for the logits s[0 ..
/// keys.size()) of a range of keys. Law: both forms agree bit for bit.
/// Optional: `check(heads) -> Status`, for biases that hold numbers for each head; `prepare(heads)`, called once by the
/// layer before it checks; `rebind<C>`, the same policy for compute type C.
template <class B, class C>
concept LogitBias =
    detail::OfKind<B, PolicyKind::bias> && std::copyable<B> && detail::OptionalCheck<B, Index> &&
    detail::OptionalPrepare<B> && requires(const B& b, C s, C* block, QueryRow q, Index n, KeyRange keys) {
      { b.apply(s, q, n) } noexcept -> std::same_as<C>;
      { b.apply(block, q, keys) } noexcept;
    };

/// A logit for each query head that takes part in the softmax like one more key with a value of zeros.
/// - `active`: whether there are any; `logit(head)`: it, finite or -inf, which is none.
/// Optional: `check(heads) -> Status`; `rebind<C>`.
template <class S, class C>
concept SinkLogits = detail::OfKind<S, PolicyKind::sinks> && std::copyable<S> && detail::OptionalCheck<S, Index> &&
                     requires(const S& s, Index head) {
                       { S::active } -> std::convertible_to<bool>;
                       { s.logit(head) } noexcept -> std::convertible_to<C>;
                     };

/// Normalises projected queries and keys, in place.
/// - `active`: whether it does anything; `before_rotation`: whether it comes before the rotation or after it.
/// - `query(rows, heads, head_dim)`, `key(rows, heads, head_dim)`: the head rows of one token, without gaps.
/// Optional: `check(heads, kv_heads, head_dim) -> Status`; `rebind<C>`.
template <class N, class C>
concept QueryKeyNorm = detail::OfKind<N, PolicyKind::norm> && std::copyable<N> &&
                       detail::OptionalCheck<N, Index, Index, Index> && requires(const N& norm, C* rows, Index n) {
                         { N::active } -> std::convertible_to<bool>;
                         { N::before_rotation } -> std::convertible_to<bool>;
                         { norm.query(rows, n, n) } noexcept;
                         { norm.key(rows, n, n) } noexcept;
                       };

/// Numbers of one kv head's cache.
struct CacheShape {
  Index kv_heads = 0;
  Index head_dim = 0;
  Index v_head_dim = 0;
  friend constexpr bool operator==(const CacheShape&, const CacheShape&) noexcept = default;
};

/// One block of 256 places of one kv head, in the layout of cache/layout.hpp.
template <class S>
struct CacheBlock {
  const S* keys = nullptr;              ///< BlockLayout<S>::key_block() elements
  const S* values = nullptr;            ///< BlockLayout<S>::value_block() elements
  const float* key_scales = nullptr;    ///< [256] for int8, where a key is code x scale of its place; else null
  const float* value_scales = nullptr;  ///< the same of values
};

/// Keys and values of one sequence.
/// - `check_append(tokens)`: ok, or why not; `append(keys, values)`: [tokens, kv_heads, dim], all or nothing, rounded
/// once to Storage.
/// - `truncate(n)`: keeps the first n places. `block(kv_head, b)`: places [256 b, 256 b + 256).
/// Laws: what was appended is what is read; a full cache is an error, never silent; nothing but append and truncate
/// changes the length.
///
/// Optional, most for caches that do not keep every place:
/// - `first()`: the lowest place from which on all are held.
/// - `missing_after(tokens)`: the places that are not held once so many more have been appended, in whatever pieces.
/// A row that sees one of them is refused. first() = missing_after(0).last.
/// - `append_limit()`: the most tokens, at least 1, that one append may bring before they are attended to: more would
/// push out what the first of them sees. The layer appends and attends in pieces of it, and works on a copy where a
/// forward is longer, so such a cache is copyable. Law: what one append of this size brought can be truncated again.
/// - `reserve(tokens)`: takes the memory for so many more, or raises and changes nothing; the layer calls it for all
/// caches of a batch before anything is written. truncate() gives back what was not used.
/// - `check_truncate(n)`: ok, or why places that a row at n may need are gone; truncate(n) then changes nothing.
/// - `takes_back(tokens) -> bool` and `rollback(n)`: whether, once so many more have been appended, rollback(n) to the
/// present length leaves the cache as it is now, also in what it holds and can be truncated to. Without them a cache
/// takes back by truncate() what its append_limit() allows. Where a forward cannot be taken back it works on a copy.
/// - static `check_append_together(count, at, tokens) -> Status`, for caches that take memory from where others take
/// theirs: whether tokens(i) can be appended to all of the caches at(i), i < count; at(i) may be null. Each has been
/// asked by check_append() before.
template <class K>
concept KeyValueCache = detail::OfKind<K, PolicyKind::cache> && CacheElement<typename K::Storage> && std::movable<K> &&
                        detail::OptionalCacheMembers<K> &&
                        requires(K& k, const K& c, Index n, View<const compute_t<typename K::Storage>, 3> rows) {
                          { c.shape() } noexcept -> std::convertible_to<CacheShape>;
                          { c.length() } noexcept -> std::same_as<Index>;
                          { c.capacity() } noexcept -> std::same_as<Index>;
                          { c.bytes() } noexcept -> std::same_as<Index>;
                          { c.check_append(n) } noexcept -> std::same_as<Status>;
                          { c.block(n, n) } noexcept -> std::same_as<CacheBlock<typename K::Storage>>;
                          k.append(rows, rows);
                          k.truncate(n);
                        };

namespace detail {

/// Refuses a cache, or what is one, of another shape.
inline Status check_cache_shape(const char* argument, const CacheShape& given, const CacheShape& allowed) noexcept {
  if (given == allowed) return {};
  return Status::invalid(argument, "given {} kv heads of {} and {}, allowed {} of {} and {}", given.kv_heads,
                         given.head_dim, given.v_head_dim, allowed.kv_heads, allowed.head_dim, allowed.v_head_dim);
}
/// A CacheBlock that may be written.
template <class S>
struct WritableBlock {
  S* keys = nullptr;
  S* values = nullptr;
  float* key_scales = nullptr;
  float* value_scales = nullptr;
  CacheBlock<S> read_only() const noexcept { return {keys, values, key_scales, value_scales}; }
};

/// The part of `keys`, of a mask's range, of which it still has to be asked: nothing in the rest is visible.
template <class M>
KeyRange narrowed(const M& mask, QueryRow q, KeyRange keys) noexcept {
  if constexpr (NarrowsKeys<M>)
    return mask.narrowed(q, keys);
  else
    return keys;
}
/// Whether a mask adds in some compute type. In a layer that computes in another one it is refused, not passed over.
template <class M>
inline constexpr bool mask_adds = AddingMask<M, float> || AddingMask<M, double>;

/// The most tokens that one append may bring before they are attended to.
template <class K>
Index append_limit(const K& cache) noexcept {
  if constexpr (LimitsAppends<K>)
    return cache.append_limit();
  else
    return std::numeric_limits<Index>::max();
}

/// The places that are not held once `tokens` more have been appended.
template <class K>
KeyRange missing_after(const K& cache, Index tokens) noexcept {
  if constexpr (MissesPlaces<K>)
    return cache.missing_after(tokens);
  else
    return {};
}

/// Whether a cache takes `tokens` more, in pieces of at most its limit.
template <class K>
Status check_append_all(const K& cache, Index tokens) noexcept {
  const Index limit = append_limit(cache);
  if (tokens <= limit) return cache.check_append(tokens);
  if (tokens > cache.capacity() - cache.length())
    return Status::length("cache", "given {} tokens to append to {}, allowed {} in all", tokens, cache.length(),
                          cache.capacity());
  return cache.check_append(limit);
}

/// Whether `count` caches, at(i) or null for none, take tokens(i) each where all are to be appended: caches may share
/// what they take memory from. Each alone takes its own: one cache has been asked already.
template <class K, class At, class Tokens>
Status check_append_together(Index count, const At& at, const Tokens& tokens) noexcept {
  if constexpr (requires { K::check_append_together(count, at, tokens); })
    if (count > 1) return K::check_append_together(count, at, tokens);
  return {};
}

/// Whether what is appended next, `tokens` in all, can be taken back.
template <class K>
bool takes_back(const K& cache, Index tokens) noexcept {
  if constexpr (RollsBack<K>)
    return cache.takes_back(tokens);
  else
    return tokens <= append_limit(cache);
}
/// Takes back what was appended to a cache of `length` tokens.
template <class K>
void roll_back(K& cache, Index length) {
  if constexpr (RollsBack<K>)
    cache.rollback(length);
  else
    cache.truncate(length);
}

/// Whether a cache can be cut down to `length` tokens.
template <class K>
Status check_truncate(const K& cache, Index length) noexcept {
  if (length < 0 || length > cache.length())
    return Status::invalid("length", "given {}, allowed 0 to {}", length, cache.length());
  if constexpr (ChecksTruncate<K>)
    return cache.check_truncate(length);
  else
    return {};
}

/// Refuses logits on request of keys that are no longer held.
template <class C>
Status check_all_held(const View<C, 4>& raw_logits, KeyRange missing) noexcept {
  if (raw_logits.present() && !missing.empty())
    return Status::invalid("raw_logits",
                           "given with a cache that does not hold places {} to {}, allowed with caches that hold all",
                           missing.first, missing.last - 1);
  return {};
}
/// Refuses a row that sees places which are not held.
template <class M>
Status check_held(const M& mask, QueryRow q, Index kv_len, KeyRange missing) noexcept {
  if (missing.empty()) return {};
  const KeyRange asked = intersection(mask.range(q, kv_len), missing);
  if (asked.empty() || mask.block(q, asked) == Visibility::none) return {};
  return Status::invalid("mask",
                         "given row {}, which sees keys between {} and {}, allowed rows that see none of the places {} "
                         "to {}, which the cache no longer holds",
                         q.row, asked.first, asked.last - 1, missing.first, missing.last - 1);
}

}  // namespace detail

/// Leaves weights out at random, in training only. `bind(stream)` gives the pattern of one sequence, a value with
/// `kept(head, query place, key place)` and `factor()`, the 1/(1-p) of the finish.
/// Law: the pattern depends on seed, stream, head and places alone.
/// Optional: `check() -> Status`.
template <class D>
concept DropoutPattern = detail::OfKind<D, PolicyKind::dropout> && std::copyable<D> && detail::OptionalCheck<D> &&
                         requires(const D& d, std::uint32_t stream, Index n) {
                           { D::active } -> std::convertible_to<bool>;
                           { d.bind(stream).kept(n, n, n) } noexcept -> std::same_as<bool>;
                           { d.bind(stream).factor() } noexcept -> std::same_as<double>;
                         };

/// The element type in which projection weights are kept: `Storage`.
template <class W>
concept WeightFormat = detail::OfKind<W, PolicyKind::weights> && Element<typename W::Storage>;

/// Runs f(i) once for each i in [0, n), in any order, on any threads, and returns when all have returned. f is any
/// callable that does not throw; it has state. run() may throw, once no f runs any more: the call that it serves fails
/// with that, and leaves caches as they were.
/// `concurrency()`: how many of them may run at once, at least 1, the same throughout a call. Optional:
/// `parallel_from()`, the work in nanoseconds from which on it pays.
template <class E>
concept Executor = detail::OfKind<E, PolicyKind::executor> && std::copyable<E> && detail::OptionalParallelFrom<E> &&
                   requires(const E& e, Index n, detail::TaskArchetype& f) {
                     { e.concurrency() } noexcept -> std::same_as<Index>;
                     e.run(n, f);
                   };

/// How attention is evaluated; see kernel/call.hpp for what it is given. `Kernel::bytes<C>(shape)` is the workspace it
/// asks for.
template <class K>
concept AttentionKernel = detail::OfKind<K, PolicyKind::kernel> && std::copyable<K>;

}  // namespace lockstep
