// Benchmarks of dropout, of weights and log-sum-exp on request, and of repeated heads, over none of these.
#include "lockstep/dropout/dropout.hpp"
#include "lockstep/heads/repeated.hpp"
#include "policy_work.hpp"

namespace bench {

namespace {

void add_dropout(const Suite& suite, const Shape& s) {
  suite.add(policy_name("Tiled", "Dropout", s), [s]() -> std::unique_ptr<Work> {
    PolicyOptions<ls::Tiled, ls::Causal, ls::Dropout> options;
    options.dropout = {.probability = 0.1, .seed = 7};
    options.mode = ls::Mode::training;
    return std::make_unique<PolicyWork<ls::Tiled, ls::Causal, ls::Dropout>>(s, options);
  });
}

/// Attention that also gives its weights; each row of them must sum to 1.
class WeightsWork : public PolicyWork<ls::Tiled, ls::Causal> {
 public:
  explicit WeightsWork(const Shape& s)
      : PolicyWork(s, {}), kv_len_(s.kv_len()), weights_(at(s.heads * s.q_len * s.kv_len())) {
    call.options().weights = ls::View<float, 4>::contiguous(weights_.data(), {1, s.heads, s.q_len, s.kv_len()});
  }
  bool right() override {
    for (std::size_t row = 0; row < weights_.size(); row += at(kv_len_)) {
      double sum = 0;
      for (std::size_t j = 0; j < at(kv_len_); ++j) sum += static_cast<double>(weights_[row + j]);
      if (!(std::abs(sum - 1) <= 1e-5)) return false;
    }
    return PolicyWork::right();
  }

 private:
  Index kv_len_;
  ls::AlignedVector<float> weights_;
};

/// Attention that also gives the log-sum-exp, which for these inputs lies around log(kv_len).
class LogSumExpWork : public PolicyWork<ls::Tiled, ls::Causal> {
 public:
  explicit LogSumExpWork(const Shape& s)
      : PolicyWork(s, {}), lse_(at(s.heads * s.q_len)), last_(std::log(static_cast<double>(s.kv_len()))) {
    call.options().lse = ls::View<float, 3>::contiguous(lse_.data(), {1, s.heads, s.q_len});
  }
  bool right() override { return std::abs(static_cast<double>(lse_.back()) - last_) < 1 && PolicyWork::right(); }

 private:
  ls::AlignedVector<float> lse_;
  double last_;
};

void add_repeated(const Suite& suite, const Shape& s) {
  suite.add(policy_name("Materialized", "RepeatedHeads", s), [s]() -> std::unique_ptr<Work> {
    return std::make_unique<PolicyWork<ls::Materialized, ls::Causal, ls::RepeatedHeads>>(
        s, PolicyOptions<ls::Materialized, ls::Causal, ls::RepeatedHeads>{});
  });
}

}  // namespace

void add_results(const Suite& suite) {
  for (const Shape& s : policy_shapes(suite, Speed::fast)) {
    add_dropout(suite, s);
    suite.add(policy_name("Tiled", "weights", s), [s] { return std::make_unique<WeightsWork>(s); });
    suite.add(policy_name("Tiled", "lse", s), [s] { return std::make_unique<LogSumExpWork>(s); });
  }
  for (const Shape& s : policy_shapes(suite, Speed::slow)) add_repeated(suite, s);
}

}  // namespace bench
