// Sequences of one layer under random operations, each held against plain lists, Specification and double.
#pragma once

#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "kernel_instances.hpp"
#include "reference.hpp"
#include "tokens.hpp"

namespace fuzz {

/// Rotary positions of either pairing, or none.
struct SwitchedRope {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::position;
  reference::Pairing pairing = reference::Pairing::none;
  ls::Rope<ls::HalfSplit, float> halves{};
  ls::Rope<ls::Interleaved, float> neighbours{};

  bool on() const noexcept { return pairing != reference::Pairing::none; }
  bool apart() const noexcept { return pairing == reference::Pairing::half_split; }
  void rotate(float* row, Index position) const noexcept {
    if (on()) apart() ? halves.rotate(row, position) : neighbours.rotate(row, position);
  }
  void shift(float* row, Index delta) const noexcept {
    if (on()) apart() ? halves.shift(row, delta) : neighbours.shift(row, delta);
  }
  ls::Status check_shift(Index delta) const noexcept { return on() ? halves.check_shift(delta) : ls::Status{}; }
  Index rotary_dim() const noexcept { return on() ? halves.rotary_dim() : 0; }
  Index positions() const noexcept { return on() ? halves.positions() : Index{1} << 40; }
  std::uint64_t identity() const noexcept { return !on() ? 0 : apart() ? halves.identity() : neighbours.identity(); }
};

/// A norm of each head that can be switched off. Its epsilon keeps rows near zero from being blown up, errors and all.
struct SwitchedNorm {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::norm;
  static constexpr bool active = true, before_rotation = true;
  static constexpr double epsilon = 0.1;
  bool on = false;
  ls::QkNorm<ls::BeforeRope, ls::PerHead, float> norm{};

  ls::Status check(Index heads, Index kv_heads, Index head_dim) const noexcept {
    return on ? norm.check(heads, kv_heads, head_dim) : ls::Status{};
  }
  void query(float* rows, Index heads, Index head_dim) const noexcept {
    if (on) norm.query(rows, heads, head_dim);
  }
  void key(float* rows, Index kv_heads, Index head_dim) const noexcept {
    if (on) norm.key(rows, kv_heads, head_dim);
  }
};

/// A soft-cap that can be switched off.
struct SwitchedSoftCap {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::logits;
  bool on = false;
  ls::SoftCap softcap{.cap = 3};

  double scale(Index head_dim) const noexcept { return softcap.scale(head_dim); }
  float apply(float logit, ls::QueryRow q, Index key) const noexcept {
    return on ? softcap.apply(logit, q, key) : logit;
  }
  void apply(float* logits, ls::QueryRow q, ls::KeyRange keys) const noexcept {
    if (on) softcap.apply(logits, q, keys);
  }
};

/// A layer as an input chooses it.
struct Setup {
  ls::LayerShape shape{};
  SwitchedRope position{};
  ls::SlidingWindow mask{};
  SwitchedSoftCap softcap{};
  std::vector<float> slopes{};                  // [heads]; zeros: no ALiBi
  std::vector<float> sinks{};                   // [heads]; -inf: none
  std::vector<float> query_norm{}, key_norm{};  // [head_dim]
  SwitchedNorm norm{};
  Index threads = 1;
  std::uint64_t seed = 0;

  explicit Setup(Bytes& in) {
    constexpr Index head_dims[] = {2, 1, 3, 4, 8, 16, 17}, windows[] = {Index{1} << 40, 1, 2, 5, 16, 100, 256, 300};
    constexpr Index lengths[] = {2048, 40, 300};
    shape.kv_heads = 1 + in.below(2);
    shape.heads = shape.kv_heads * (1 + in.below(3));
    shape.head_dim = in.pick(head_dims);
    shape.v_head_dim = in.pick(head_dims);
    shape.hidden = 1 + in.below(8);
    seed = in.byte();
    if (in.one_in(2) && shape.head_dim > 1) {
      const ls::RopeTable<float> table(
          {.rotary_dim = 2 + in.below(shape.head_dim / 2) * 2, .positions = in.pick(lengths)});
      position.pairing = (seed & 8) != 0 ? reference::Pairing::interleaved : reference::Pairing::half_split;
      position.halves = table;
      position.neighbours = table;
    }
    mask.window = in.pick(windows);
    mask.sinks = in.one_in(3) ? in.below(300) : 0;
    softcap.on = in.one_in(3);
    const bool alibi = in.one_in(3);
    for (Index h = 0; h < shape.heads; ++h) slopes.push_back(alibi ? 0.25F / static_cast<float>(h + 1) : 0.0F);
    for (const float logit : bits::numbers<float>(shape.heads, seed + 11))
      sinks.push_back((seed & 2) != 0 ? 3 * logit : -std::numeric_limits<float>::infinity());
    norm.on = (seed & 4) != 0;
    for (const float weight : bits::numbers<float>(shape.head_dim, seed + 12)) {
      query_norm.push_back(1 + weight / 2);
      key_norm.push_back(1 - weight / 3);
    }
    norm.norm = {ls::View<const float, 1>(query_norm), ls::View<const float, 1>(key_norm), SwitchedNorm::epsilon};
    threads = 1 + in.below(3);
    std::vector<ls::InstructionSet> sets;
    for (const ls::InstructionSet set : ls::all_instruction_sets)
      if (ls::cpu_has(set)) sets.push_back(set);
    const ls::InstructionSet set = sets[at(in.below(static_cast<Index>(sets.size())))];
    ls::force_instruction_set(set);
    note("layer of " + std::to_string(shape.heads) + " heads over " + std::to_string(shape.kv_heads) + " of " +
         std::to_string(shape.head_dim) + " and " + std::to_string(shape.v_head_dim) + ", hidden " +
         std::to_string(shape.hidden) + ", rotary " + std::to_string(position.rotary_dim()) + " of " +
         std::to_string(position.positions()) + ", window " + std::to_string(mask.window) + ", sinks " +
         std::to_string(mask.sinks) + (softcap.on ? ", soft-cap" : "") + (alibi ? ", ALiBi" : "") +
         ((seed & 2) != 0 ? ", learned sinks" : "") + (norm.on ? ", q/k norm" : "") +
         (position.pairing == reference::Pairing::interleaved ? ", interleaved, " : ", ") + ls::name_of(set));
  }
  ls::CacheShape cache_shape() const { return {shape.kv_heads, shape.head_dim, shape.v_head_dim}; }
  bool visible(Index place, Index key) const { return key <= place && (key > place - mask.window || key < mask.sinks); }
};

/// A caller's pool that runs the last task first.
inline void run_backwards(void*, Index n, ls::Hook::Task task, void* argument) {
  while (n > 0) task(argument, --n);
}

/// Whether something raises the library's errors.
template <class F>
bool refused(F&& call) {
  try {
    call();
  } catch (const std::logic_error& error) {
    note(std::string("  ") + error.what());
    return true;
  }
  return false;
}

template <class Cache>
class World {
  using S = typename Cache::Storage;
  template <class K, class Kernel>
  using Layer = ls::Attention<float, ls::Dynamic, ls::Dynamic, SwitchedRope, ls::SlidingWindow, SwitchedSoftCap,
                              SwitchedNorm, ls::LearnedSinks<>, ls::Alibi<>, ls::Hook, K, Kernel>;
  using Full = ls::ContiguousCache<S>;
  struct Sequence {
    Cache cache;
    Tokens<S> tokens;
  };
  /// The rows that a sequence gets in one forward.
  struct Part {
    std::size_t sequence = 0;
    std::vector<Index> inputs{};
    std::vector<Index> positions{};
  };

