// The baseline: attention and a grouped-query layer as a user would write them with Eigen alone.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <vector>

#include "random.hpp"

// Eigen chooses its instructions at compile time. A translation unit that is compiled with other flags than the rest
// names this namespace, and Eigen's, otherwise: the linker must not take one's functions for the other's.
#ifndef BENCH_EIGEN
#define BENCH_EIGEN eigen
#endif

namespace bench {

inline namespace BENCH_EIGEN {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
using RowVector = Eigen::Matrix<T, 1, Eigen::Dynamic>;

template <class T>
Matrix<T> random_matrix(Index rows, Index cols, std::uint64_t seed, double size = 1) {
  Random random(seed);
  Matrix<T> result(rows, cols);
  for (Index i = 0; i < rows * cols; ++i) result.data()[i] = static_cast<T>(size * random.uniform());
  return result;
}

/// Keys and values of one sequence, a matrix [capacity, head_dim] for each kv head.
template <class T>
struct EigenCache {
  EigenCache(Index kv_heads, Index head_dim, Index capacity)
      : keys(at(kv_heads), Matrix<T>::Zero(capacity, head_dim)), values(keys) {}

  /// keys and values [tokens, kv_heads * head_dim].
  template <class K, class V>
  void append(const K& new_keys, const V& new_values) {
    const Index head_dim = keys[0].cols();
    for (Index g = 0; g < static_cast<Index>(keys.size()); ++g) {
      keys[at(g)].middleRows(length, new_keys.rows()) = new_keys.middleCols(g * head_dim, head_dim);
      values[at(g)].middleRows(length, new_keys.rows()) = new_values.middleCols(g * head_dim, head_dim);
    }
    length += new_keys.rows();
  }

  std::vector<Matrix<T>> keys, values;
  Index length = 0;
};

/// Row-wise softmax of scores [q_len, kv_len] whose row i sees keys 0 .. offset + i; the others get weight 0.
template <class S>
void causal_softmax(S&& scores, Index offset) {
  for (Index i = 0; i < scores.rows(); ++i) {
    const Index seen = std::min<Index>(offset + i + 1, scores.cols());
    auto row = scores.row(i).head(seen).array();
    row = (row - row.maxCoeff()).exp();
    row /= row.sum();
    scores.row(i).tail(scores.cols() - seen).setZero();
  }
}

/// Causal attention of q [q_len, heads * head_dim] over a cache that holds the keys of these queries too: two products
/// and a softmax for each head. `scores` is kept by the caller, so that no call allocates them anew.
template <class T>
void eigen_attend(const Matrix<T>& q, const EigenCache<T>& cache, Index heads, Matrix<T>& scores, Matrix<T>& context) {
  const Index head_dim = cache.keys[0].cols();
  const Index group_size = heads / static_cast<Index>(cache.keys.size());
  const T scale = T(1 / std::sqrt(static_cast<double>(head_dim)));
  scores.resize(q.rows(), cache.length);
  context.resize(q.rows(), heads * head_dim);
  for (Index h = 0; h < heads; ++h) {
    const auto keys = cache.keys[at(h / group_size)].topRows(cache.length);
    const auto values = cache.values[at(h / group_size)].topRows(cache.length);
    scores.noalias() = scale * q.middleCols(h * head_dim, head_dim) * keys.transpose();
    causal_softmax(scores, cache.length - q.rows());
    context.middleCols(h * head_dim, head_dim).noalias() = scores * values;
  }
}

/// Weights and biases of a layer in the order of checkpoints, [out, in].
template <class T>
struct EigenWeights {
  EigenWeights(Index hidden, Index heads, Index kv_heads, Index head_dim)
      : query(random_matrix<T>(heads * head_dim, hidden, 11, size(hidden))),
        key(random_matrix<T>(kv_heads * head_dim, hidden, 12, size(hidden))),
        value(random_matrix<T>(kv_heads * head_dim, hidden, 13, size(hidden))),
        output(random_matrix<T>(hidden, heads * head_dim, 14, size(heads * head_dim))),
        query_bias(random_matrix<T>(1, heads * head_dim, 15)),
        key_bias(random_matrix<T>(1, kv_heads * head_dim, 16)),
        value_bias(random_matrix<T>(1, kv_heads * head_dim, 17)) {}

  Matrix<T> query, key, value, output;
  RowVector<T> query_bias, key_bias, value_bias;

 private:
  // Keeps the variance of a row through a projection.
  static double size(Index in) { return std::sqrt(3.0 / static_cast<double>(in)); }
};

/// A grouped-query layer with half-split RoPE.
template <class T>
class EigenLayer {
 public:
  EigenLayer(const EigenWeights<T>& weights, Index heads, Index kv_heads, double base, Index positions)
      : weights_(weights), heads_(heads), kv_heads_(kv_heads), head_dim_(weights.query.rows() / heads) {
    cos_.resize(positions, head_dim_ / 2);
    sin_.resize(positions, head_dim_ / 2);
    for (Index p = 0; p < positions; ++p)
      for (Index i = 0; i < head_dim_ / 2; ++i) {
        const double angle =
            static_cast<double>(p) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim_));
        cos_(p, i) = T(std::cos(angle));
        sin_(p, i) = T(std::sin(angle));
      }
  }

