// The weights of a trained model, read from a llama2.c checkpoint (the headerless first version of that format).
//
// Seven int32: dim, hidden, layers, heads, kv_heads, vocab, positions; a negative vocab says that the classifier has
// weights of its own. Then float32 without gaps, each section for all layers: embedding, attention norms, wq, wk, wv,
// wo, feed-forward norms, w1, w2, w3, final norm, two rotary tables nobody uses, and the classifier if it has its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "llama2c/input_file.hpp"

namespace llama2c {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::RowVectorXf;

/// The shape of a model, as its file states it.
struct Config {
  std::int64_t dim = 0;     // length of a token's row
  std::int64_t hidden = 0;  // inner length of the feed-forward block
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t vocab = 0;
  std::int64_t positions = 0;   // longest sequence the model was made for
  bool own_classifier = false;  // false: logits come from the embedding

  std::int64_t head_dim() const noexcept { return dim / heads; }
  std::int64_t kv_dim() const noexcept { return kv_heads * head_dim(); }
};

/// A whole checkpoint in memory. Refuses, with a std::runtime_error, any file whose size is not exactly the one its
/// header implies; nothing larger than the header is allocated before that is known.
class Checkpoint {
 public:
  using MatrixMap = Eigen::Map<const Matrix>;
  using VectorMap = Eigen::Map<const Vector>;

  /// Projections are [out, in], as stored.
  struct Layer {
    VectorMap attention_norm;
    MatrixMap query, key, value, output;
    VectorMap feed_forward_norm;
    MatrixMap gate, down, up;  // w1, w2, w3: down(silu(gate x) * up x)
  };

  explicit Checkpoint(const std::filesystem::path& path) {
    InputFile file(path, "checkpoint");
    read_header(file);
    lay_out();
    const std::int64_t expected = header_bytes + offset_.back() * std::int64_t{sizeof(float)};
    if (file.size() != expected)
      file.refuse("size", std::to_string(file.size()) + " bytes",
                  "exactly " + std::to_string(expected) + " for this header");
    weights_.resize(static_cast<std::size_t>(offset_.back()));
    file.read(weights_.data(), offset_.back(), "weights");
  }

  const Config& config() const noexcept { return config_; }
  MatrixMap embedding() const { return matrix(token_embedding, 0, config_.vocab, config_.dim); }
  VectorMap final_norm() const { return vector(last_norm, 0); }
  MatrixMap classifier() const {
    return config_.own_classifier ? matrix(classifier_weights, 0, config_.vocab, config_.dim) : embedding();
  }

  Layer layer(std::int64_t i) const {
    const Config& c = config_;
    return {vector(attention_norms, i),       matrix(wq, i, c.dim, c.dim),    matrix(wk, i, c.kv_dim(), c.dim),
            matrix(wv, i, c.kv_dim(), c.dim), matrix(wo, i, c.dim, c.dim),    vector(feed_forward_norms, i),
            matrix(w1, i, c.hidden, c.dim),   matrix(w2, i, c.dim, c.hidden), matrix(w3, i, c.hidden, c.dim)};
  }

 private:
  // In the order of the file.
  enum Section : std::size_t {
    token_embedding,
    attention_norms,
    wq,
    wk,
    wv,
    wo,
    feed_forward_norms,
    w1,
    w2,
    w3,
    last_norm,
    rotary_tables,
    classifier_weights,
    section_count
  };

  static constexpr std::int64_t header_bytes = 28;

  void read_header(InputFile& file) {
    std::array<std::int32_t, 7> number{};
    file.read(number.data(), 7, "header");
    // Later versions of the format begin with "ak42"; their layout is another.
    if (number[0] == 0x616b3432)
      file.refuse("format", "a file of version 1 or later", "version 0, which has no magic number");
    Config& c = config_;
    c = {number[0], number[1], number[2], number[3], number[4], number[5], number[6], number[5] < 0};
    if (c.own_classifier) c.vocab = -c.vocab;
    // Far beyond any model this program is for, and small enough that no product of them overflows 64 bits.
    file.check("dim", c.dim, 2, 1 << 16);
    file.check("hidden", c.hidden, 1, 1 << 18);
    file.check("layers", c.layers, 1, 1 << 10);
    file.check("heads", c.heads, 1, c.dim / 2);
    file.check("kv_heads", c.kv_heads, 1, c.heads);
    file.check("vocab", c.vocab, 1, 1 << 20);
    file.check("positions", c.positions, 1, 1 << 20);
    if (c.dim % (2 * c.heads) != 0)
      file.refuse("heads", std::to_string(c.heads),
                  "numbers that divide dim " + std::to_string(c.dim) + " into even parts");
    if (c.heads % c.kv_heads != 0)
      file.refuse("kv_heads", std::to_string(c.kv_heads), "numbers that divide heads " + std::to_string(c.heads));
  }

  void lay_out() {
    const Config& c = config_;
    const std::array<std::int64_t, section_count> length{c.vocab * c.dim,
                                                         c.layers * c.dim,
                                                         c.layers * c.dim * c.dim,
                                                         c.layers * c.kv_dim() * c.dim,
                                                         c.layers * c.kv_dim() * c.dim,
                                                         c.layers * c.dim * c.dim,
                                                         c.layers * c.dim,
                                                         c.layers * c.hidden * c.dim,
                                                         c.layers * c.hidden * c.dim,
                                                         c.layers * c.hidden * c.dim,
                                                         c.dim,
                                                         c.positions * c.head_dim(),
                                                         c.own_classifier ? c.vocab * c.dim : 0};
    for (std::size_t s = 0; s < section_count; ++s) offset_[s + 1] = offset_[s] + length[s];
  }

  const float* section(Section s, std::int64_t skipped) const { return weights_.data() + offset_[s] + skipped; }
  MatrixMap matrix(Section s, std::int64_t i, std::int64_t rows, std::int64_t cols) const {
    return {section(s, i * rows * cols), rows, cols};
  }
  VectorMap vector(Section s, std::int64_t i) const { return {section(s, i * config_.dim), config_.dim}; }

  Config config_;
  std::array<std::int64_t, section_count + 1> offset_{};  // in floats
  std::vector<float> weights_;
};

}  // namespace llama2c