 public:
  explicit World(Bytes& in)
      : in_(in),
        setup_(in),
        weights_(setup_.shape, setup_.seed, setup_.seed % 2 == 0, 0.75),
        layer_(make_layer<Layer<Cache, ls::Tiled>>(ls::Hook(run_backwards, nullptr, setup_.threads, 0))),
        plain_(make_layer<Layer<Full, ls::Specification>>(ls::Hook())) {
    constexpr Index capacities[] = {300, 0, 1, 17, 256, 257, 513, 700, 1100};
    room_.capacity = in.pick(capacities);
    if constexpr (std::same_as<Cache, ls::RingCache<S>>) {
      constexpr Index windows[] = {1, 2, 16, 100, 256, 257, 300}, slacks[] = {256, 0, 1, 7, 100, 300};
      room_.kind = Room::ring;
      room_.size = {.window = in.pick(windows),
                    .slack = in.pick(slacks),
                    .sink_tokens = in.pick({Index{0}, Index{3}, Index{256}, Index{257}})};
      room_.capacity = std::numeric_limits<Index>::max();
      if (in.below(4) != 3) setup_.mask.window = std::min(setup_.mask.window, room_.size.window);
      layer_ = make_layer<Layer<Cache, ls::Tiled>>(ls::Hook(run_backwards, nullptr, setup_.threads, 0));
      plain_ = make_layer<Layer<Full, ls::Specification>>(ls::Hook());
      note("rings of window " + std::to_string(room_.size.window) + ", slack " + std::to_string(room_.size.slack) +
           ", sinks " + std::to_string(room_.size.sink_tokens) + "; mask of window " +
           std::to_string(setup_.mask.window));
    } else if constexpr (std::same_as<Cache, ls::PagedCache<S>>) {
      const Index pages = in.below(9);
      room_.kind = Room::paged;
      room_.pages = std::make_shared<Pages>(pages);
      pool_.emplace(setup_.cache_shape(), pages);
      note("capacity " + std::to_string(room_.capacity) + ", " + std::to_string(pages) + " pages");
    } else {
      initial_ = in.pick({Index{-1}, Index{0}, Index{1}, Index{200}});
      initial_ = std::min(initial_, room_.capacity);
      note("capacity " + std::to_string(room_.capacity) + ", initial " + std::to_string(initial_));
    }
    sequences_.push_back({new_cache(), {}});
  }

  void run() {
    // What a long input may cost: pairs of queries and keys, and looking at every token after each step.
    while (!in_.empty() && work_ < 400000) {
      step();
      for (const Sequence& sequence : sequences_) {
        check(sequence);
        work_ += 50 + 4 * sequence.tokens.length();
      }
    }
    for (Sequence& sequence : sequences_) check_whole(sequence.tokens);
    if (pool_) {
      sequences_.clear();
      require(pool_->free_pages() == pool_->pages(), "all pages come back");
    }
  }

 private:
  template <class L>
  L make_layer(const ls::Hook& hook) const {
    return L(setup_.shape, weights_.views(), setup_.position, setup_.mask, setup_.softcap, setup_.norm,
             ls::LearnedSinks<float>(ls::View<const float, 1>(setup_.sinks)),
             ls::Alibi<float>(ls::View<const float, 1>(setup_.slopes)), hook);
  }
  Cache new_cache() const {
    if constexpr (std::same_as<Cache, ls::RingCache<S>>)
      return layer_.make_cache(room_.size);
    else if constexpr (std::same_as<Cache, ls::PagedCache<S>>)
      return layer_.make_cache(room_.capacity, *pool_);
    else
      return layer_.make_cache(room_.capacity, ls::CacheMemory{.initial = initial_});
  }

  void step() {
    Sequence& one = sequences_[pick_sequence()];
    switch (in_.below(20)) {
      default:
        return forward(1);
      case 4:
      case 5:
        return forward(2 + in_.below(3));
      case 6:
        return truncate(one);
      case 7:
        return fork(one);
      case 8:
        return drop(one);
      case 9:
        return drop_oldest(one);
      case 10:
        return tree(one);
      case 11:
        return keep(one);
      case 12:
        return write(one);
      case 13:
        return write_circular(one);
      case 14:
        return import(one);
      case 15:
        return export_all(one);
      case 16:
        return restore(one);
      case 17:
        return through_a_ring(one);
      case 18:
        return reserve(one);
      case 19:
        return move(one);
    }
  }

  std::size_t pick_sequence() { return at(in_.below(static_cast<Index>(sequences_.size()))); }
  /// A number of tokens, mostly small, or around what is counted in.
  Index some() {
    constexpr Index counts[] = {1, 2, 0, 3, 5, 1, 7, 15, 16, 17, 1, 31, 33, 64, 127, 255, 256, 257, 300, 511};
    return in_.pick(counts);
  }
  /// A place from -1 to length + 1.
  Index place(const Sequence& s) { return in_.below(s.tokens.length() + 3) - 1; }
  static std::string name(Index n) { return std::to_string(n); }
  std::string name(const Sequence& s) const {
    return "sequence " + std::to_string(&s - sequences_.data()) + " of " + name(s.tokens.length());
  }

