// Built without exceptions and run-time type information: check() returns what forward() would have thrown, and
// forward() tells the hook.
#include <lockstep/lockstep.hpp>

#include <Eigen/Core>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ls = lockstep;

int main() {
  using Layer = ls::Attention<float, 2, 1, ls::Rope<ls::HalfSplit>>;
  const Eigen::MatrixXf query = Eigen::MatrixXf::Random(8, 8), key = Eigen::MatrixXf::Random(4, 8),
                        value = Eigen::MatrixXf::Random(4, 8), output = Eigen::MatrixXf::Random(8, 8);
  const ls::LayerWeights<float> weights{.query = query, .key = key, .value = value, .output = output};
  const Layer layer{{.hidden = 8, .head_dim = 4}, weights};
  auto cache = layer.make_cache(3);

  const Eigen::MatrixXf x = Eigen::MatrixXf::Random(4, 8);
  Eigen::MatrixXf y(4, 8), y3(3, 8);
  const Eigen::MatrixXf x3 = x.topRows(3);
  layer.forward(x3, cache, y3);
  if (cache.length() != 3) return 1;

  static ls::Status expected = layer.check(x, cache, y);
  if (expected.ok() || expected.code() != ls::StatusCode::length_error) return 2;
  ls::set_error_handler([](const ls::Status& status) {
    std::puts(status.message());
    std::exit(std::strcmp(status.message(), expected.message()) == 0 ? 0 : 3);
  });
  layer.forward(x, cache, y);
  return 4;
}
