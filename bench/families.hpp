// The families Prefill, Chunk, Decode, BatchDecode, Project and Layer for one element type.
#pragma once

#include "attended.hpp"
#include "eigen_attention.hpp"
#include "lockstep/attention.hpp"
#include "lockstep/executor/hook.hpp"
#include "lockstep/kernel/materialized.hpp"
#include "lockstep/kernel/specification.hpp"
#include "lockstep/kernel/tiled.hpp"
#include "lockstep/position/rope.hpp"
#include "suite.hpp"

namespace bench {

/// Materialized sums in another order; the others have the specification's bits.
template <class Kernel, class C>
constexpr double kernel_tolerance() {
  if constexpr (!std::same_as<Kernel, ls::Materialized>)
    return 0;
  else
    return std::same_as<C, double> ? 1e-13 : 1e-5;
}

/// Attention of one sequence, or of several whose caches differ in length.
template <class S, class... Policies>
class AttendWork : public Work {
 public:
  using Call = Attended<S, Policies...>;
  using Cache = typename Call::Cache;
  using Options = typename Call::Options;

  AttendWork(const Shape& shape, Options options)
      : check_mask(options.mask), call(shape.batch, shape.q_len, shape.heads, cache_shape(shape), std::move(options)) {
    for (Index b = 0; b < shape.batch; ++b) {
      const Index length = shape.kv_len() - b * (shape.past / (2 * shape.batch));
      caches_.emplace_back(cache_shape(shape), length);
      fill(caches_.back(), length, static_cast<std::uint64_t>(100 + 2 * b));
      flops += causal_flops(shape.q_len, length, shape.heads, shape.head_dim);
      bytes += 2 * static_cast<double>(length * shape.kv_heads * shape.head_dim) * sizeof(S);
    }
    tokens = static_cast<double>(shape.batch * shape.q_len);
    bytes += 2 * tokens * static_cast<double>(shape.heads * shape.head_dim) * sizeof(typename Call::C);
  }

  void run() override { call.run(caches_); }
  bool right() override {
    return call.right(caches_.front(), kernel_tolerance<typename Call::Set::Kernel, typename Call::C>(), check_mask);
  }

  typename Options::Set::Mask check_mask;  ///< as the last rows see it; see Attended::right()
  Call call;

 private:
  static ls::CacheShape cache_shape(const Shape& s) { return {s.kv_heads, s.head_dim, s.head_dim}; }
  std::vector<Cache> caches_;
};

/// y = W x on packed weights.
template <class S>
class ProjectWork : public Work {
 public:
  using C = ls::compute_t<S>;

  ProjectWork(const Suite::Product& p, ls::Hook executor)
      : p_(p),
        executor_(executor),
        x_(numbers<C>(p.rows * p.in, 5)),
        plain_(numbers<S>(p.out * p.in, 6)),
        y_(at(p.rows * p.out)),
        weights_(p.out, p.in) {
    weights_.place(0, ls::View<const S, 2>::contiguous(plain_.data(), {p.out, p.in}), ls::View<const S, 1>{});
    flops = 2 * static_cast<double>(p.rows * p.out) * static_cast<double>(p.in);
    bytes = static_cast<double>(p.out * p.in) * sizeof(S) + static_cast<double>(p.rows * (p.out + p.in)) * sizeof(C);
    tokens = static_cast<double>(p.rows);
  }
  void run() override {
    ls::project(ls::View<const C, 2>::contiguous(x_.data(), {p_.rows, p_.in}), weights_,
                ls::View<C, 2>::contiguous(y_.data(), {p_.rows, p_.out}), executor_, static_cast<C*>(nullptr));
  }
  bool right() override { return right_product<S, C>(p_, x_.data(), plain_.data(), y_.data()); }

  /// Whether some numbers of y are those of a sum in double, near enough.
  template <class W, class X>
  static bool right_product(const Suite::Product& p, const X* x, const W* weights, const X* y) {
    constexpr Index samples = 97;
    const double tolerance = (std::same_as<X, double> ? 1e-14 : 1e-6) * static_cast<double>(p.in);
    for (Index i = 0; i < samples; ++i) {
      const Index row = i % p.rows, column = i * p.out / samples;
      double sum = 0;
      for (Index k = 0; k < p.in; ++k)
        sum += static_cast<double>(x[row * p.in + k]) * static_cast<double>(ls::widen(weights[column * p.in + k]));
      if (!(std::abs(sum - static_cast<double>(y[row * p.out + column])) <= tolerance)) return false;
    }
    return true;
  }

