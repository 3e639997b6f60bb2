// Attention on OpenBLAS's products.
#pragma once

#include "blocked_attention.hpp"
#include "openblas.hpp"

#if LOCKSTEP_HAVE_OPENBLAS

namespace bench {

inline void openblas_attend(const Matrix<float>& q, const EigenCache<float>& cache, Index heads, Matrix<float>& scores,
                            Matrix<float>& context) {
  const auto product = [](bool transpose_b, Index m, Index n, Index k, float alpha, const float* a, Index lda,
                          const float* b, Index ldb, float* c, Index ldc) {
    const auto number = [](Index i) { return static_cast<blasint>(i); };
    cblas_sgemm(CblasRowMajor, CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, number(m), number(n), number(k),
                alpha, a, number(lda), b, number(ldb), 0, c, number(ldc));
  };
  blocked_attend(product, q, cache, heads, scores, context);
}

}  // namespace bench

#endif
