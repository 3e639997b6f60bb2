// A layer with a mask and a logit transform of one's own (custom_mask/), as good as the library's: the strided pattern
// of the Sparse Transformer, with logits that grow with the logarithm of the length.
#include <cstring>
#include <exception>
#include <iostream>
#include <stdexcept>

#include <Eigen/Core>

#include "custom_mask/every_nth.hpp"
#include "custom_mask/length_scaled.hpp"
#include "lockstep/lockstep.hpp"

namespace {

namespace ls = lockstep;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
// The last n keys, and before them each nth. Masks of one's own combine with ours.
using Strided = ls::Or<ls::SlidingWindow, custom::EveryNth>;
using Layer = ls::Attention<float, 4, 2, ls::Rope<ls::Interleaved>, Strided, custom::LengthScaled>;

void show(const Strided& mask, ls::Index rows) {
  for (ls::Index row = 0; row < rows; ++row) {
    for (ls::Index key = 0; key <= row; ++key) std::cout << (mask.visible({.row = row, .place = row}, key) ? '#' : '.');
    std::cout << '\n';
  }
}

int run() {
  constexpr ls::Index hidden = 32, head_dim = 8, tokens = 300, prompt = 280;
  const Matrix query = Matrix::Random(4 * head_dim, hidden), key = Matrix::Random(2 * head_dim, hidden),
               value = Matrix::Random(2 * head_dim, hidden), output = Matrix::Random(hidden, 4 * head_dim),
               x = Matrix::Random(tokens, hidden);
  const ls::LayerWeights<float> weights{.query = query, .key = key, .value = value, .output = output};
  const Strided mask{{.window = 5}, {.n = 5}};
  show(mask, 16);

  // Policies' values come after the weights, in any order.
  const Layer layer{{.hidden = hidden, .head_dim = head_dim}, weights, custom::LengthScaled{.strength = 0.5}, mask};
  std::cout << layer << '\n';

  // A prompt in one call, then token by token, against all tokens at once.
  Matrix full(tokens, hidden), decoded(tokens, hidden);
  layer.forward(x, full);
  auto cache = layer.make_cache(tokens);
  layer.forward(x.topRows(prompt), cache, decoded.topRows(prompt));
  for (ls::Index i = prompt; i < tokens; ++i) layer.forward(x.middleRows(i, 1), cache, decoded.middleRows(i, 1));
  ls::Index equal = 0;
  for (ls::Index i = 0; i < tokens; ++i)
    equal += std::memcmp(decoded.row(i).data(), full.row(i).data(), sizeof(float) * hidden) == 0;
  std::cout << equal << " of " << tokens << " rows have the bits of the full forward\n";

  // What the policies' own check() refuses is refused when the layer is made.
  try {
    const Layer refused{{.hidden = hidden, .head_dim = head_dim}, weights, Strided{{.window = 5}, {.n = 0}}};
    return 1;
  } catch (const std::invalid_argument& error) {
    std::cout << "refused, as it should be: " << error.what() << '\n';
  }
  return equal == tokens ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << "custom_mask: " << error.what() << '\n';
    return 2;
  }
}
