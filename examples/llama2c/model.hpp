// A llama2.c model around Lockstep's attention: the same bits for a token alone, in a chunk, and in a whole sequence.
//
// x = embedding[token]; for each layer x += attention(norm(x)), then x += down(silu(gate n) * up n) with n = norm(x);
// logits = classifier norm(x). Every step below works on one row by itself in a fixed order, or is a Lockstep
// projection, whose rows do not depend on how many there are.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "llama2c/checkpoint.hpp"
#include "lockstep/attention.hpp"
#include "lockstep/cache/model_cache.hpp"
#include "lockstep/numeric/exp.hpp"
#include "lockstep/position/rope.hpp"
#include "lockstep/projection/packed.hpp"

namespace llama2c {

/// T is float or double: the checkpoint's weights are widened once. Policies are those of the attention layers beside
/// the rotation: a mask, a cache, an executor ...
template <class T = float, class... Policies>
class Model {
 public:
  using Index = lockstep::Index;
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::RowVectorX<T>;
  using Attention =
      lockstep::Attention<T, lockstep::Dynamic, lockstep::Dynamic, lockstep::Rope<lockstep::Interleaved>, Policies...>;
  using Caches = lockstep::ModelCache<typename Attention::Cache>;

  /// Copies what it needs; the checkpoint may go afterwards.
  explicit Model(const Checkpoint& checkpoint) : Model(checkpoint, checkpoint.config().positions) {}
  /// For positions 0 to `positions` - 1, which may be more than the model was trained on; `values` are the policies'.
  template <class... Values>
  Model(const Checkpoint& checkpoint, Index positions, const Values&... values)
      : config_(checkpoint.config()),
        embedding_(checkpoint.embedding().cast<T>()),
        final_norm_(checkpoint.final_norm().cast<T>()),
        classifier_(packed(checkpoint.classifier())) {
    const lockstep::RopeTable<T> rope{
        lockstep::RopeConfig{.rotary_dim = config_.head_dim(), .base = 1e4, .positions = positions}};
    for (Index i = 0; i < config_.layers; ++i) blocks_.emplace_back(config_, checkpoint.layer(i), rope, values...);
  }

  const Config& config() const noexcept { return config_; }

  /// One cache a layer, each with room for `capacity` tokens of one sequence.
  Caches make_caches(Index capacity) const {
    return make_caches([capacity](const Attention& layer) { return layer.make_cache(capacity); });
  }
  /// One cache a layer, as `make(layer)` makes it.
  template <class Make>
    requires std::invocable<Make&, const Attention&>
  Caches make_caches(Make make) const {
    Caches caches;
    for (const Block& block : blocks_) caches.add(make(block.attention));
    return caches;
  }

  /// Logits [tokens, vocab] of the next tokens of the sequence whose earlier ones the caches hold. A refusal leaves the
  /// caches as they were.
  Matrix forward(std::span<const int> tokens, Caches& caches) const {
    const auto step = caches.begin(static_cast<Index>(tokens.size()));
    try {
      return run(tokens, [&](std::size_t i, const Matrix& x, Matrix& y) {
        blocks_[i].attention.forward(x, cache(caches, i), y, {.offset = step.offset});
      });
    } catch (...) {
      caches.rollback(step);
      throw;
    }
  }

  /// Logits [tokens, vocab] of several sequences in one call: lengths[i] tokens of the one whose earlier ones caches[i]
  /// hold, sequence after sequence. Prompts and single tokens may mix; a row has the bits that it has alone.
  Matrix forward(std::span<const int> tokens, std::span<const Index> lengths, std::span<Caches* const> caches) const {
    if (lengths.size() != caches.size())
      throw std::runtime_error("llama2.c model: lengths: found " + std::to_string(lengths.size()) +
                               ", allowed one for each of " + std::to_string(caches.size()) + " sequences");
    std::vector<typename Caches::Step> steps;
    for (std::size_t b = 0; b < caches.size(); ++b) steps.push_back(caches[b]->begin(lengths[b]));
    std::vector<typename Attention::Cache*> of_layer(caches.size());
    try {
      return run(tokens, [&](std::size_t i, const Matrix& x, Matrix& y) {
        for (std::size_t b = 0; b < caches.size(); ++b) of_layer[b] = &cache(*caches[b], i);
        blocks_[i].attention.forward(x, of_layer, y, {.lengths = lengths});
      });
    } catch (...) {
      for (std::size_t b = 0; b < caches.size(); ++b) caches[b]->rollback(steps[b]);
      throw;
    }
  }

  /// Logits [tokens, vocab] of the nodes of a draft tree: token i follows token parents[i], or what the caches hold
  /// where that is -1, and its logits have the bits of decoding its path. All tokens are appended; keep() sorts out.
  Matrix forward_tree(std::span<const int> tokens, std::span<const Index> parents, Caches& caches) const {
    const auto step = caches.begin(static_cast<Index>(tokens.size()));
    try {
      return run(tokens, [&](std::size_t i, const Matrix& x, Matrix& y) {
        blocks_[i].attention.forward_tree(x, parents, cache(caches, i), y, {.offset = step.offset});
      });
    } catch (...) {
      caches.rollback(step);
      throw;
    }
  }
  /// Keeps the first `context` tokens and of the tree behind them the nodes of `path`.
  void keep(Caches& caches, Index context, std::span<const Index> path) const {
    for (std::size_t i = 0; i < blocks_.size(); ++i) cache(caches, i).keep(context, path);
  }

