// Eigen under names of its own, since this file is compiled with other flags than the rest.
#define Eigen EigenOfDefaultFlags
#define BENCH_EIGEN eigen_of_default_flags

#include "default_eigen.hpp"
#include "eigen_attention.hpp"

namespace bench {

struct DefaultEigenLayer::Layer : ModelLayer {
  using ModelLayer::ModelLayer;
};

DefaultEigenLayer::DefaultEigenLayer(Index q_len, Index past) : layer_(std::make_unique<Layer>(q_len, past)) {}
DefaultEigenLayer::~DefaultEigenLayer() = default;
void DefaultEigenLayer::run() { layer_->run(); }
const float* DefaultEigenLayer::result() const { return layer_->y.data(); }
const char* DefaultEigenLayer::instructions() { return Eigen::SimdInstructionSetsInUse(); }

}  // namespace bench