  std::vector<float> input(Index id) const {
    std::vector<float> row =
        bits::numbers<float>(setup_.shape.hidden, setup_.seed * 1000003 + static_cast<std::uint64_t>(id));
    if (wild(id))
      row[0] = id % 2 == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    return row;
  }
  static bool wild(Index id) { return id >= Index{1} << 30; }
  std::vector<Index> fresh_inputs(Index n) {
    std::vector<Index> ids;
    for (Index i = 0; i < n; ++i) ids.push_back(next_input_++);
    return ids;
  }
  /// Keys or values [tokens, kv_heads, dim] that no input makes.
  std::vector<float> fresh_rows(Index n, Index dim) {
    return bits::numbers<float>(n * setup_.shape.kv_heads * dim,
                                setup_.seed + 7777 + static_cast<std::uint64_t>(next_input_++), 2);
  }

  // What a cache shows, against the lists.
  void check(const Sequence& s) const {
    const Tokens<S>& tokens = s.tokens;
    require(s.cache.length() == tokens.length(),
            "a cache has as many tokens as were put in: " + name(s) + " against " + name(s.cache.length()));
    const ls::KeyRange missing = s.cache.missing_after(0);
    for (Index p = 0; p < tokens.length(); ++p) {
      const bool gone = missing.first <= p && p < missing.last;
      require(gone != static_cast<bool>(tokens.held[at(p)]),
              "missing places are those that were pushed out: place " + name(p) + " of " + name(s));
      if (!gone)
        require(token_of(s.cache, p) == tokens.stored[at(p)],
                "a cache holds what was put in: place " + name(p) + " of " + name(s));
    }
    require(missing.empty() || missing.last <= tokens.length(), "no place beyond the length is missing");
    require(s.cache.table() == tokens.table, "a cache knows the table of its keys");
    if constexpr (std::same_as<Cache, ls::PagedCache<S>>) {
      require(s.cache.pages() == static_cast<Index>(tokens.pages.size()),
              "a sequence has the pages it needs: " + name(s.cache.pages()));
      require(pool_->free_pages() == room_.pages->free(),
              "pages are shared until they are written: " + name(pool_->free_pages()) + " free, not " +
                  name(room_.pages->free()));
    }
  }
  /// Rows of inputs at their own positions, against a full forward.
  void check_whole(Tokens<S>& tokens) {
    const Index n = static_cast<Index>(tokens.results.size()), hidden = setup_.shape.hidden;
    if (!tokens.plain || tokens.verified == at(n)) return;
    std::vector<float> x, y(at(n * hidden)), got;
    for (Index i = 0; i < n; ++i) {
      const auto row = input(tokens.inputs[at(i)]);
      x.insert(x.end(), row.begin(), row.end());
      got.insert(got.end(), tokens.results[at(i)].begin(), tokens.results[at(i)].end());
    }
    plain_.forward(matrix(std::as_const(x)), matrix(y));
    require(bits::same_bits(y, got), "a cache gives the bits of a full forward of " + name(n) + " tokens");
    tokens.verified = at(n);
    work_ += n * n * setup_.shape.heads / 2;
  }
  template <class T>
  auto matrix(T& rows) const {
    using U = std::conditional_t<std::is_const_v<T>, const float, float>;
    return ls::View<U, 2>::contiguous(rows.data(),
                                      {static_cast<Index>(rows.size()) / setup_.shape.hidden, setup_.shape.hidden});
  }

  enum class Answer { taken, refused, either };
  /// Whether a sequence takes these rows, pages apart. Of a tree, whose rows stand on so many levels.
  Answer expected(const Tokens<S>& tokens, const Part& part, std::optional<Index> levels = {}) const {
    const bool tree = levels.has_value();
    const Index n = tokens.length(), rows = static_cast<Index>(part.inputs.size());
    if (part.positions.empty() && rows > 0 && n + levels.value_or(rows) > setup_.position.positions())
      return Answer::refused;
    for (const Index p : part.positions)
      if (p < 0 || p >= setup_.position.positions()) return Answer::refused;
    if (rows > room_.capacity - n) return Answer::refused;
    if (tree && rows > room_.append_limit()) return Answer::refused;
    for (Index row = n; row < (tree && rows > 0 ? n + 1 : n + rows) && !tokens.holds(0, n); ++row)
      for (Index key = 0; key < n; ++key)
        if (!tokens.held[at(key)] && setup_.visible(row, key)) return Answer::refused;
    if (room_.kind != Room::ring) return Answer::taken;
    return setup_.mask.window <= room_.size.window && setup_.mask.sinks <= room_.pinned() ? Answer::taken
                                                                                          : Answer::either;
  }

  void forward(Index count) {
    std::vector<Part> parts;
    for (Index i = 0; i < count; ++i) {
      const std::size_t s = pick_sequence();
      if (std::any_of(parts.begin(), parts.end(), [s](const Part& p) { return p.sequence == s; })) continue;
      parts.push_back({s, fresh_inputs(some())});
    }
    const Index unusual = in_.below(16);
    Part& first = parts[0];
    if (unusual == 15 && !first.inputs.empty())
      first.inputs[at(in_.below(static_cast<Index>(first.inputs.size())))] += Index{1} << 30;
    if (unusual == 14)
      for (Part& part : parts)
        for (std::size_t i = 0; i < part.inputs.size(); ++i)
          part.positions.push_back(in_.below(std::min<Index>(setup_.position.positions() + 1, 1000)));
    std::optional<Index> offset;
    if (unusual == 13) offset = in_.below(sequences_[first.sequence].tokens.length() + 2);
    forward(parts, offset);
  }

