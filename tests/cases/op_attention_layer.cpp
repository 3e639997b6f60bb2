// attention_layer: a whole layer in one pass, in the case's chunks and token by token, all with the same bits.
#include <memory>

#include <lockstep/attention.hpp>
#include <lockstep/mask/array.hpp>
#include <lockstep/mask/causal.hpp>
#include <lockstep/position/rope.hpp>

#include "operations.hpp"
#include "rope_scaling.hpp"
#include "tensors.hpp"

namespace cases {
namespace {

using lockstep::View;

struct Facts {
  explicit Facts(const Case& test)
      : heads(test.integer("q_heads")),
        kv_heads(test.integer("kv_heads")),
        head_dim(test.integer("head_dim")),
        hidden(test.integer("hidden")),
        rotary_dim(test.integer("rope.dim")),
        left_window(test.integer("left_window")),
        scale(test.number("scale")),
        base(test.number("rope.base")),
        chunks(test.integers("chunks")) {
    const Tensor& x = test.input("x");
    if (x.shape.size() != 3) throw BadCase("x: given " + to_text(x.shape) + ", allowed [batch, tokens, hidden]");
    batch = x.shape[0];
    tokens = x.shape[1];
    test.input("x", {batch, tokens, hidden});
    Index fed = 0;
    for (const Index chunk : chunks) fed += chunk;
    if (fed != tokens)
      throw BadCase("chunks: given " + std::to_string(fed) + " tokens in all, allowed " + std::to_string(tokens));
    if (test.has_input("kv_pad")) test.input("kv_pad", {batch, tokens});
  }

  Index heads, kv_heads, head_dim, hidden, rotary_dim;
  Index left_window;  // keys before the query's own; below 0: no bound
  double scale, base;
  std::vector<Index> chunks;
  Index batch = 0, tokens = 0;
};

template <class T>
struct Weights {
  Weights(const Case& test, const Facts& facts) {
    const Index q = facts.heads * facts.head_dim, kv = facts.kv_heads * facts.head_dim;
    views.query = matrix(test, "Wq", q, facts.hidden);
    views.key = matrix(test, "Wk", kv, facts.hidden);
    views.value = matrix(test, "Wv", kv, facts.hidden);
    views.output = matrix(test, "Wo", facts.hidden, q);
    views.query_bias = bias(test, "bq", q);
    views.key_bias = bias(test, "bk", kv);
    views.value_bias = bias(test, "bv", kv);
    views.output_bias = bias(test, "bo", facts.hidden);
  }

  lockstep::LayerWeights<T> views;

 private:
  const T* keep(const Tensor& tensor) {
    return kept_.emplace_back(std::make_unique<std::vector<T>>(numbers<T>(tensor)))->data();
  }
  View<const T, 2> matrix(const Case& test, const char* name, Index out, Index in) {
    return View<const T, 2>::contiguous(keep(test.input(name, {out, in})), {out, in});
  }
  View<const T, 1> bias(const Case& test, const char* name, Index out) {
    if (!test.has_input(name)) return nullptr;
    return View<const T, 1>::contiguous(keep(test.input(name, {out})), {out});
  }

  std::vector<std::unique_ptr<std::vector<T>>> kept_;
};

// All that a pass over the tokens leaves behind.
template <class T>
struct Outcome {
  explicit Outcome(const Facts& f)
      : y({f.batch, f.tokens, f.hidden}),
        context({f.batch, f.tokens, f.heads * f.head_dim}),
        lse({f.batch, f.heads, f.tokens}),
        weights({f.batch, f.heads, f.tokens, f.tokens}),
        keys({f.batch, f.kv_heads, f.tokens, f.head_dim}),
        values({f.batch, f.kv_heads, f.tokens, f.head_dim}) {}

  Array<T, 3> y, context, lse;
  Array<T, 4> weights, keys, values;
};

template <class T>
void require_same(Report& report, const std::string& what, const Outcome<T>& a, const Outcome<T>& b) {
  report.require_same_bits(what + ": y", a.y.values, b.y.values);
  report.require_same_bits(what + ": ctx", a.context.values, b.context.values);
  report.require_same_bits(what + ": lse", a.lse.values, b.lse.values);
  report.require_same_bits(what + ": probs", a.weights.values, b.weights.values);
}

template <class T, class Position, class Mask>
class Run {
 public:
  using Layer = lockstep::Attention<T, lockstep::Dynamic, lockstep::Dynamic, Position, Mask, lockstep::Scaled>;

  /// `tables`: the rotary table, where Position wants one.
  template <class... Tables>
  Run(const Case& test, const Facts& facts, const Weights<T>& weights, Mask mask, Tables... tables)
      : facts_(facts),
        x_(numbers<T>(test.input("x"))),
        mask_(mask),
        layer_({.hidden = facts.hidden, .head_dim = facts.head_dim, .heads = facts.heads, .kv_heads = facts.kv_heads},
               weights.views, mask, lockstep::Scaled{facts.scale}, tables...) {}

