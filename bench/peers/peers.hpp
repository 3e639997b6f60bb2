// Other libraries that compute causal grouped-query attention on the CPU, beside ours in the same families. Each is
// used where it was found when this was configured.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "eigen_attention.hpp"
#include "suite.hpp"

namespace bench {

/// One call of a peer's attention. It takes its inputs over in its own layout when it is made, as an engine built on it
/// would keep them, and runs on one thread.
class Peer {
 public:
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;
  virtual void run() = 0;
  /// context [q_len, heads * head_dim] of the last run.
  virtual void read(Matrix<float>& context) const = 0;
};

/// query [q_len, heads * head_dim], keys and values [kv_len, kv_heads * head_dim], whose last tokens are the queries'.
struct PeerInput {
  Shape shape;
  const Matrix<float>& query;
  const Matrix<float>& keys;
  const Matrix<float>& values;
};

struct PeerLibrary {
  const char* name;
  std::string version;  ///< empty where the library was not found
  std::unique_ptr<Peer> (*make)(const PeerInput&);
};

/// Every library that there is an adapter for.
std::vector<PeerLibrary> peer_libraries();

/// Benchmarks of those that were found.
void add_peers(const Suite& suite);

}  // namespace bench