  void forward(const std::vector<Part>& parts, std::optional<Index> offset) {
    const Index hidden = setup_.shape.hidden, heads = setup_.shape.heads;
    std::vector<float> x;
    std::vector<Index> lengths, positions;
    std::vector<Cache*> caches;
    Answer answer = Answer::taken;
    bool finite = true;
    std::string line = "forward";
    for (const Part& part : parts) {
      Sequence& s = sequences_[part.sequence];
      const Index rows = static_cast<Index>(part.inputs.size());
      caches.push_back(&s.cache);
      lengths.push_back(rows);
      positions.insert(positions.end(), part.positions.begin(), part.positions.end());
      for (const Index id : part.inputs) {
        const auto row = input(id);
        x.insert(x.end(), row.begin(), row.end());
        finite = finite && !wild(id);
      }
      const Answer here = offset && *offset != s.tokens.length() ? Answer::refused : expected(s.tokens, part);
      if (answer != Answer::refused && here != Answer::taken) answer = here;
      work_ += rows * (s.tokens.length() + rows) * heads;
      line += ", " + name(rows) + " rows to " + name(s);
    }
    note(line + (positions.empty() ? "" : ", positions given") + (offset ? ", offset " + name(*offset) : "") +
         (finite ? "" : ", wild"));
    const Index tokens = static_cast<Index>(x.size()) / hidden;
    std::vector<float> y(x.size()), lse(at(heads * tokens));
    typename Layer<Cache, ls::Tiled>::Options options;
    if (parts.size() > 1) options.lengths = lengths;
    if (tokens > 0 || parts.size() == 1) options.lse = ls::View<float, 3>::contiguous(lse.data(), {1, heads, tokens});
    if (!positions.empty()) options.positions = ls::View<const Index, 2>::contiguous(positions.data(), {1, tokens});
    options.offset = offset;
    const bool checked = layer_.check(matrix(std::as_const(x)), caches, matrix(y), options).ok();
    if (answer != Answer::either)
      require(checked == (answer == Answer::taken && have_room(parts)),
              checked ? "a forward that must be refused is not checked as good"
                      : "a forward that must be taken is checked as good");
    for (std::size_t i = 0; checked && i < parts.size(); ++i) {
      Tokens<S>& t = sequences_[parts[i].sequence].tokens;
      require(t.make_room(room_, t.length(), t.length() + lengths[i]), "a forward that is taken has its pages");
    }
    const bool done = !refused([&] { layer_.forward(matrix(std::as_const(x)), caches, matrix(y), options); });
    require(done == (checked && (finite || !ls::is_quantised<S>)),
            done ? "a forward that must be refused is refused" : "a forward that was checked as good is done");
    if (!done) {
      for (std::size_t i = 0; checked && i < parts.size(); ++i) sequences_[parts[i].sequence].tokens.release();
      return;  // what each cache then shows is checked after every step
    }
    Index done_rows = 0;
    for (const Part& part : parts) {
      const Index rows = static_cast<Index>(part.inputs.size());
      std::vector<float> own_lse;
      for (Index h = 0; h < heads; ++h)
        own_lse.insert(own_lse.end(), lse.begin() + h * tokens + done_rows,
                       lse.begin() + h * tokens + done_rows + rows);
      advance(sequences_[part.sequence], part,
              {y.begin() + done_rows * hidden, y.begin() + (done_rows + rows) * hidden}, own_lse);
      done_rows += rows;
    }
  }

  /// Whether there are pages for all these rows. A page whose holders all write to it is copied for all but one.
  bool have_room(const std::vector<Part>& parts) const {
    if (room_.kind != Room::paged) return true;
    Index needed = 0;
    std::map<Pages::Page, std::pair<Index, Index>, std::owner_less<>> written;  // holders and writers
    for (const Part& part : parts) {
      const Tokens<S>& t = sequences_[part.sequence].tokens;
      const Index first = t.length(), last = first + static_cast<Index>(part.inputs.size());
      if (first == last) continue;
      const Index held = static_cast<Index>(t.pages.size()), blocks = ls::ceil_div(last, ls::block_keys);
      needed += std::max(blocks - held, Index{0});
      for (Index b = first / ls::block_keys; b < std::min(blocks, held); ++b) {
        const auto holders = static_cast<Index>(t.pages[at(b)].use_count());
        ++written.try_emplace(t.pages[at(b)], holders, 0).first->second.second;
      }
    }
    for (const auto& [page, use] : written) needed += std::min(use.first - 1, use.second);
    return needed <= room_.pages->free();
  }

  /// Rows have been taken: what came out, and what went into the cache.
  void advance(Sequence& s, const Part& part, const std::vector<float>& y, const std::vector<float>& lse) {
    Tokens<S>& tokens = s.tokens;
    const Index n = tokens.length(), rows = static_cast<Index>(part.inputs.size()), hidden = setup_.shape.hidden;
    if (rows == 0) return;
    const Decoded expected = decode(tokens.stored, part);
    require(bits::same_bits(y, expected.y), "outputs have Specification's bits: " + name(s));
    require(bits::same_bits(lse, expected.lse), "log-sum-exps have Specification's bits: " + name(s));
    check_in_double(tokens.stored, part, expected);
    for (Index i = 0; i < rows; ++i) {
      tokens.stored.push_back(expected.tokens[at(i)]);
      tokens.held.push_back(true);
      tokens.inputs.push_back(part.inputs[at(i)]);
      tokens.results.emplace_back(y.begin() + i * hidden, y.begin() + (i + 1) * hidden);
      tokens.plain =
          tokens.plain && (part.positions.empty() || !setup_.position.on() || part.positions[at(i)] == n + i);
    }
    tokens.push(room_);
    tokens.table = setup_.position.identity();
  }

  struct Decoded {
    std::vector<float> y, lse;
    std::vector<Stored<S>> tokens;  // the new ones
  };
  /// Specification, on a new cache that has these tokens.
  Decoded decode(const std::vector<Stored<S>>& tokens, const Part& part) const {
    const Index rows = static_cast<Index>(part.inputs.size()), n = static_cast<Index>(tokens.size());
    Full cache = cache_of(setup_.cache_shape(), tokens, rows);
    Decoded result{
        std::vector<float>(at(rows * setup_.shape.hidden)), std::vector<float>(at(rows * setup_.shape.heads)), {}};
    std::vector<float> x;
    for (const Index id : part.inputs) {
      const auto row = input(id);
      x.insert(x.end(), row.begin(), row.end());
    }
    typename Layer<Full, ls::Specification>::Options options;
    options.lse = ls::View<float, 3>::contiguous(result.lse.data(), {1, setup_.shape.heads, rows});
    if (!part.positions.empty())
      options.positions = ls::View<const Index, 2>::contiguous(part.positions.data(), {1, rows});
    plain_.forward(matrix(std::as_const(x)), cache, matrix(result.y), options);
    for (Index i = 0; i < rows; ++i) result.tokens.push_back(token_of(cache, n + i));
    return result;
  }

