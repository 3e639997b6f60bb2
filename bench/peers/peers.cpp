// Peers under the families' names, each checked against Lockstep before it is timed.
#include "peers.hpp"

#include "adapters.hpp"
#include "attended.hpp"
#include "lockstep/kernel/tiled.hpp"

namespace bench {

namespace {

class PeerWork : public Work {
 public:
  PeerWork(const Shape& s, const PeerLibrary& library)
      : shape_(s),
        keys_(random_matrix<float>(s.kv_len(), s.kv_heads * s.head_dim, 1)),
        values_(random_matrix<float>(s.kv_len(), s.kv_heads * s.head_dim, 2)),
        query_(random_matrix<float>(s.q_len, s.heads * s.head_dim, 3)),
        peer_(library.make({s, query_, keys_, values_})) {
    flops = causal_flops(s.q_len, s.kv_len(), s.heads, s.head_dim);
    bytes = 2 * static_cast<double>((s.kv_len() * s.kv_heads + s.q_len * s.heads) * s.head_dim) * sizeof(float);
    tokens = static_cast<double>(s.q_len);
  }
  void run() override { peer_->run(); }
  /// Every row, within what the order of sums in float may change.
  bool right() override {
    const std::array<Index, 3> tokens_of{shape_.kv_len(), shape_.kv_heads, shape_.head_dim},
        rows_of{shape_.q_len, shape_.heads, shape_.head_dim};
    ls::ContiguousCache<float> cache({shape_.kv_heads, shape_.head_dim, shape_.head_dim}, shape_.kv_len());
    cache.append(ls::View<const float, 3>::contiguous(keys_.data(), tokens_of),
                 ls::View<const float, 3>::contiguous(values_.data(), tokens_of));
    Matrix<float> ours(query_.rows(), query_.cols()), theirs(query_.rows(), query_.cols());
    ls::attend<ls::Causal, ls::Tiled>(ls::View<const float, 3>::contiguous(query_.data(), rows_of), cache,
                                      ls::View<float, 3>::contiguous(ours.data(), rows_of));
    peer_->read(theirs);
    return (ours - theirs).cwiseAbs().maxCoeff() < 1e-5F;
  }

 private:
  Shape shape_;
  Matrix<float> keys_, values_, query_;
  std::unique_ptr<Peer> peer_;
};

}  // namespace

std::vector<PeerLibrary> peer_libraries() {
  std::vector<PeerLibrary> libraries{{"oneDNN", "", nullptr}, {"ggml", "", nullptr}, {"ONNX Runtime", "", nullptr}};
#if LOCKSTEP_HAVE_ONEDNN
  libraries[0] = {"oneDNN", onednn_version(), &make_onednn};
#endif
#if LOCKSTEP_HAVE_GGML
  libraries[1] = {"ggml", ggml_library_version(), &make_ggml};
#endif
#if LOCKSTEP_HAVE_ONNXRUNTIME
  libraries[2] = {"ONNX Runtime", onnxruntime_version(), &make_onnxruntime};
#endif
  return libraries;
}

void add_peers(const Suite& suite) {
  for (const PeerLibrary& library : peer_libraries()) {
    if (library.make == nullptr) continue;
    const auto add = [&](const std::string& family, const std::string& shape_name, const Shape& s) {
      suite.add(family + "<float, " + library.name + ">" + shape_name,
                [=]() -> std::unique_ptr<Work> { return std::make_unique<PeerWork>(s, library); });
    };
    for (const Shape& s : suite.prefill(Speed::fast)) add("Prefill", prefill_name(s), s);
    for (const Shape& s : suite.chunk(Speed::fast)) add("Chunk", chunk_name(s), s);
    for (const Shape& s : suite.decode(Speed::fast)) add("Decode", decode_name(s), s);
  }
}

}  // namespace bench
