// The plain double-precision meaning of attention, rotary embedding and projections, written straight from
// the definitions: slow, obviously right, and independent of the library, whose results are compared with it.
// Tensors are plain vectors in row-major order; a shape in brackets stands beside each.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace reference {

using Index = std::int64_t;
using Values = std::vector<double>;

inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// Any range of numbers (float, Eigen::half, ...) as doubles.
template <class Range>
Values widen(const Range& numbers) {
  Values wide;
  for (const auto& number : numbers) wide.push_back(static_cast<double>(number));
  return wide;
}

/// One sequence: how big everything is, which keys a row may see, which kv head a query head reads.
struct Problem {
  Index heads = 1, kv_heads = 1, head_dim = 1, v_head_dim = 1, q_len = 0, kv_len = 0;
  double scale = 0;                                                                   ///< 0: 1 / sqrt(head_dim)
  std::function<bool(Index head, Index row, Index key)> visible{};                    ///< absent: all
  std::function<double(double logit, Index head, Index row, Index key)> transform{};  ///< absent: none
  std::function<double(Index head, Index row, Index key)> factor{};  ///< on weights before V (dropout); absent: 1
  std::function<Index(Index head)> kv_head{};                        ///< absent: head / group_size
  std::function<double(Index head)> sink{};                          ///< one more logit, with a value of zeros
};

/// Causal visibility where row 0 stands at place `offset` (negative: the first rows see nothing).
inline std::function<bool(Index, Index, Index)> causal(Index offset = 0) {
  return [offset](Index, Index row, Index key) { return key <= offset + row; };
}

struct Result {
  Values context;  ///< [q_len, heads, v_head_dim]
  Values lse;      ///< [heads, q_len], -inf where a row sees nothing
  Values weights;  ///< [heads, q_len, kv_len], 0 where hidden
};

/// Attention of q [q_len, heads, head_dim] over k [kv_len, kv_heads, head_dim] and v [kv_len, kv_heads,
/// v_head_dim]: per row, gather the visible keys, subtract the largest logit, exponentiate, divide by the
/// sum, add up V.
inline Result attend(const Problem& p, const Values& q, const Values& k, const Values& v) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double scale = p.scale != 0 ? p.scale : 1 / std::sqrt(static_cast<double>(p.head_dim));
  Result result{Values(at(p.q_len * p.heads * p.v_head_dim)), Values(at(p.heads * p.q_len)),
                Values(at(p.heads * p.q_len * p.kv_len))};
  for (Index head = 0; head < p.heads; ++head) {
    const Index kv_head = p.kv_head ? p.kv_head(head) : head / (p.heads / p.kv_heads);
    for (Index row = 0; row < p.q_len; ++row) {
      std::vector<Index> keys;
      Values weights;
      double largest = p.sink ? p.sink(head) : -infinity;
      for (Index key = 0; key < p.kv_len; ++key) {
        if (p.visible && !p.visible(head, row, key)) continue;
        double logit = 0;
        for (Index d = 0; d < p.head_dim; ++d)
          logit +=
              q[at((row * p.heads + head) * p.head_dim + d)] * k[at((key * p.kv_heads + kv_head) * p.head_dim + d)];
        logit *= scale;
        if (p.transform) logit = p.transform(logit, head, row, key);
        keys.push_back(key);
        weights.push_back(logit);
        if (logit > largest) largest = logit;
      }
      const double shift = largest == -infinity ? 0 : largest;
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - shift);
      if (p.sink) sum += std::exp(p.sink(head) - shift);
      result.lse[at(head * p.q_len + row)] = shift + std::log(sum);
      if (sum == 0) sum = 1;  // no visible key, or only logits of -inf: zeros, not 0 / 0
      double* context = result.context.data() + (row * p.heads + head) * p.v_head_dim;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        result.weights[at((head * p.q_len + row) * p.kv_len + keys[i])] = weights[i] / sum;
        const double weight = p.factor ? weights[i] * p.factor(head, row, keys[i]) : weights[i];
        for (Index d = 0; d < p.v_head_dim; ++d)
          context[d] += weight * v[at((keys[i] * p.kv_heads + kv_head) * p.v_head_dim + d)];
      }
      // Divided last, so that means of equal weights are exact.
      for (Index d = 0; d < p.v_head_dim; ++d) context[d] /= sum;
    }
  }
  return result;
}

/// x [rows, in] through weight [out, in] and, unless empty, bias [out]: y = x W^T + b, [rows, out].
inline Values project(const Values& x, const Values& weight, const Values& bias, Index in, Index out) {
  const Index rows = in == 0 ? 0 : static_cast<Index>(x.size()) / in;
  Values y(at(rows * out));
  for (Index row = 0; row < rows; ++row)
    for (Index o = 0; o < out; ++o) {
      double sum = bias.empty() ? 0 : bias[at(o)];
      for (Index i = 0; i < in; ++i) sum += x[at(row * in + i)] * weight[at(o * in + i)];
      y[at(row * out + o)] = sum;
    }
  return y;
}