  static std::vector<double> widened(const std::vector<S>& stored, const std::vector<float>& scales, Index dim,
                                     Index which) {
    std::vector<double> wide = reference::widen(stored);
    for (std::size_t i = 0; !scales.empty() && i < wide.size(); ++i)
      wide[i] *= static_cast<double>(scales[2 * (i / at(dim)) + at(which)]);
    return wide;
  }
  /// What went into the cache and some of what came out, in double from the definitions.
  void check_in_double(const std::vector<Stored<S>>& before, const Part& part, const Decoded& decoded) const {
    const ls::LayerShape& shape = setup_.shape;
    const Index rows = static_cast<Index>(part.inputs.size()), n = static_cast<Index>(before.size());
    for (const Index id : part.inputs)
      if (wild(id)) return;
    const auto views = weights_.views();
    const auto wide = [](const auto& view) { return std::vector<double>(view.data, view.data + view.size()); };
    // Keys and values as stored.
    std::vector<double> keys, values;
    const auto add = [&](const Stored<S>& token) {
      for (const double k : widened(token.keys, token.scales, shape.head_dim, 0)) keys.push_back(k);
      for (const double v : widened(token.values, token.scales, shape.v_head_dim, 1)) values.push_back(v);
    };
    for (const auto& token : before) add(token);
    for (const auto& token : decoded.tokens) add(token);
    for (const auto* numbers : {&keys, &values})
      for (const double number : *numbers)
        if (!std::isfinite(number)) return;  // of wild inputs before
    // At most eight rows, the last ones among them.
    std::vector<Index> chosen;
    for (Index i = rows; i > 0; i -= 1 + rows / 8) chosen.push_back(i - 1);
    std::vector<double> x;
    std::vector<Index> positions;
    for (const Index i : chosen) {
      const auto row = input(part.inputs[at(i)]);
      x.insert(x.end(), row.begin(), row.end());
      positions.push_back(part.positions.empty() ? n + i : part.positions[at(i)]);
    }
    const auto turned = [&](std::vector<double> projected, Index heads, const std::vector<float>& weight) {
      if (setup_.norm.on)
        projected = reference::rms_norm(std::move(projected), reference::widen(weight), SwitchedNorm::epsilon);
      return reference::rotate(std::move(projected), setup_.position.pairing, heads, shape.head_dim,
                               setup_.position.rotary_dim(), 10000, positions);
    };
    const auto project = [&](const auto& weight, const auto& bias, Index out) {
      return reference::project(x, wide(weight), bias.present() ? wide(bias) : reference::Values{}, shape.hidden, out);
    };
    const auto near = [](double a, double b, double error) { return std::abs(a - b) <= error; };
    const double of_storage = std::same_as<S, float> ? 1e-5 : std::same_as<S, Eigen::half> ? 4e-3 : 6e-2;
    const auto k =
        turned(project(views.key, views.key_bias, shape.kv_heads * shape.head_dim), shape.kv_heads, setup_.key_norm);
    const auto v = project(views.value, views.value_bias, shape.kv_heads * shape.v_head_dim);
    const Index key_width = shape.kv_heads * shape.head_dim, value_width = shape.kv_heads * shape.v_head_dim;
    for (Index c = 0; c < static_cast<Index>(chosen.size()); ++c) {
      for (Index d = 0; d < key_width; ++d)
        require(near(keys[at((n + chosen[at(c)]) * key_width + d)], k[at(c * key_width + d)], of_storage),
                "stored keys are those of the definition");
      for (Index d = 0; d < value_width; ++d)
        require(near(values[at((n + chosen[at(c)]) * value_width + d)], v[at(c * value_width + d)], of_storage),
                "stored values are those of the definition");
    }
    reference::Problem problem{
        shape.heads, shape.kv_heads, shape.head_dim, shape.v_head_dim, static_cast<Index>(chosen.size()), n + rows};
    problem.visible = [&](Index, Index row, Index key) { return setup_.visible(n + chosen[at(row)], key); };
    problem.transform = [&](double logit, Index head, Index row, Index key) {
      if (setup_.softcap.on) logit = 3 * std::tanh(logit / 3);
      return logit + static_cast<double>(setup_.slopes[at(head)]) * static_cast<double>(key - n - chosen[at(row)]);
    };
    problem.sink = [&](Index head) { return static_cast<double>(setup_.sinks[at(head)]); };
    const auto q =
        turned(project(views.query, views.query_bias, shape.heads * shape.head_dim), shape.heads, setup_.query_norm);
    const auto attended = reference::attend(problem, q, keys, values);
    const auto y = reference::project(attended.context, wide(views.output),
                                      views.output_bias.present() ? wide(views.output_bias) : reference::Values{},
                                      shape.heads * shape.v_head_dim, shape.hidden);
    for (Index c = 0; c < static_cast<Index>(chosen.size()); ++c) {
      for (Index d = 0; d < shape.hidden; ++d)
        require(
            near(decoded.y[at(chosen[at(c)] * shape.hidden + d)], y[at(c * shape.hidden + d)], 1e-3),
            "outputs are those of the definition: " + std::to_string(decoded.y[at(chosen[at(c)] * shape.hidden + d)]) +
                " against " + std::to_string(y[at(c * shape.hidden + d)]));
      for (Index h = 0; h < shape.heads; ++h)
        require(
            near(decoded.lse[at(h * rows + chosen[at(c)])], attended.lse[at(h * static_cast<Index>(chosen.size()) + c)],
                 1e-3),
            "log-sum-exps are those of the definition: " + std::to_string(decoded.lse[at(h * rows + chosen[at(c)])]) +
                " against " + std::to_string(attended.lse[at(h * static_cast<Index>(chosen.size()) + c)]));
    }
  }

  bool can_cut(const Tokens<S>& tokens, Index length) const {
    if (length < 0 || length > tokens.length()) return false;
    return room_.kind != Room::ring || tokens.holds(length - room_.size.window + 1, length);
  }
  void truncate(Sequence& s) {
    const Index length = in_.one_in(8) ? 0 : place(s);
    note("truncate " + name(s) + " to " + name(length));
    const bool good = can_cut(s.tokens, length);
    require(s.cache.check_truncate(length).ok() == good, "check_truncate tells what truncate does");
    if (good) check_whole(s.tokens);
    const bool clears = length == 0 && in_.one_in(2);
    require(refused([&] { clears ? s.cache.clear() : s.cache.truncate(length); }) == (!good && !clears),
            "a truncation is taken where the window stays, and refused elsewhere");
    if (!good && !clears) return;
    s.tokens.resize(length);
    s.tokens.release();
  }
  void fork(Sequence& s) {
    const Index length = place(s);
    note("fork " + name(s) + " at " + name(length));
    if (sequences_.size() == 4) {
      // Over another one.
      const std::size_t other = pick_sequence();
      check_whole(sequences_[other].tokens);
      sequences_[other].cache = s.cache;
      const Tokens<S> copy = s.tokens;  // they may be one
      sequences_[other].tokens = copy;
      return;
    }
    if constexpr (std::same_as<Cache, ls::PagedCache<S>>) {
      if (in_.one_in(2)) {
        std::optional<Cache> prefix;
        const bool good = can_cut(s.tokens, length);
        require(refused([&] { prefix.emplace(s.cache.fork(length)); }) == !good,
                "a fork has a length up to that of its origin");
        if (!good) return;
        Tokens<S> tokens = s.tokens;
        tokens.resize(length);
        tokens.release();
        sequences_.push_back({std::move(*prefix), std::move(tokens)});
        return;
      }
    }
    Sequence copy{s.cache, s.tokens};
    sequences_.push_back(std::move(copy));
  }
  void drop(Sequence& s) {
    note("drop " + name(s));
    check_whole(s.tokens);
    if (sequences_.size() == 1)
      s = {new_cache(), {}};
    else
      sequences_.erase(sequences_.begin() + (&s - sequences_.data()));
  }
  void move(Sequence& s) {
    note("move " + name(s));
    Cache moved = std::move(s.cache);
    require(s.cache.length() == 0 && s.cache.capacity() == 0 && s.cache.check_append(0).ok() &&
                !s.cache.check_append(1).ok(),
            "a cache that was moved from is empty");
    s.cache = moved.empty_like();
    require(s.cache.length() == 0 && s.cache.capacity() == moved.capacity(), "a cache like another one is empty");
    s.cache = std::move(moved);
  }
  void reserve(Sequence& s) {
    const Index tokens = some();
    note("reserve " + name(tokens) + " for " + name(s));
    Tokens<S>& t = s.tokens;
    const bool good = tokens <= room_.capacity - t.length() && tokens <= room_.append_limit() &&
                      t.make_room(room_, t.length(), t.length() + tokens);
    require(refused([&] { s.cache.reserve(tokens); }) == !good, "reserve takes what append would");
  }

