// The adapters, one a file. Which of them exist is decided by the build.
#pragma once

#include "peers.hpp"

namespace bench {

std::string onednn_version();
std::unique_ptr<Peer> make_onednn(const PeerInput& input);

std::string ggml_library_version();
std::unique_ptr<Peer> make_ggml(const PeerInput& input);

std::string onnxruntime_version();
std::unique_ptr<Peer> make_onnxruntime(const PeerInput& input);

/// rows [tokens, heads * head_dim] as [heads, tokens, head_dim].
inline std::vector<float> by_heads(const Matrix<float>& rows, Index heads) {
  const Index head_dim = rows.cols() / heads;
  std::vector<float> result(at(rows.size()));
  for (Index h = 0; h < heads; ++h)
    Eigen::Map<Matrix<float>>(result.data() + h * rows.rows() * head_dim, rows.rows(), head_dim) =
        rows.middleCols(h * head_dim, head_dim);
  return result;
}

}  // namespace bench
