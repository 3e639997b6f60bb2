// The baselines under the families' names: plain Eigen, and OpenBLAS where it is found.
#include "eigen_attention.hpp"
#include "lockstep/attend.hpp"
#include "lockstep/kernel/specification.hpp"
#include "openblas_attention.hpp"
#include "suite.hpp"

namespace bench {

namespace {

template <class T>
using Attend = void (*)(const Matrix<T>&, const EigenCache<T>&, Index, Matrix<T>&, Matrix<T>&);

/// Attention by a baseline, checked against the specification in its last rows.
template <class T>
class BaselineAttention : public Work {
 public:
  BaselineAttention(const Shape& s, Attend<T> attend)
      : shape_(s),
        attend_(attend),
        cache_(s.kv_heads, s.head_dim, s.kv_len()),
        keys_(random_matrix<T>(s.kv_len(), s.kv_heads * s.head_dim, 1)),
        values_(random_matrix<T>(s.kv_len(), s.kv_heads * s.head_dim, 2)),
        q_(random_matrix<T>(s.q_len, s.heads * s.head_dim, 3)) {
    cache_.append(keys_, values_);
    const auto number = [](Index n) { return static_cast<double>(n); };
    flops = 4 * number(s.heads * s.head_dim) * number(s.q_len) * (number(s.past) + number(s.q_len + 1) / 2);
    bytes = 2 * number((s.kv_len() * s.kv_heads + s.q_len * s.heads) * s.head_dim) * sizeof(T);
    tokens = number(s.q_len);
  }
  void run() override { attend_(q_, cache_, shape_.heads, scores_, context_); }
  bool right() override {
    const Index rows = std::min<Index>(3, shape_.q_len), first = shape_.q_len - rows;
    ls::ContiguousCache<T> cache({shape_.kv_heads, shape_.head_dim, shape_.head_dim}, shape_.kv_len());
    const std::array<Index, 3> tokens_of{shape_.kv_len(), shape_.kv_heads, shape_.head_dim},
        rows_of{rows, shape_.heads, shape_.head_dim};
    cache.append(ls::View<const T, 3>::contiguous(keys_.data(), tokens_of),
                 ls::View<const T, 3>::contiguous(values_.data(), tokens_of));
    Matrix<T> expected(rows, context_.cols());
    ls::attend<ls::Causal, ls::Specification>(ls::View<const T, 3>::contiguous(q_.row(first).data(), rows_of), cache,
                                              ls::View<T, 3>::contiguous(expected.data(), rows_of));
    return (expected - context_.bottomRows(rows)).cwiseAbs().maxCoeff() <
           (std::same_as<T, double> ? T(1e-13) : T(1e-5));
  }

 private:
  Shape shape_;
  Attend<T> attend_;
  EigenCache<T> cache_;
  Matrix<T> keys_, values_, q_, scores_, context_;
};

template <class T>
void add_attention(const Suite& suite, const std::string& name, Attend<T> attend) {
  const auto add = [&](const std::string& family, const std::string& shape_name, const Shape& s) {
    suite.add(family + "<" + element_name<T>() + ", " + name + ">" + shape_name,
              [=]() -> std::unique_ptr<Work> { return std::make_unique<BaselineAttention<T>>(s, attend); });
  };
  for (const Shape& s : suite.prefill(Speed::fast)) add("Prefill", prefill_name(s), s);
  for (const Shape& s : suite.chunk(Speed::fast)) add("Chunk", chunk_name(s), s);
  for (const Shape& s : suite.decode(Speed::fast)) add("Decode", decode_name(s), s);
}

/// The layer in Eigen. Lockstep's layers are checked against it, so its own check is that of its parts: it is finite
/// and it repeats.
template <class T>
class BaselineLayer : public Work {
 public:
  explicit BaselineLayer(const Shape& s)
      : past_(s.past),
        weights_(s.heads * s.head_dim, s.heads, s.kv_heads, s.head_dim),
        layer_(weights_, s.heads, s.kv_heads, 1e6, s.kv_len()),
        cache_(layer_.make_cache(s.kv_len())),
        x_(random_matrix<T>(s.q_len, s.heads * s.head_dim, 7)) {
    cache_.append(random_matrix<T>(s.past, s.kv_heads * s.head_dim, 8),
                  random_matrix<T>(s.past, s.kv_heads * s.head_dim, 9));
    tokens = static_cast<double>(s.q_len);
  }
  void run() override {
    layer_.forward(x_, cache_, y_);
    cache_.length = past_;
  }
  bool right() override {
    const Matrix<T> first = y_;
    run();
    return y_.allFinite() && y_ == first;
  }