  void drop_oldest(Sequence& s) {
    const Index keep = in_.one_in(2) ? place(s) : 0, tokens = in_.one_in(2) ? some() : place(s);
    note("drop the oldest " + name(tokens) + " of " + name(s) + " but for " + name(keep));
    const Index n = s.tokens.length(), kept = n - tokens;
    check_whole(s.tokens);
    bool good = keep >= 0 && keep <= n && tokens >= 0 && tokens <= n - keep && s.tokens.holds(0, n);
    if (good && tokens > 0) good = s.tokens.make_room(room_, keep, kept);
    require(refused([&] { s.cache.drop_oldest(tokens, setup_.position, keep); }) == !good,
            "tokens that are there and held can be dropped, others not");
    if (!good || tokens == 0) return;
    Tokens<S>& t = s.tokens;
    t.stored.erase(t.stored.begin() + keep, t.stored.begin() + keep + tokens);
    for (Index p = keep; p < kept; ++p) t.stored[at(p)] = shifted(t.stored[at(p)], -tokens);
    t.plain = t.plain && keep == kept;
    t.resize(kept);
    t.release();
  }
  Stored<S> shifted(const Stored<S>& token, Index delta) const {
    const ls::CacheShape shape = setup_.cache_shape();
    Stored<S> result = token;
    result.keys.clear();
    const std::vector<double> before = widened(token.keys, token.scales, shape.head_dim, 0);
    std::vector<double> after;
    for (Index g = 0; g < shape.kv_heads; ++g) {
      std::vector<float> row(at(shape.head_dim));
      for (Index d = 0; d < shape.head_dim; ++d) row[at(d)] = static_cast<float>(before[at(g * shape.head_dim + d)]);
      setup_.position.shift(row.data(), delta);
      std::vector<float> scale;
      put_row(row.data(), shape.head_dim, result.keys, scale);
      if (!scale.empty()) result.scales[at(2 * g)] = scale[0];
      after.insert(after.end(), row.begin(), row.end());
    }
    const auto turned = reference::rotate(before, setup_.position.pairing, shape.kv_heads, shape.head_dim,
                                          setup_.position.rotary_dim(), 10000, {delta});
    for (std::size_t i = 0; i < turned.size(); ++i)
      require(!(std::abs(turned[i] - after[i]) > 1e-5), "a shifted key is the one of its new position");
    return result;
  }

  void tree(Sequence& s) {
    const Index rows = in_.below(9), n = s.tokens.length(), hidden = setup_.shape.hidden;
    Part part{at(&s - sequences_.data()), fresh_inputs(rows)};
    std::vector<Index> parents;
    for (Index i = 0; i < rows; ++i) parents.push_back(in_.below(i + 1) - 1);
    std::vector<Index> level;
    for (const Index parent : parents) level.push_back(parent < 0 ? 1 : level[at(parent)] + 1);
    const bool wrong = rows > 0 && in_.one_in(16);
    if (wrong) parents.back() = rows - 1;
    note("tree of " + name(rows) + " on " + name(s));
    std::vector<float> x, y(at(rows * hidden));
    for (const Index id : part.inputs) {
      const auto row = input(id);
      x.insert(x.end(), row.begin(), row.end());
    }
    std::vector<Cache*> caches{&s.cache};
    Answer answer = wrong ? Answer::refused
                          : expected(s.tokens, part, rows > 0 ? *std::max_element(level.begin(), level.end()) : 0);
    const ls::Status status = layer_.check_tree(matrix(std::as_const(x)), parents, caches, matrix(y));
    const bool checked = status.ok();
    note(std::string("  ") + status.message());
    const bool room = s.tokens.has_room(room_, n, n + rows);
    if (answer != Answer::either)
      require(checked == (answer == Answer::taken && room), "a tree is taken where its nodes find their keys");
    require(refused([&] { layer_.forward_tree(matrix(std::as_const(x)), parents, caches, matrix(y)); }) == !checked,
            "a tree is done if it is checked as good");
    if (!checked) return;
    if (rows == 0) return;
    Tokens<S>& t = s.tokens;
    t.make_room(room_, n, n + rows);
    std::vector<std::vector<Index>> paths;
    for (Index i = 0; i < rows; ++i) {
      std::vector<Index> path = parents[at(i)] < 0 ? std::vector<Index>{} : paths[at(parents[at(i)])];
      path.push_back(i);
      paths.push_back(path);
      Part alone{part.sequence};
      for (const Index node : path) alone.inputs.push_back(part.inputs[at(node)]);
      const std::vector<Stored<S>> context(t.stored.begin(), t.stored.begin() + n);
      const Decoded decoded = decode(context, alone);
      work_ += static_cast<Index>(path.size()) * n;
      const std::vector<float> last(decoded.y.end() - hidden, decoded.y.end());
      const std::vector<float> got(y.begin() + i * hidden, y.begin() + (i + 1) * hidden);
      require(bits::same_bits(got, last), "a node has the bits of its path alone");
      t.stored.push_back(decoded.tokens.back());
      t.held.push_back(true);
      t.inputs.push_back(part.inputs[at(i)]);
      t.results.push_back(got);
    }
    t.push(room_);
    t.table = setup_.position.identity();
    check(s);
    const std::vector<Index>& path = paths[at(in_.below(rows))];
    keep(s, n, in_.one_in(4) ? std::vector<Index>{} : path, true);
  }
  void keep(Sequence& s) {
    const Index context = place(s);
    std::vector<Index> path;
    for (Index next = in_.below(3), i = in_.below(5); i > 0; --i, next += in_.below(4))
      path.push_back(next - (in_.one_in(32) ? 1 : 0)), ++next;
    check_whole(s.tokens);
    keep(s, context, path, false);
  }
  void keep(Sequence& s, Index context, const std::vector<Index>& path, bool of_tree) {
    Tokens<S>& t = s.tokens;
    std::string line = "keep " + name(context) + " of " + name(s) + " and path";
    for (const Index node : path) line += " " + name(node);
    note(line);
    bool good = context >= 0 && context <= t.length();
    Index least = 0;
    bool in_place = true;
    for (std::size_t i = 0; i < path.size(); ++i) {
      good = good && path[i] >= least && path[i] < t.length() - context;
      in_place = in_place && path[i] == static_cast<Index>(i);
      least = path[i] + 1;
    }
    const Index kept = context + static_cast<Index>(path.size());
    good = good && t.holds(context, t.length()) && can_cut(t, kept) && t.make_room(room_, context, kept);
    require(refused([&] { s.cache.keep(context, path); }) == !good,
            "a rising path that is held can be kept, others not");
    if (!good) {
      t.plain = t.plain && !of_tree;
      return;
    }
    for (std::size_t i = 0; i < path.size(); ++i) {
      const std::size_t to = at(context) + i, from = at(context + path[i]);
      t.stored[to] = t.stored[from];
      if (t.plain) t.inputs[to] = t.inputs[from], t.results[to] = t.results[from];
    }
    t.plain = t.plain && (of_tree || in_place);
    t.verified = std::min(t.verified, at(context));
    t.resize(kept);
    t.release();
  }

