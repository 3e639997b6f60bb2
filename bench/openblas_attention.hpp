// Attention on OpenBLAS's products: what an engine does that has a BLAS and no kernel of its own.
#pragma once

#include "eigen_attention.hpp"
#include "openblas.hpp"

#if LOCKSTEP_HAVE_OPENBLAS

namespace bench {

/// Causal attention of q [q_len, heads * head_dim] over a cache that holds the keys of these queries too. Rows go in
/// blocks, whose products end at the last key that the block sees. `scores` is kept by the caller.
inline void openblas_attend(const Matrix<float>& q, const EigenCache<float>& cache, Index heads, Matrix<float>& scores,
                            Matrix<float>& context) {
  constexpr Index row_block = 256;
  const Index head_dim = cache.keys[0].cols(), offset = cache.length - q.rows();
  const Index group_size = heads / static_cast<Index>(cache.keys.size());
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  context.resize(q.rows(), heads * head_dim);
  scores.resize(std::min(row_block, static_cast<Index>(q.rows())), cache.length);
  const auto width = static_cast<blasint>(q.cols()), d = static_cast<blasint>(head_dim),
             stride = static_cast<blasint>(scores.cols());
  for (Index h = 0; h < heads; ++h)
    for (Index first = 0; first < q.rows(); first += row_block) {
      const Index count = std::min(row_block, q.rows() - first), seen = offset + first + count;
      const auto m = static_cast<blasint>(count), n = static_cast<blasint>(seen);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, d, scale, &q(first, h * head_dim), width,
                  cache.keys[at(h / group_size)].data(), d, 0, scores.data(), stride);
      causal_softmax(scores.topLeftCorner(count, seen), offset + first);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, d, n, 1, scores.data(), stride,
                  cache.values[at(h / group_size)].data(), d, 0, &context(first, h * head_dim), width);
    }
}

}  // namespace bench

#endif