 private:
  Index past_;
  EigenWeights<T> weights_;
  EigenLayer<T> layer_;
  EigenCache<T> cache_;
  Matrix<T> x_, y_;
};

/// y = x W^T by a baseline, checked by Eigen's lazy product of some rows in double.
template <class T>
class BaselineProduct : public Work {
 public:
  using Multiply = void (*)(const Matrix<T>& x, const Matrix<T>& weight, Matrix<T>& y);
  BaselineProduct(const Suite::Product& p, Multiply multiply)
      : multiply_(multiply),
        x_(random_matrix<T>(p.rows, p.in, 5)),
        weight_(random_matrix<T>(p.out, p.in, 6)),
        y_(p.rows, p.out) {
    flops = 2 * static_cast<double>(p.rows * p.out) * static_cast<double>(p.in);
    bytes = static_cast<double>(p.out * p.in + p.rows * (p.out + p.in)) * sizeof(T);
    tokens = static_cast<double>(p.rows);
  }
  void run() override { multiply_(x_, weight_, y_); }
  bool right() override {
    const auto last = x_.row(x_.rows() - 1).template cast<double>().eval();
    for (Index column = 0; column < y_.cols(); column += 37)
      if (!(std::abs(last.dot(weight_.row(column).template cast<double>()) -
                     static_cast<double>(y_(y_.rows() - 1, column))) < 1e-6 * static_cast<double>(x_.cols())))
        return false;
    return true;
  }

 private:
  Multiply multiply_;
  Matrix<T> x_, weight_, y_;
};

template <class T>
void eigen_multiply(const Matrix<T>& x, const Matrix<T>& weight, Matrix<T>& y) {
  y.noalias() = x * weight.transpose();
}

#if LOCKSTEP_HAVE_OPENBLAS
void openblas_multiply(const Matrix<float>& x, const Matrix<float>& weight, Matrix<float>& y) {
  const auto rows = static_cast<blasint>(x.rows()), in = static_cast<blasint>(x.cols()),
             out = static_cast<blasint>(weight.rows());
  if (rows == 1)
    cblas_sgemv(CblasRowMajor, CblasNoTrans, out, in, 1, weight.data(), in, x.data(), 1, 0, y.data(), 1);
  else
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, out, in, 1, x.data(), in, weight.data(), in, 0, y.data(),
                out);
}
#endif

template <class T>
void add_products(const Suite& suite, const std::string& name, typename BaselineProduct<T>::Multiply multiply) {
  for (const Suite::Product& p : suite.products(Speed::fast))
    suite.add("Project<" + element_name<T>() + ", " + name + ">" + product_name(p),
              [=]() -> std::unique_ptr<Work> { return std::make_unique<BaselineProduct<T>>(p, multiply); });
}

template <class T>
void add_eigen(const Suite& suite) {
  add_attention<T>(suite, "Eigen", &eigen_attend<T>);
  add_products<T>(suite, "Eigen", &eigen_multiply<T>);
  for (const Shape& s : suite.layers(Speed::fast))
    suite.add("Layer<" + element_name<T>() + ", Eigen>" + chunk_name(s),
              [s] { return std::make_unique<BaselineLayer<T>>(s); });
}

}  // namespace

void add_baselines(const Suite& suite) {
  add_eigen<float>(suite);
  add_eigen<double>(suite);
#if LOCKSTEP_HAVE_OPENBLAS
  add_attention<float>(suite, "OpenBLAS", &openblas_attend);
  add_products<float>(suite, "OpenBLAS", &openblas_multiply);
#endif
}

}  // namespace bench