  EigenCache<T> make_cache(Index capacity) const { return EigenCache<T>(kv_heads_, head_dim_, capacity); }

  void forward(const Matrix<T>& x, EigenCache<T>& cache, Matrix<T>& y) {
    project(x, weights_.query, q_);
    project(x, weights_.key, k_);
    project(x, weights_.value, v_);
    q_.rowwise() += weights_.query_bias;
    k_.rowwise() += weights_.key_bias;
    v_.rowwise() += weights_.value_bias;
    rotate(q_, heads_, cache.length);
    rotate(k_, kv_heads_, cache.length);
    cache.append(k_, v_);
    eigen_attend(q_, cache, heads_, scores_, context_);
    project(context_, weights_.output, y);
  }

 private:
  static void project(const Matrix<T>& x, const Matrix<T>& weight, Matrix<T>& y) {
    y.resize(x.rows(), weight.rows());
    y.noalias() = x * weight.transpose();
  }

  void rotate(Matrix<T>& rows, Index heads, Index offset) const {
    const Index half = head_dim_ / 2;
    for (Index i = 0; i < rows.rows(); ++i) {
      const auto cos = cos_.row(offset + i).array(), sin = sin_.row(offset + i).array();
      for (Index h = 0; h < heads; ++h) {
        auto a = rows.row(i).segment(h * head_dim_, half).array();
        auto b = rows.row(i).segment(h * head_dim_ + half, half).array();
        const Eigen::Array<T, 1, Eigen::Dynamic> turned = a * cos - b * sin;
        b = a * sin + b * cos;
        a = turned;
      }
    }
  }

  const EigenWeights<T>& weights_;
  Index heads_, kv_heads_, head_dim_;
  Matrix<T> cos_, sin_, q_, k_, v_, scores_, context_;
};

/// A layer of the shape of Qwen2-0.5B on seeded weights, with its cache and its input: the report's baseline.
class ModelLayer {
 public:
  static constexpr int heads = 14, kv_heads = 2;
  static constexpr Index hidden = 896, head_dim = 64, capacity = 4352;
  static constexpr double base = 1e6;

  /// q_len tokens after `past` ones.
  ModelLayer(Index q_len, Index past)
      : x(random_matrix<float>(q_len, hidden, 7)),
        keys(random_matrix<float>(past, kv_heads * head_dim, 8)),
        values(random_matrix<float>(past, kv_heads * head_dim, 9)),
        past_(past) {
    cache_.append(keys, values);
  }
  void run() {
    layer_.forward(x, cache_, y);
    cache_.length = past_;
  }

  EigenWeights<float> weights{hidden, heads, kv_heads, head_dim};
  Matrix<float> x, keys, values, y;

 private:
  Index past_;
  EigenLayer<float> layer_{weights, heads, kv_heads, base, capacity};
  EigenCache<float> cache_{kv_heads, head_dim, capacity};
};

}  // namespace BENCH_EIGEN

}  // namespace bench
