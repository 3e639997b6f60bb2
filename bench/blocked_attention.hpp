// Attention on the products of a BLAS: what an engine does that has one and no kernel of its own.
#pragma once

#include "eigen_attention.hpp"

namespace bench {

inline namespace BENCH_EIGEN {

/// Causal attention of q [q_len, heads * head_dim] over a cache that holds the keys of these queries too. Rows go in
/// blocks, whose products end at the last key that the block sees. `scores` is kept by the caller.
/// product(transpose_b, m, n, k, alpha, a, lda, b, ldb, c, ldc) is c = alpha a b, or alpha a b^T, row-major.
template <class Product>
void blocked_attend(Product&& product, const Matrix<float>& q, const EigenCache<float>& cache, Index heads,
                    Matrix<float>& scores, Matrix<float>& context) {
  constexpr Index row_block = 256;
  const Index head_dim = cache.keys[0].cols(), offset = cache.length - q.rows();
  const Index group_size = heads / static_cast<Index>(cache.keys.size());
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  context.resize(q.rows(), heads * head_dim);
  scores.resize(std::min(row_block, static_cast<Index>(q.rows())), cache.length);
  for (Index h = 0; h < heads; ++h)
    for (Index first = 0; first < q.rows(); first += row_block) {
      const Index count = std::min(row_block, q.rows() - first), seen = offset + first + count;
      product(true, count, seen, head_dim, scale, &q(first, h * head_dim), q.cols(),
              cache.keys[at(h / group_size)].data(), head_dim, scores.data(), scores.cols());
      causal_softmax(scores.topLeftCorner(count, seen), offset + first);
      product(false, count, head_dim, seen, 1.0F, scores.data(), scores.cols(), cache.values[at(h / group_size)].data(),
              head_dim, &context(first, h * head_dim), q.cols());
    }
}

}  // namespace BENCH_EIGEN

}  // namespace bench
