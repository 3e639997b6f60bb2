// The next token from a row of logits: the largest one, or a seeded draw from the likeliest ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "lockstep/numeric/exp.hpp"

namespace llama2c {

/// The xorshift* generator (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled") that
/// llama2.c draws from; the same numbers for the same seed everywhere. A seed of zero would give nothing but zeros.
class Xorshift {
 public:
  explicit Xorshift(std::uint64_t seed) : state_(seed) {
    if (seed == 0) throw std::runtime_error("sampler: seed: found 0, allowed 1 to 18446744073709551615");
  }

  std::uint32_t next() noexcept {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<std::uint32_t>((state_ * 0x2545F4914F6CDD1DULL) >> 32);
  }

  /// In [0, 1), a multiple of 2^-24 and so exact.
  float next_unit() noexcept { return static_cast<float>(next() >> 8) * 0x1p-24F; }

 private:
  std::uint64_t state_;
};

/// Temperature 0 takes the largest logit, the first of equals, and draws nothing. Otherwise the weights are
/// softmax(logits / temperature), and the draw is from the likeliest tokens whose weights together exceed top_p
/// (nucleus sampling); top_p 0 or 1 draws from all of them. Differs from llama2.c in two roundings: the maximum is
/// subtracted before the division, so that no temperature overflows, and the exponential is Lockstep's, so that a seed
/// gives the same tokens on every machine.
class Sampler {
 public:
  Sampler(float temperature, float top_p, std::uint64_t seed)
      : temperature_(temperature), top_p_(top_p), random_(seed) {
    if (!(temperature >= 0 && std::isfinite(temperature)))
      throw std::runtime_error("sampler: temperature: found " + std::to_string(temperature) +
                               ", allowed finite numbers from 0");
    if (!(top_p >= 0 && top_p <= 1))
      throw std::runtime_error("sampler: top_p: found " + std::to_string(top_p) + ", allowed 0 to 1");
  }

  int operator()(std::span<const float> logits) {
    const std::size_t largest = argmax(logits);
    if (temperature_ == 0) return static_cast<int>(largest);
    weights_.resize(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i)
      weights_[i] = lockstep::exp_nonpositive((logits[i] - logits[largest]) / temperature_);
    order_.resize(logits.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const float total = std::accumulate(weights_.begin(), weights_.end(), 0.0F);
    if (top_p_ == 0 || top_p_ == 1) return draw(total);
    std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      return weights_[a] != weights_[b] ? weights_[a] > weights_[b] : a < b;
    });
    return draw(keep_likeliest(top_p_ * total));
  }

 private:
  static std::size_t argmax(std::span<const float> logits) {
    if (logits.empty()) throw std::runtime_error("sampler: logits: found none, allowed one or more");
    std::size_t largest = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (!std::isfinite(logits[i]))
        throw std::runtime_error("sampler: logit of token " + std::to_string(i) +
                                 ": found no finite number, allowed finite numbers");
      if (logits[i] > logits[largest]) largest = i;
    }
    return largest;
  }

  // Cuts the order behind the first token with which the weights exceed `enough`; returns the weight that is left.
  float keep_likeliest(float enough) {
    float kept = 0;
    for (std::size_t n = 0; n < order_.size(); ++n) {
      kept += weights_[order_[n]];
      if (kept > enough) {
        order_.resize(n + 1);
        break;
      }
    }
    return kept;
  }

  int draw(float total) {
    const float target = random_.next_unit() * total;
    float sum = 0;
    for (const std::size_t token : order_) {
      sum += weights_[token];
      if (target < sum) return static_cast<int>(token);
    }
    return static_cast<int>(order_.back());  // rounding may leave the target just above the sum
  }

  float temperature_;
  float top_p_;
  Xorshift random_;
  std::vector<float> weights_;      // one a token, buffers kept between calls
  std::vector<std::size_t> order_;  // tokens that may be drawn
};

}  // namespace llama2c