 private:
  Suite::Product p_;
  ls::Hook executor_;
  ls::AlignedVector<C> x_;
  ls::AlignedVector<S> plain_;
  ls::AlignedVector<C> y_;
  ls::PackedWeights<S> weights_;
};

/// Weights of a layer of element type T, and the same widened for Eigen.
template <class T>
struct BothWeights {
  using C = ls::compute_t<T>;
  explicit BothWeights(const Shape& s) : widened(s.heads * s.head_dim, s.heads, s.kv_heads, s.head_dim) {
    for (auto* m : {&widened.query, &widened.key, &widened.value, &widened.output}) stored.push_back(round(*m));
    for (auto* m : {&widened.query_bias, &widened.key_bias, &widened.value_bias}) stored.push_back(round(*m));
  }
  ls::LayerWeights<T> views(const Shape& s) const {
    const Index hidden = s.heads * s.head_dim, kv = s.kv_heads * s.head_dim;
    const auto matrix = [this](std::size_t i, Index rows, Index cols) {
      return ls::View<const T, 2>::contiguous(stored[i].data(), {rows, cols});
    };
    const auto row = [this](std::size_t i, Index n) { return ls::View<const T, 1>::contiguous(stored[i].data(), {n}); };
    return {.query = matrix(0, hidden, hidden),
            .key = matrix(1, kv, hidden),
            .value = matrix(2, kv, hidden),
            .output = matrix(3, hidden, hidden),
            .query_bias = row(4, hidden),
            .key_bias = row(5, kv),
            .value_bias = row(6, kv)};
  }

  EigenWeights<C> widened;
  std::vector<ls::AlignedVector<T>> stored;

 private:
  template <class M>
  static ls::AlignedVector<T> round(M& m) {
    ls::AlignedVector<T> result(at(m.size()));
    for (Index i = 0; i < static_cast<Index>(m.size()); ++i) {
      result[at(i)] = ls::narrow<T>(m.data()[i]);
      m.data()[i] = ls::widen(result[at(i)]);
    }
    return result;
  }
};

/// How far a layer may be from the same layer in Eigen, whose keys and values are not rounded to T.
template <class T>
constexpr double layer_tolerance() {
  if constexpr (std::same_as<T, double>)
    return 1e-12;
  else if constexpr (std::same_as<T, float>)
    return 1e-4;
  else
    return std::same_as<T, Eigen::half> ? 1e-2 : 1e-1;
}

/// A layer that takes q_len tokens after `past` ones, again and again.
template <class T, class Kernel, class Position>
class LayerWork : public Work {
 public:
  using C = ls::compute_t<T>;
  using Layer = ls::Attention<T, ls::Dynamic, ls::Dynamic, Position, ls::Causal, Kernel, ls::Hook>;

  LayerWork(const Shape& s, ls::Hook executor)
      : shape_(s),
        weights_(s),
        layer_(make_layer(executor)),
        cache_(layer_.make_cache(s.kv_len())),
        x_(numbers<T>(s.q_len * s.heads * s.head_dim, 7)),
        y_(x_.size()),
        keys_(numbers<C>(s.past * s.kv_heads * s.head_dim, 8)),
        values_(numbers<C>(s.past * s.kv_heads * s.head_dim, 9)) {
    cache_.append(ls::View<const C, 3>::contiguous(keys_.data(), {s.past, s.kv_heads, s.head_dim}),
                  ls::View<const C, 3>::contiguous(values_.data(), {s.past, s.kv_heads, s.head_dim}));
    const Index width = 2 * (s.heads + s.kv_heads) * s.head_dim, hidden = s.heads * s.head_dim;
    flops = causal_flops(s.q_len, s.kv_len(), s.heads, s.head_dim) +
            2 * static_cast<double>(s.q_len * width) * static_cast<double>(hidden);
    bytes = (static_cast<double>(width * hidden) + 2 * static_cast<double>(s.kv_len() * s.kv_heads * s.head_dim)) *
            sizeof(T);
    tokens = static_cast<double>(s.q_len);
  }

  void run() override {
    const Index hidden = shape_.heads * shape_.head_dim;
    layer_.forward(ls::View<const T, 2>::contiguous(x_.data(), {shape_.q_len, hidden}), cache_,
                   ls::View<T, 2>::contiguous(y_.data(), {shape_.q_len, hidden}));
    cache_.truncate(shape_.past);
  }
  /// Against the same layer in Eigen, or, where positions are others than Eigen's, against the specification's bits.
  bool right() override {
    if constexpr (std::same_as<Position, ls::Rope<ls::HalfSplit>>) {
      return like_eigen();
    } else {
      LayerWork<T, ls::Specification, Position> reference(shape_, {});
      reference.run();
      return same_bits(y_, reference.result());
    }
  }
  const ls::AlignedVector<T>& result() const noexcept { return y_; }

 private:
  static constexpr double base = 1e6;

  Layer make_layer(ls::Hook executor) const {
    const ls::LayerShape shape{.hidden = shape_.heads * shape_.head_dim,
                               .head_dim = shape_.head_dim,
                               .heads = shape_.heads,
                               .kv_heads = shape_.kv_heads};
    if constexpr (std::same_as<Position, ls::NoPosition>)
      return Layer(shape, weights_.views(shape_), executor);
    else
      return Layer(shape, weights_.views(shape_),
                   ls::RopeTable<C>({.rotary_dim = shape_.head_dim, .base = base, .positions = shape_.kv_len()}),
                   executor);
  }

