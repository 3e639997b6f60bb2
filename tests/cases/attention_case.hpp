// The operation attention: queries over past and new keys, by lockstep::attend: all sequences at once, row by row, over
// plain memory.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <span>

#include <lockstep/attend.hpp>
#include <lockstep/logit/soft_cap.hpp>
#include <lockstep/mask/array.hpp>
#include <lockstep/mask/causal.hpp>

#include "operations.hpp"
#include "placed.hpp"
#include "tensors.hpp"

namespace cases {
namespace {

using lockstep::View;

// The facts of a case, checked against its tensors.
struct Facts {
  explicit Facts(const Case& test)
      : layout(layout_of(test)),
        heads(test.integer("q_heads")),
        kv_heads(test.integer("kv_heads")),
        head_dim(test.integer("head_dim")),
        v_head_dim(test.integer("v_head_dim")),
        past_len(test.integer("past_len")),
        scale(test.number("scale")),
        softcap(test.number("softcap")),
        causal(test.integer("causal") != 0),
        left_window(test.integer("left_window")),
        right_window(test.integer("right_window")),
        offsets(test.integers("q_offset")),
        lengths(test.integers("kv_len")) {
    const std::vector<Index>& q = test.input("Q").shape;
    const std::vector<Index>& k = test.input("K").shape;
    const std::size_t rank = layout == Layout::bhsd ? 4 : 3, token_axis = rank - 2;
    if (q.size() != rank || k.size() != rank)
      throw BadCase("Q, K: given " + to_text(q) + ", " + to_text(k) + " for this layout");
    batch = q[0];
    q_len = q[token_axis];
    new_len = k[token_axis];
    joined_len = past_len + new_len;
    test.input("Q", shape_in(layout, batch, q_len, heads, head_dim));
    test.input("K", shape_in(layout, batch, new_len, kv_heads, head_dim));
    test.input("V", shape_in(layout, batch, new_len, kv_heads, v_head_dim));
    if (past_len > 0 || test.has_input("past_key") || test.has_input("past_value")) {
      test.input("past_key", {batch, kv_heads, past_len, head_dim});
      test.input("past_value", {batch, kv_heads, past_len, v_head_dim});
    }
    const auto entries = at(batch);
    if (offsets.size() != entries || lengths.size() != entries)
      throw BadCase("q_offset, kv_len: allowed one number a sequence");
    for (const Index length : lengths)
      if (length < 0 || length > joined_len)
        throw BadCase("kv_len: given " + std::to_string(length) + ", allowed 0 to " + std::to_string(joined_len));
  }

  Layout layout;
  Index heads, kv_heads, head_dim, v_head_dim, past_len;
  double scale, softcap;
  bool causal;
  Index left_window, right_window;  // keys before and after the query's own; below 0: no bound
  std::vector<Index> offsets, lengths;
  Index batch = 0, q_len = 0, new_len = 0, joined_len = 0;
};

// One cache a sequence. Every key of the case is appended, the past ones first, and what kv_len leaves out is cut off
// again: the slots behind the length keep whatever the case put there.
template <class T>
struct Caches {
  Caches(const Case& test, const Facts& f)
      : keys({f.batch, f.kv_heads, f.joined_len, f.head_dim}),
        values({f.batch, f.kv_heads, f.joined_len, f.v_head_dim}) {
    for (Index b = 0; b < f.batch; ++b)
      each.emplace_back(lockstep::CacheShape{f.kv_heads, f.head_dim, f.v_head_dim}, f.joined_len);
    if (f.past_len > 0) append(f, test.input("past_key"), test.input("past_value"), Layout::bhsd, f.past_len);
    append(f, test.input("K"), test.input("V"), f.layout, f.new_len);
    for (Index b = 0; b < f.batch; ++b) {
      each[at(b)].export_keys(keys.view().at(b));
      each[at(b)].export_values(values.view().at(b));
      each[at(b)].truncate(f.lengths[at(b)]);
    }
  }

  std::vector<lockstep::ContiguousCache<T>> each;
  Array<T, 4> keys, values;  // [batch, kv_heads, joined_len, dim], before the cut

 private:
  void append(const Facts& f, const Tensor& new_keys, const Tensor& new_values, Layout layout, Index tokens) {
    const std::vector<T> k = numbers<T>(new_keys), v = numbers<T>(new_values);
    for (Index b = 0; b < f.batch; ++b)
      each[at(b)].append(token_major(k.data(), layout, f.batch, tokens, f.kv_heads, f.head_dim).at(b),
                         token_major(v.data(), layout, f.batch, tokens, f.kv_heads, f.v_head_dim).at(b));
  }
};

// What attention gives for all sequences, in the case's layout.
template <class T>
struct Outcome {
  explicit Outcome(const Facts& f)
      : facts(f),
        context({f.batch * f.q_len * f.heads * f.v_head_dim}),
        lse({f.batch, f.heads, f.q_len}),
        weights({f.batch, f.heads, f.q_len, f.joined_len}),
        logits({f.batch, f.heads, f.q_len, f.joined_len}) {
    std::fill(logits.values.begin(), logits.values.end(), -std::numeric_limits<T>::infinity());
  }