  /// Logits [tokens, vocab] of a whole sequence, nothing kept.
  Matrix forward(std::span<const int> tokens) const {
    return run(tokens, [&](std::size_t i, const Matrix& x, Matrix& y) { blocks_[i].attention.forward(x, y); });
  }

 private:
  using Weights = lockstep::PackedWeights<T>;

  struct Block {
    template <class... Values>
    Block(const Config& c, const Checkpoint::Layer& w, const Values&... values)
        : Block(Widened{w.query.cast<T>(), w.key.cast<T>(), w.value.cast<T>(), w.output.cast<T>()}, c, w, values...) {}
    struct Widened {
      Matrix query, key, value, output;
    };
    template <class... Values>
    Block(const Widened& own, const Config& c, const Checkpoint::Layer& w, const Values&... values)
        : attention_norm(w.attention_norm.cast<T>()),
          attention({.hidden = c.dim, .head_dim = c.head_dim(), .heads = c.heads, .kv_heads = c.kv_heads},
                    {.query = own.query, .key = own.key, .value = own.value, .output = own.output}, values...),
          feed_forward_norm(w.feed_forward_norm.cast<T>()),
          gate(packed(w.gate)),
          up(packed(w.up)),
          down(packed(w.down)) {}

    Vector attention_norm;
    Attention attention;
    Vector feed_forward_norm;
    Weights gate, up, down;
  };

  static typename Attention::Cache& cache(Caches& caches, std::size_t layer) {
    return caches.template layer<typename Attention::Cache>(static_cast<Index>(layer));
  }

  template <class Attend>
  Matrix run(std::span<const int> tokens, const Attend& attend) const {
    Matrix x = embed(tokens);
    Matrix y(x.rows(), x.cols());
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      attend(i, normalized(x, blocks_[i].attention_norm), y);
      x += y;
      x += feed_forward(blocks_[i], normalized(x, blocks_[i].feed_forward_norm));
    }
    return project(classifier_, normalized(x, final_norm_));
  }

  Matrix embed(std::span<const int> tokens) const {
    Matrix x(static_cast<Index>(tokens.size()), config_.dim);
    for (Index i = 0; i < x.rows(); ++i) {
      const int token = tokens[static_cast<std::size_t>(i)];
      if (token < 0 || token >= config_.vocab)
        throw std::runtime_error("llama2.c model: token: found " + std::to_string(token) + ", allowed 0 to " +
                                 std::to_string(config_.vocab - 1));
      x.row(i) = embedding_.row(token);
    }
    return x;
  }

  // RMSNorm: each row over the root of its mean square. The sum is one fma chain, so it cannot be reassociated.
  static Matrix normalized(const Matrix& x, const Vector& weight) {
    Matrix y(x.rows(), x.cols());
    for (Index i = 0; i < x.rows(); ++i) {
      T sum = 0;
      for (Index j = 0; j < x.cols(); ++j) sum = std::fma(x(i, j), x(i, j), sum);
      const T factor = 1 / std::sqrt(sum / static_cast<T>(x.cols()) + static_cast<T>(1e-5));
      y.row(i) = (x.row(i) * factor).cwiseProduct(weight);
    }
    return y;
  }

  static Matrix feed_forward(const Block& block, const Matrix& x) {
    Matrix gate = project(block.gate, x);
    const Matrix up = project(block.up, x);
    for (Index i = 0; i < gate.size(); ++i) gate.data()[i] = silu(gate.data()[i]) * up.data()[i];
    return project(block.down, gate);
  }

  // x / (1 + e^-x), by the exponential of the negative side alone.
  static T silu(T x) {
    const T e = lockstep::exp_nonpositive(-std::abs(x));
    return x * (x < 0 ? e : 1) / (1 + e);
  }

  static Weights packed(const Checkpoint::MatrixMap& matrix) {
    const Matrix values = matrix.cast<T>();
    Weights weights(values.rows(), values.cols());
    weights.place(0, lockstep::View<const T, 2>(values), lockstep::View<const T, 1>());
    return weights;
  }

  // No scratch: rows of x are in compute type and without gaps.
  static Matrix project(const Weights& weights, const Matrix& x) {
    Matrix y(x.rows(), weights.out());
    lockstep::project(lockstep::View<const T, 2>(x), weights, lockstep::View<T, 2>(y), lockstep::Serial{}, nullptr);
    return y;
  }

  Config config_;
  Matrix embedding_;
  std::vector<Block> blocks_;
  Vector final_norm_;
  Weights classifier_;
};

}  // namespace llama2c