  bool like_eigen() const {
    EigenLayer<C> layer(weights_.widened, shape_.heads, shape_.kv_heads, base, shape_.kv_len());
    EigenCache<C> cache = layer.make_cache(shape_.kv_len());
    const Index width = shape_.kv_heads * shape_.head_dim;
    cache.append(Eigen::Map<const Matrix<C>>(keys_.data(), shape_.past, width),
                 Eigen::Map<const Matrix<C>>(values_.data(), shape_.past, width));
    Matrix<C> x(shape_.q_len, shape_.heads * shape_.head_dim), y;
    for (Index i = 0; i < static_cast<Index>(x.size()); ++i) x.data()[i] = ls::widen(x_[at(i)]);
    layer.forward(x, cache, y);
    for (Index i = 0; i < static_cast<Index>(y.size()); ++i)
      if (!(std::abs(static_cast<double>(ls::widen(y_[at(i)])) - static_cast<double>(y.data()[i])) <=
            layer_tolerance<T>()))
        return false;
    return true;
  }

  Shape shape_;
  BothWeights<T> weights_;
  Layer layer_;
  typename Layer::Cache cache_;
  ls::AlignedVector<T> x_, y_;
  ls::AlignedVector<C> keys_, values_;
};

/// Which kernel, on which instruction set, on which threads; and what names say of it.
struct Variant {
  std::string kernel;    ///< "Tiled, avx512"
  std::string suffix{};  ///< "/executor:hook/threads:2"
  Suite::Settings settings{};
  Speed speed = Speed::fast;
};

/// The four families of attention proper. `executor()` is asked when a benchmark's turn comes.
template <class S, class Kernel, class Executor>
void add_attention(const Suite& suite, const Variant& v, const std::function<Executor()>& executor) {
  const auto add = [&](const std::string& family, const std::string& shape_name, const Shape& shape) {
    suite.add(
        family + "<" + element_name<S>() + ", " + v.kernel + ">" + shape_name + v.suffix,
        [=]() -> std::unique_ptr<Work> {
          ls::AttendOptions<ls::compute_t<S>, ls::Causal, Kernel, Executor> options;
          options.executor = executor();
          return std::make_unique<AttendWork<S, ls::Causal, Kernel, Executor>>(shape, std::move(options));
        },
        v.settings);
  };
  for (const Shape& s : suite.prefill(v.speed)) add("Prefill", prefill_name(s), s);
  for (const Shape& s : suite.chunk(v.speed)) add("Chunk", chunk_name(s), s);
  for (const Shape& s : suite.decode(v.speed)) add("Decode", decode_name(s), s);
  for (const Shape& s : suite.batch_decode(v.speed)) add("BatchDecode", batch_name(s), s);
}

template <class T, class Kernel>
void add_layers(const Suite& suite, const Variant& v, const std::function<ls::Hook()>& executor) {
  for (const Shape& s : suite.layers(v.speed))
    suite.add(
        "Layer<" + element_name<T>() + ", " + v.kernel + ">" + chunk_name(s) + v.suffix,
        [=]() -> std::unique_ptr<Work> {
          return std::make_unique<LayerWork<T, Kernel, ls::Rope<ls::HalfSplit>>>(s, executor());
        },
        v.settings);
}

template <class T>
void add_products(const Suite& suite, const Variant& v, const std::function<ls::Hook()>& executor) {
  for (const Suite::Product& p : suite.products(v.speed))
    suite.add(
        "Project<" + element_name<T>() + ", " + v.kernel + ">" + product_name(p) + v.suffix,
        [=]() -> std::unique_ptr<Work> { return std::make_unique<ProjectWork<T>>(p, executor()); }, v.settings);
}

/// Every kernel; Tiled on every instruction set, and on several threads on the best one.
template <class T>
void add_element_type(const Suite& suite) {
  const std::function<ls::Hook()> alone = [] { return ls::Hook(); };
  const auto slow = [&]<class Kernel>(Kernel) {
    const Variant v{.kernel = Kernel::name, .speed = Speed::slow};
    add_attention<T, Kernel, ls::Hook>(suite, v, alone);
    add_layers<T, Kernel>(suite, v, alone);
  };
  slow(ls::Specification{});
  slow(ls::Materialized{});
  const auto tiled = [&](const Variant& v, const std::function<ls::Hook()>& executor) {
    add_attention<T, ls::Tiled, ls::Hook>(suite, v, executor);
    add_layers<T, ls::Tiled>(suite, v, executor);
    Variant product = v;
    product.kernel = ls::name_of(v.settings.set);
    add_products<T>(suite, product, executor);
  };
  for (const auto set : instruction_sets())
    tiled({.kernel = std::string("Tiled, ") + ls::name_of(set), .settings = {.set = set}, .speed = speed_of(set)},
          alone);
  for (const Index n : suite.threads())
    tiled({.kernel = std::string("Tiled, ") + ls::name_of(ls::instruction_set()),
           .suffix = "/executor:hook/threads:" + std::to_string(n),
           .settings = {.wall_clock = true}},
          [n] { return spinning_threads(n).executor(); });
}

}  // namespace bench
