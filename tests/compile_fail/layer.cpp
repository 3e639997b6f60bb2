// expect: Heads must be a multiple of KvHeads
// expect: two masks given, at most one is allowed
// expect: two kernels given, at most one is allowed
// expect: every type after the head numbers must be a policy
// expect: RepeatedHeads is offered under kernel Materialized only
// expect: y must be a writable matrix
// expect: every value after the weights must be the value of one of the layer's policies
// expect: the mask does not offer what concept Mask asks
// expect: two logit biases given, at most one is allowed
// expect: two q/k norms given, at most one is allowed
// expect: the bias does not offer what concept LogitBias asks
// Types and numbers that are known when compiling, in a layer.
#include <lockstep/lockstep.hpp>

#include <Eigen/Core>

namespace ls = lockstep;

#if LOCKSTEP_BAD == 1
using Layer = ls::Attention<float, 7, 2>;
#elif LOCKSTEP_BAD == 2
using Layer = ls::Attention<float, 4, 2, ls::Causal, ls::NoMask>;
#elif LOCKSTEP_BAD == 3
using Layer = ls::Attention<float, 4, 2, ls::Specification, ls::Causal, ls::Materialized>;
#elif LOCKSTEP_BAD == 4
using Layer = ls::Attention<float, 4, 2, ls::Causal, int>;
#elif LOCKSTEP_BAD == 5
using Layer = ls::Attention<float, 4, 2, ls::RepeatedHeads>;
#elif LOCKSTEP_BAD == 8
struct MayThrow : ls::Causal {
  ls::KeyRange range(const ls::QueryRow& row, ls::Index keys) const { return ls::Causal::range(row, keys); }
};
using Layer = ls::Attention<float, 4, 2, MayThrow>;
#elif LOCKSTEP_BAD == 9
using Layer = ls::Attention<float, 4, 2, ls::Alibi<>, ls::SoftCap, ls::RelativeBias<>>;
#elif LOCKSTEP_BAD == 10
using Layer = ls::Attention<float, 4, 2, ls::QkNorm<ls::BeforeRope>, ls::QkNorm<ls::AfterRope>>;
#elif LOCKSTEP_BAD == 11
struct NoBlocks {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::bias;
  float apply(float s, ls::QueryRow, ls::Index) const noexcept { return s; }
};
using Layer = ls::Attention<float, 4, 2, NoBlocks>;
#else
using Layer = ls::Attention<float, 4, 2, ls::Causal, ls::Rope<ls::HalfSplit>, ls::SoftCap, ls::Alibi<>>;
#endif

void use(const ls::LayerWeights<float>& weights, const Eigen::MatrixXf& x, Eigen::MatrixXf& y) {
#if LOCKSTEP_BAD == 7
  Layer layer{{.hidden = 8, .head_dim = 2}, weights, 3.5};
#else
  Layer layer{{.hidden = 8, .head_dim = 2}, weights};
#endif
#if LOCKSTEP_BAD == 6
  const Eigen::MatrixXf& out = y;
#else
  Eigen::MatrixXf& out = y;
#endif
  layer.forward(x, out);
}

int main() {}