  /// Without a cache, so without keys and values to export.
  Outcome<T> in_one_pass() const {
    Outcome<T> outcome(facts_);
    auto y = outcome.y.view();
    auto options = options_for(outcome, 0, facts_.tokens);
    layer_.forward(x(0, facts_.tokens), y, options);
    return outcome;
  }

  /// Through one cache a sequence.
  Outcome<T> in_chunks(const std::vector<Index>& chunks) const {
    Outcome<T> outcome(facts_);
    std::vector<typename Layer::Cache> caches;
    for (Index b = 0; b < facts_.batch; ++b) caches.push_back(layer_.make_cache(facts_.tokens));
    Index first = 0;
    for (const Index count : chunks) {
      auto options = options_for(outcome, first, count);
      layer_.forward(x(first, count), caches, outcome.y.view().part(1, first, count), options);
      first += count;
    }
    for (Index b = 0; b < facts_.batch; ++b) {
      caches[at(b)].export_keys(outcome.keys.view().at(b));
      caches[at(b)].export_values(outcome.values.view().at(b));
    }
    return outcome;
  }

 private:
  View<const T, 3> x(Index first, Index count) const {
    return View<const T, 3>::contiguous(x_.data(), {facts_.batch, facts_.tokens, facts_.hidden}).part(1, first, count);
  }

  typename Layer::Options options_for(Outcome<T>& outcome, Index first, Index count) const {
    typename Layer::Options options;
    options.context = outcome.context.view().part(1, first, count);
    options.lse = outcome.lse.view().part(2, first, count);
    options.weights = outcome.weights.view().part(2, first, count).part(3, 0, first + count);
    options.mask = &mask_;
    return options;
  }

  Facts facts_;
  std::vector<T> x_;
  Mask mask_;
  Layer layer_;
};

template <class T, class Position, class Mask>
void compare(const Case& test, const Run<T, Position, Mask>& run, const Facts& facts, Report& report) {
  const Outcome<T> whole = run.in_one_pass();
  const Outcome<T> chunked = run.in_chunks(facts.chunks);
  const Outcome<T> single = run.in_chunks(std::vector<Index>(at(facts.tokens), 1));
  require_same(report, "chunks against one pass", chunked, whole);
  require_same(report, "token by token against one pass", single, whole);
  report.require_same_bits("chunks against token by token: k_cache", chunked.keys.values, single.keys.values);
  report.require_same_bits("chunks against token by token: v_cache", chunked.values.values, single.values.values);

  report.compare(test, "y", chunked.y.values);
  report.compare(test, "ctx", chunked.context.values);
  if (test.has_output("k_cache")) report.compare(test, "k_cache", chunked.keys.values);
  if (test.has_output("v_cache")) report.compare(test, "v_cache", chunked.values.values);
  if (test.has_output("probs")) report.compare(test, "probs", chunked.weights.values);
}

template <class T, class Position, class... Tables>
void run_at_position(const Case& test, const Facts& facts, Report& report, Tables... tables) {
  const Weights<T> weights(test, facts);
  const auto under = [&](auto mask) {
    compare(test, Run<T, Position, decltype(mask)>(test, facts, weights, mask, tables...), facts, report);
  };
  // SlidingWindow counts the query's own key too.
  const lockstep::SlidingWindow window{.window = facts.left_window + 1};
  if (!test.has_input("kv_pad")) return facts.left_window < 0 ? under(lockstep::Causal{}) : under(window);
  const std::vector<double>& given = test.input("kv_pad").values;
  const auto flags = std::make_unique<bool[]>(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) flags[i] = given[i] != 0;
  const lockstep::KeyPadding padding(View<const bool, 2>::contiguous(flags.get(), {facts.batch, facts.tokens}));
  under(lockstep::Causal{} & padding);
}

template <class T>
void run(const Case& test, Report& report) {
  const Facts facts(test);
  if (test.text("rope.type") == "none") return run_at_position<T, lockstep::NoPosition>(test, facts, report);
  const lockstep::RopeTable<T> table =
      rope_table<T>(test, {.rotary_dim = facts.rotary_dim, .base = facts.base, .positions = facts.tokens});
  const std::string& style = test.text("rope.style");
  if (style == "half") return run_at_position<T, lockstep::Rope<lockstep::HalfSplit>>(test, facts, report, table);
  if (style == "interleaved")
    return run_at_position<T, lockstep::Rope<lockstep::Interleaved>>(test, facts, report, table);
  throw BadCase("rope.style: given " + style + ", allowed half, interleaved");
}

std::string unsupported(const Case& test) {
  if (test.integer("left_window") >= 0 && test.has_input("kv_pad")) return "window and padding";
  if (test.number("softcap") > 0) return "soft-cap";
  if (test.integer("causal") == 0) return "a layer without a causal mask";
  return unsupported_rope(test);
}

}  // namespace

const Operation attention_layer{"attention_layer", unsupported, run<float>, run<double>};

}  // namespace cases