/// ALiBi's slopes as the authors' program has them: a geometric row for a power of two; else the row of the next lower
/// power, then every second slope of the next higher one.
inline Values alibi_slopes(Index heads) {
  Index lower = 1;
  while (2 * lower <= heads) lower *= 2;
  const auto row = [](Index n) {
    const double ratio = std::pow(2.0, -8 / static_cast<double>(n));
    Values slopes;
    for (Index h = 1; h <= n; ++h) slopes.push_back(std::pow(ratio, static_cast<double>(h)));
    return slopes;
  };
  Values slopes = row(lower);
  const Values more = row(2 * lower);
  for (std::size_t i = 0; slopes.size() < at(heads); i += 2) slopes.push_back(more[i]);
  return slopes;
}

enum class Pairing { none, half_split, interleaved };

/// Rotates the first rotary_dim components of every head of x [tokens, heads, head_dim]. Pair i turns by
/// position * base^(-2i / rotary_dim); half-split pairs (i, i + rotary_dim / 2), interleaved pairs (2i, 2i +
/// 1).
inline Values rotate(Values x, Pairing pairing, Index heads, Index head_dim, Index rotary_dim, double base,
                     const std::vector<Index>& positions) {
  for (Index token = 0; pairing != Pairing::none && token < static_cast<Index>(positions.size()); ++token)
    for (Index head = 0; head < heads; ++head)
      for (Index i = 0; i < rotary_dim / 2; ++i) {
        const double exponent = -2 * static_cast<double>(i) / static_cast<double>(rotary_dim);
        const double angle = static_cast<double>(positions[at(token)]) * std::pow(base, exponent);
        const bool half = pairing == Pairing::half_split;
        const Index first = (token * heads + head) * head_dim;
        double& a = x[at(first + (half ? i : 2 * i))];
        double& b = x[at(first + (half ? i + rotary_dim / 2 : 2 * i + 1))];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
  return x;
}

/// A whole layer; weights are [out, in], an empty bias is none.
struct Layer {
  Index hidden = 1, heads = 1, kv_heads = 1, head_dim = 1, v_head_dim = 1;
  Values query{}, key{}, value{}, output{}, query_bias{}, key_bias{}, value_bias{}, output_bias{};
  Pairing pairing = Pairing::none;
  Index rotary_dim = 0;
  double base = 10000, scale = 0;
  std::function<Values(Values rows, bool queries)> before_rotation{}, after_rotation{};  ///< q/k norm; absent: none
  std::function<double(double logit, Index head, Index row, Index key)> transform{};     ///< absent: none
  std::function<double(Index head)> sink{};                                              ///< absent: none
};

/// Root-mean-square normalisation of every `width` numbers of x, times a weight [width].
inline Values rms_norm(Values x, const Values& weight, double epsilon) {
  const std::size_t width = weight.size();
  for (std::size_t first = 0; first < x.size(); first += width) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += x[first + i] * x[first + i];
    const double root = std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (std::size_t i = 0; i < width; ++i) x[first + i] *= weight[i] / root;
  }
  return x;
}

struct LayerResult {
  Values y;       ///< [tokens, hidden]
  Values keys;    ///< [tokens, kv_heads, head_dim], rotated
  Values values;  ///< [tokens, kv_heads, v_head_dim]
  Result attention;
};

/// Forward of x [tokens, hidden] at positions 0, 1, ..., all tokens in one pass.
inline LayerResult forward(const Layer& layer, const Values& x,
                           std::function<bool(Index, Index, Index)> visible = causal()) {
  const Index tokens = static_cast<Index>(x.size()) / layer.hidden, hidden = layer.hidden;
  std::vector<Index> positions;
  for (Index token = 0; token < tokens; ++token) positions.push_back(token);
  const auto turned = [&](Values rows, Index heads, bool queries) {
    if (layer.before_rotation) rows = layer.before_rotation(std::move(rows), queries);
    rows = rotate(std::move(rows), layer.pairing, heads, layer.head_dim, layer.rotary_dim, layer.base, positions);
    return layer.after_rotation ? layer.after_rotation(std::move(rows), queries) : rows;
  };
  const Values q =
      turned(project(x, layer.query, layer.query_bias, hidden, layer.heads * layer.head_dim), layer.heads, true);
  LayerResult result;
  result.keys =
      turned(project(x, layer.key, layer.key_bias, hidden, layer.kv_heads * layer.head_dim), layer.kv_heads, false);
  result.values = project(x, layer.value, layer.value_bias, hidden, layer.kv_heads * layer.v_head_dim);
  Problem problem{layer.heads, layer.kv_heads, layer.head_dim, layer.v_head_dim, tokens, tokens};
  problem.scale = layer.scale;
  problem.visible = std::move(visible);
  problem.transform = layer.transform;
  problem.sink = layer.sink;
  result.attention = attend(problem, q, result.keys, result.values);
  result.y = project(result.attention.context, layer.output, layer.output_bias, layer.heads * layer.v_head_dim, hidden);
  return result;
}

}  // namespace reference
