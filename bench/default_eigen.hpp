// The report's layer in Eigen as compilers build it where nobody names a CPU.
#pragma once

#include <memory>

#include "random.hpp"

namespace bench {

/// ModelLayer of eigen_attention.hpp, in a translation unit of its own that is compiled without flags for this machine.
class DefaultEigenLayer {
 public:
  DefaultEigenLayer(Index q_len, Index past);
  ~DefaultEigenLayer();
  void run();
  /// [q_len, hidden], after run().
  const float* result() const;
  /// The instructions that Eigen was compiled for.
  static const char* instructions();

 private:
  struct Layer;
  std::unique_ptr<Layer> layer_;
};

}  // namespace bench