  struct Rows {
    std::vector<float> keys, values;
    ls::View<const float, 3> key_view, value_view;
    bool finite = true;
  };
  Rows rows(Index n) {
    const ls::CacheShape shape = setup_.cache_shape();
    Rows r{fresh_rows(n, shape.head_dim), fresh_rows(n, shape.v_head_dim), {}, {}};
    if (n > 0 && in_.one_in(16)) {
      r.finite = false;
      (in_.one_in(2) ? r.keys : r.values).back() = std::numeric_limits<float>::infinity();
    }
    r.key_view = ls::View<const float, 3>::contiguous(r.keys.data(), {n, shape.kv_heads, shape.head_dim});
    r.value_view = ls::View<const float, 3>::contiguous(r.values.data(), {n, shape.kv_heads, shape.v_head_dim});
    return r;
  }
  bool storable(const Rows& r) const { return r.finite || !ls::is_quantised<S>; }
  Stored<S> stored_row(const Rows& r, Index i) const {
    const ls::CacheShape shape = setup_.cache_shape();
    return stored<S>(shape, r.keys.data() + i * shape.kv_heads * shape.head_dim,
                     r.values.data() + i * shape.kv_heads * shape.v_head_dim);
  }
  void write(Sequence& s) {
    Tokens<S>& t = s.tokens;
    const Index first = in_.one_in(2) ? t.length() : place(s), n = some(), last = first + n;
    const Rows r = rows(n);
    note("write " + name(n) + " at " + name(first) + " of " + name(s));
    check_whole(t);
    const Index growth = std::max(last - t.length(), Index{0});
    bool good = first >= 0 && first <= t.length() && storable(r) && growth <= room_.capacity - t.length() &&
                growth <= room_.append_limit() && t.holds(first, last);
    good = good && t.make_room(room_, first, last);
    const bool appends = first == t.length() && in_.one_in(2);
    require(refused([&] {
              appends ? s.cache.append(r.key_view, r.value_view) : s.cache.write(first, r.key_view, r.value_view);
            }) == !good,
            "rows are written where there is room, else not");
    if (!good) return;
    const Index length = std::max(last, t.length());
    t.stored.resize(at(length));
    t.held.resize(at(length), true);
    for (Index i = 0; i < n; ++i) t.stored[at(first + i)] = stored_row(r, i);
    t.plain = t.plain && n == 0;
    if (growth > 0) t.push(room_);
  }
  void write_circular(Sequence& s) {
    Tokens<S>& t = s.tokens;
    const Index first = place(s), n = some(), length = t.length();
    const Rows r = rows(n);
    note("write " + name(n) + " around from " + name(first) + " of " + name(s));
    check_whole(t);
    bool good = first >= 0 && first < length && n <= length && storable(r);
    const Index straight = std::min(n, length - first);
    good = good && t.holds(first, first + straight) && t.holds(0, n - straight);
    good = good && t.make_room(room_, first, first + straight) && t.make_room(room_, 0, n - straight);
    require(refused([&] { s.cache.write_circular(first, r.key_view, r.value_view); }) == !good,
            "rows are written around where there are places, else not");
    if (!good) return;
    for (Index i = 0; i < n; ++i) t.stored[at((first + i) % length)] = stored_row(r, i);
    t.plain = t.plain && n == 0;
  }

