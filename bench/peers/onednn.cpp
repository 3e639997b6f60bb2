// Attention on oneDNN's matrix product: the interface that oneDNN 2 and 3 have in common.
#include <dnnl.h>

#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP
#include <omp.h>
#endif

#include <stdexcept>

#include "adapters.hpp"
#include "blocked_attention.hpp"

namespace bench {

namespace {

class OneDnn : public Peer {
 public:
  explicit OneDnn(const PeerInput& input)
      : heads_(input.shape.heads),
        query_(input.query),
        cache_(input.shape.kv_heads, input.shape.head_dim, input.shape.kv_len()) {
    cache_.append(input.keys, input.values);
#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP
    omp_set_num_threads(1);
#endif
  }
  void run() override {
    const auto product = [](bool transpose_b, Index m, Index n, Index k, float alpha, const float* a, Index lda,
                            const float* b, Index ldb, float* c, Index ldc) {
      if (dnnl_sgemm('N', transpose_b ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, 0, c, ldc) != dnnl_success)
        throw std::runtime_error("dnnl_sgemm failed");
    };
    blocked_attend(product, query_, cache_, heads_, scores_, context_);
  }
  void read(Matrix<float>& context) const override { context = context_; }

 private:
  Index heads_;
  Matrix<float> query_, scores_, context_;
  EigenCache<float> cache_;
};

}  // namespace

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + '.' + std::to_string(v->minor) + '.' + std::to_string(v->patch) +
         ", attention on its sgemm";
}
std::unique_ptr<Peer> make_onednn(const PeerInput& input) { return std::make_unique<OneDnn>(input); }

}  // namespace bench