  View<T, 4> context_rows() {
    return token_major(context.values.data(), facts.layout, facts.batch, facts.q_len, facts.heads, facts.v_head_dim);
  }

  const Facts& facts;
  Array<T, 1> context;
  Array<T, 3> lse;
  Array<T, 4> weights, logits;
};

template <class T>
void require_same(Report& report, const std::string& what, const Outcome<T>& a, const Outcome<T>& b) {
  report.require_same_bits(what + ": Y", a.context.values, b.context.values);
  report.require_same_bits(what + ": lse", a.lse.values, b.lse.values);
  report.require_same_bits(what + ": weights", a.weights.values, b.weights.values);
  report.require_same_bits(what + ": logits", a.logits.values, b.logits.values);
}

// The sequence and rows of a call: a mask that looks them up by number has to know.
struct Start {
  Index sequence, row, rows;
};

template <class T, class Logits>
class Run {
 public:
  Run(const Case& test, const Facts& facts, Logits logits)
      : facts_(facts), logits_(logits), q_(numbers<T>(test.input("Q"))), caches_(test, facts) {
    // The weights, stage 3, are always taken along.
    if (test.has_output("scores") && test.integer("scores_mode") < 3)
      stage_ = static_cast<lockstep::LogitStage>(test.integer("scores_mode"));
  }

  const Caches<T>& caches() const { return caches_; }

  /// All sequences in one call.
  template <class Mask>
  Outcome<T> all_at_once(const Mask& mask) const {
    Outcome<T> outcome(facts_);
    auto options = options_with(mask);
    options.lse = outcome.lse.view();
    const Index longest = *std::max_element(facts_.lengths.begin(), facts_.lengths.end());
    options.weights = outcome.weights.view().part(3, 0, longest);
    options.raw_logits = outcome.logits.view().part(3, 0, longest);
    lockstep::attend<Mask, Logits>(queries(), caches_.each, outcome.context_rows(), options);
    return outcome;
  }

  /// Every row in a call of its own; `mask_at(start)` is the mask of such a call.
  template <class MaskAt>
  Outcome<T> row_by_row(MaskAt mask_at) const {
    return in_pieces(1, mask_at, [&](Index b) -> const lockstep::ContiguousCache<T>& { return caches_.each[at(b)]; });
  }

  /// Every sequence in a call of its own, over keys and values in plain memory.
  template <class MaskAt>
  Outcome<T> over_memory(lockstep::Order order, MaskAt mask_at) const {
    return in_pieces(facts_.q_len, mask_at, [&](Index b) {
      auto keys = caches_.keys.view().at(b).part(1, 0, facts_.lengths[at(b)]);
      auto values = caches_.values.view().at(b).part(1, 0, facts_.lengths[at(b)]);
      if (order == lockstep::Order::token_head_dim) {
        keys = swapped(keys, 0, 1);
        values = swapped(values, 0, 1);
      }
      return lockstep::PlainKeyValues<T>{keys, values, order};
    });
  }

 private:
  View<const T, 4> queries() const {
    return token_major(q_.data(), facts_.layout, facts_.batch, facts_.q_len, facts_.heads, facts_.head_dim);
  }

  template <class Mask>
  auto options_with(const Mask& mask) const {
    lockstep::AttendOptions<T, Mask, Logits> options;
    options.mask = mask;
    options.logits = logits_;
    options.logit_stage = stage_;
    return options;
  }

  template <class MaskAt, class KeysOf>
  Outcome<T> in_pieces(Index rows, MaskAt mask_at, KeysOf keys_of) const {
    using Mask = decltype(mask_at(Start{0, 0, 1}));
    Outcome<T> outcome(facts_);
    for (Index b = 0; b < facts_.batch; ++b)
      for (Index first = 0; first < facts_.q_len; first += rows) {
        auto options = options_with(mask_at(Start{b, first, rows}));
        // The sequence is alone in its call: its results are a batch of one.
        options.lse = outcome.lse.view().part(0, b, 1).part(2, first, rows);
        options.weights = outcome.weights.view().part(0, b, 1).part(2, first, rows).part(3, 0, facts_.lengths[at(b)]);
        options.raw_logits = outcome.logits.view().part(0, b, 1).part(2, first, rows).part(3, 0, facts_.lengths[at(b)]);
        options.offset = facts_.offsets[at(b)] + first;
        lockstep::attend<Mask, Logits>(queries().at(b).part(0, first, rows), keys_of(b),
                                       outcome.context_rows().at(b).part(0, first, rows), options);
      }
    return outcome;
  }