  void import(Sequence& s) {
    using Value = ls::cache_value_t<S>;
    Tokens<S>& t = s.tokens;
    const ls::CacheShape shape = setup_.cache_shape();
    const Index n = some();
    const Rows r = rows(n);
    const bool tokens_first = in_.one_in(2);
    note("import " + name(n) + " over " + name(s));
    check_whole(t);
    const auto ordered = [&](const std::vector<float>& from, Index dim) {
      std::vector<Value> to(from.size());
      for (Index i = 0; i < n; ++i)
        for (Index g = 0; g < shape.kv_heads; ++g)
          for (Index d = 0; d < dim; ++d)
            to[at(((tokens_first ? i * shape.kv_heads + g : g * n + i)) * dim + d)] =
                ls::narrow<Value>(from[at((i * shape.kv_heads + g) * dim + d)]);
      return to;
    };
    const auto extents = [&](Index dim) {
      return tokens_first ? std::array<Index, 3>{n, shape.kv_heads, dim} : std::array<Index, 3>{shape.kv_heads, n, dim};
    };
    const auto keys = ordered(r.keys, shape.head_dim), values = ordered(r.values, shape.v_head_dim);
    const bool good = n <= room_.capacity && storable(r) && t.make_room(room_, 0, n);
    require(refused([&] {
              s.cache.import(ls::View<const Value, 3>::contiguous(keys.data(), extents(shape.head_dim)),
                             ls::View<const Value, 3>::contiguous(values.data(), extents(shape.v_head_dim)),
                             tokens_first ? ls::Order::token_head_dim : ls::Order::head_token_dim);
            }) == !good,
            "what fits is imported, more is not");
    if (!good) return;
    auto pages = std::move(t.pages);
    t = {};
    t.pages = std::move(pages);
    for (Index i = 0; i < n; ++i) t.stored.push_back(stored_row(r, i));
    t.held.resize(at(n), true);
    t.plain = n == 0;
    t.push(room_);
    t.release();
  }
  void export_all(const Sequence& s) {
    using Value = ls::cache_value_t<S>;
    const Tokens<S>& t = s.tokens;
    const ls::CacheShape shape = setup_.cache_shape();
    const bool tokens_first = in_.one_in(2);
    const Index n = t.length(), asked = in_.one_in(16) ? n + 1 : n;
    note("export " + name(s));
    const bool good = asked == n && t.holds(0, n);
    for (const Index which : {0, 1}) {
      const Index dim = which == 0 ? shape.head_dim : shape.v_head_dim;
      std::vector<Value> out(at(asked * shape.kv_heads * dim));
      const auto view =
          ls::View<Value, 3>::contiguous(out.data(), tokens_first ? std::array<Index, 3>{asked, shape.kv_heads, dim}
                                                                  : std::array<Index, 3>{shape.kv_heads, asked, dim});
      const ls::Order order = tokens_first ? ls::Order::token_head_dim : ls::Order::head_token_dim;
      require(
          refused([&] { which == 0 ? s.cache.export_keys(view, order) : s.cache.export_values(view, order); }) == !good,
          "what is held is exported, else nothing");
      for (Index i = 0; good && i < n; ++i) {
        const auto& token = t.stored[at(i)];
        for (Index g = 0; g < shape.kv_heads; ++g)
          for (Index d = 0; d < dim; ++d) {
            const S stored = (which == 0 ? token.keys : token.values)[at(g * dim + d)];
            Value expected{};
            if constexpr (ls::is_quantised<S>)
              expected = static_cast<float>(stored) * token.scales[at(2 * g + which)];
            else
              expected = stored;
            const Value got = out[at((tokens_first ? i * shape.kv_heads + g : g * n + i) * dim + d)];
            require(std::memcmp(&got, &expected, sizeof(Value)) == 0, "an export has what is stored");
          }
      }
    }
  }

  template <class K>
  static std::string saved(const K& cache) {
    std::ostringstream out;
    ls::save_cache(cache, out);
    return out.str();
  }
  /// Whether a new cache like that of s takes what is held of `t`; then these are its pages.
  bool remade(const Sequence& s, Tokens<S>& t) const {
    t.pages.clear();
    Index end = t.length();
    while (end > 0 && !t.held[at(end - 1)]) --end;
    t.push(room_);
    return t.length() <= s.cache.capacity() && t.make_room(room_, 0, end) && can_cut(t, t.length());
  }
  void restore(Sequence& s) {
    const bool damaged = in_.one_in(2), cut = in_.one_in(2);
    note((damaged ? "restore damaged " : "save and restore ") + name(s));
    std::string bytes = saved(s.cache);
    if (s.tokens.holds(0, s.tokens.length())) {
      Full other = cache_of(setup_.cache_shape(), s.tokens.stored, 0);
      other.set_table(s.tokens.table);
      require(saved(other) == bytes, "equal contents give equal bytes");
    }
    if (damaged && cut) bytes.resize(at(in_.below(static_cast<Index>(bytes.size()))));
    if (damaged && !cut) {
      char& byte = bytes[at(in_.below(static_cast<Index>(bytes.size())))];
      byte = static_cast<char>(byte ^ (1 << in_.below(8)));
    }
    Tokens<S> after = s.tokens;
    const bool good = !damaged && remade(s, after);
    std::istringstream stream(bytes);
    require(refused([&] { ls::restore_cache(s.cache, stream); }) == !good,
            "a whole stream is taken, a damaged one is not");
    if (good) s.tokens = std::move(after);
  }
  /// Into a ring, and what that holds back.
  void through_a_ring(Sequence& s) {
    constexpr Index windows[] = {1, 16, 256, 300};
    const Room room{
        .kind = Room::ring,
        .capacity = std::numeric_limits<Index>::max(),
        .size = {.window = in_.pick(windows), .slack = in_.below(300), .sink_tokens = in_.one_in(2) ? 1 : 0}};
    note("through a ring of window " + name(room.size.window) + ", slack " + name(room.size.slack) + ": " + name(s));
    check_whole(s.tokens);
    Tokens<S> in_ring = s.tokens;
    in_ring.push(room);
    ls::RingCache<S> ring(setup_.cache_shape(), room.size);
    std::istringstream first(saved(s.cache));
    const bool good = in_ring.holds(in_ring.length() - room.size.window + 1, in_ring.length());
    require(refused([&] { ls::restore_cache(ring, first); }) == !good, "a ring takes what has its window");
    if (!good) return;
    const ls::KeyRange missing = ring.missing_after(0);
    for (Index p = 0; p < in_ring.length(); ++p) {
      const bool gone = missing.first <= p && p < missing.last;
      require(gone || in_ring.held[at(p)], "a ring has no place that was pushed out");
      require(gone || token_of(ring, p) == in_ring.stored[at(p)], "a ring holds what was saved");
      in_ring.held[at(p)] = in_ring.held[at(p)] && !gone;
    }
    std::istringstream second(saved(ring));
    Tokens<S> after = in_ring;
    const bool fits = remade(s, after);
    require(refused([&] { ls::restore_cache(s.cache, second); }) == !fits, "what a ring holds comes back");
    if (!fits) return;
    for (Index p = 0; p < after.length(); ++p) {
      const ls::KeyRange gone = s.cache.missing_after(0);
      if (p >= gone.first && p < gone.last) after.held[at(p)] = false;
    }
    s.tokens = std::move(after);
  }

  Bytes& in_;
  Setup setup_;
  bits::Weights<float> weights_;
  Layer<Cache, ls::Tiled> layer_;
  Layer<Full, ls::Specification> plain_;
  Room room_;
  Index initial_ = -1;
  std::optional<ls::PagePool<S>> pool_;
  std::vector<Sequence> sequences_;
  Index next_input_ = 0;
  Index work_ = 0;
};

}  // namespace fuzz