  const Facts& facts_;
  Logits logits_;
  lockstep::LogitStage stage_ = lockstep::LogitStage::masked;
  std::vector<T> q_;
  Caches<T> caches_;
};

template <class T, class Logits, class Mask, class MaskAt>
void compare(const Case& test, const Run<T, Logits>& run, const Mask& whole_mask, MaskAt mask_at, Report& report) {
  const Outcome<T> whole = run.all_at_once(whole_mask);
  require_same(report, "row by row against all at once", run.row_by_row(mask_at), whole);
  for (const auto order : {lockstep::Order::token_head_dim, lockstep::Order::head_token_dim})
    require_same(report, "plain memory against cache", run.over_memory(order, mask_at), whole);
  report.compare(test, "Y", whole.context.values);
  if (test.has_output("scores"))
    report.compare(test, "scores", test.integer("scores_mode") == 3 ? whole.weights.values : whole.logits.values);
  if (test.has_output("present_key")) report.compare(test, "present_key", run.caches().keys.values);
  if (test.has_output("present_value")) report.compare(test, "present_value", run.caches().values.values);
}

// A mask tensor as numbers of type N, seen as [batch, heads, q_len, kv_len] by leading axes of extent 1.
template <class N>
class MaskArray {
 public:
  explicit MaskArray(const Tensor& tensor) : numbers_(std::make_unique<N[]>(tensor.values.size())) {
    const std::size_t rank = tensor.shape.size();
    if (rank < 1 || rank > 4) throw BadCase("mask: given rank " + std::to_string(rank) + ", allowed 1 to 4");
    for (std::size_t i = 0; i < tensor.values.size(); ++i) numbers_[i] = static_cast<N>(tensor.values[i]);
    std::array<Index, 4> shape{1, 1, 1, 1};
    std::copy(tensor.shape.begin(), tensor.shape.end(), shape.end() - static_cast<std::ptrdiff_t>(rank));
    all_ = View<const N, 4>::contiguous(numbers_.get(), shape);
  }

  View<const N, 4> all() const { return all_; }
  /// The part of one call.
  View<const N, 4> at(Start start) const {
    View<const N, 4> part = all_;
    if (all_.extent[0] != 1) part = part.part(0, start.sequence, 1);
    if (all_.extent[2] != 1) part = part.part(2, start.row, start.rows);
    return part;
  }

 private:
  std::unique_ptr<N[]> numbers_;
  View<const N, 4> all_;
};

// What a query sees by its place alone. The case's bounds count the keys beside the query's own, as Window's do.
lockstep::Window window_of(const Facts& facts) {
  lockstep::Window window;
  if (facts.left_window >= 0) window.left = facts.left_window;
  if (facts.right_window >= 0) window.right = facts.right_window;
  if (facts.causal) window.right = 0;
  return window;
}

// The soft-cap of a case, where it has one.
struct MaybeCapped {
  static constexpr lockstep::PolicyKind policy_kind = lockstep::PolicyKind::logits;
  lockstep::SoftCap cap{};
  bool capped = false;

  double scale(Index head_dim) const noexcept { return cap.scale(head_dim); }
  template <class C>
  C apply(C logit, lockstep::QueryRow q, Index key) const noexcept {
    return capped ? cap.apply(logit, q, key) : logit;
  }
  template <class C>
  void apply(C* logits, lockstep::QueryRow q, lockstep::KeyRange keys) const noexcept {
    if (capped) cap.apply(logits, q, keys);
  }
};

template <class T>
void run_plain(const Case& test, const Facts& facts, Report& report) {
  using lockstep::Causal, lockstep::NoMask, lockstep::OffsetCausal, lockstep::Scaled;
  const Run<T, Scaled> calls(test, facts, Scaled{facts.scale});
  if (facts.causal)
    return compare(
        test, calls, OffsetCausal{std::span<const Index>(facts.offsets)}, [](Start) { return Causal{}; }, report);
  compare(test, calls, NoMask{}, [](Start) { return NoMask{}; }, report);
}

template <class T>
void run_attention(const Case& test, Report& report) {
  using lockstep::SlidingWindow, lockstep::Window;
  const Facts facts(test);
  const bool windowed = facts.left_window >= 0 || facts.right_window >= 0;
  if (!test.has_input("mask") && !windowed && facts.softcap <= 0) return run_plain<T>(test, facts, report);

  MaybeCapped logits{.cap = {.given = facts.scale}, .capped = facts.softcap > 0};
  if (logits.capped) logits.cap.cap = facts.softcap;
  const Run<T, MaybeCapped> calls(test, facts, logits);
  const std::span<const Index> offsets(facts.offsets);
  const Window window = window_of(facts);
  if (test.has_input("mask")) {
    const Tensor& mask = test.input("mask");
    const auto with_array = [&]<class Array, class N>(const MaskArray<N>& array) {
      compare(
          test, calls, Placed<Window>(window, offsets) & Array(array.all()),
          [&](Start start) { return window & Array(array.at(start)); }, report);
    };
    if (mask.dtype == "bool") return with_array.template operator()<lockstep::BooleanMask>(MaskArray<bool>(mask));
    return with_array.template operator()<lockstep::AdditiveMask<T>>(MaskArray<T>(mask));
  }
  if (facts.causal && facts.left_window >= 0) {
    // SlidingWindow counts the query's own key too.
    const SlidingWindow sliding{.window = facts.left_window + 1};
    return compare(test, calls, Placed<SlidingWindow>(sliding, offsets), [&](Start) { return sliding; }, report);
  }
  compare(test, calls, Placed<Window>(window, offsets), [&](Start) { return window; }, report);
}

}  // namespace
}  // namespace cases
