// Benchmarks of float; also on Eigen's thread pool, with weights and log-sum-exp on request, and with each kind of
// position.
#include "lockstep/executor/thread_pool.hpp"
#include "policy_work.hpp"

namespace bench {

namespace {

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

}  // namespace

std::unique_ptr<Work> tiled_causal_float(const Shape& shape) {
  using Plain = AttendWork<float, ls::Causal, ls::Tiled, ls::Hook>;
  return std::make_unique<Plain>(shape, Plain::Options{});
}

void add_float(const Suite& suite) {
  add_element_type<float>(suite);
  for (const Index n : suite.threads()) {
    const Variant v{.kernel = std::string("Tiled, ") + ls::name_of(ls::instruction_set()),
                    .suffix = "/executor:pool/threads:" + std::to_string(n),
                    .settings = {.wall_clock = true}};
    add_attention<float, ls::Tiled, ls::ThreadPool>(suite, v, [n] { return ls::ThreadPool(thread_pool(n)); });
  }
  for (const Shape& s : policy_shapes(suite, Speed::fast)) {
    suite.add(policy_name("Tiled", "weights", s), [s] { return std::make_unique<WeightsWork>(s); });
    suite.add(policy_name("Tiled", "lse", s), [s] { return std::make_unique<LogSumExpWork>(s); });
  }
  // Positions are policies of the layer: what rotation costs, over a layer without.
  const Shape shape = suite.layers(Speed::fast).front();
  const auto position = [&]<class Position>(const char* name, Position) {
    suite.add(std::string("Policy<float, Tiled, ") + name + ">" + chunk_name(shape), [=]() -> std::unique_ptr<Work> {
      struct Rotated : LayerWork<float, ls::Tiled, Position> {
        explicit Rotated(const Shape& s) : LayerWork<float, ls::Tiled, Position>(s, {}), plain(s, {}) {}
        Work* without() override { return &plain; }
        LayerWork<float, ls::Tiled, ls::NoPosition> plain;
      };
      return std::make_unique<Rotated>(shape);
    });
  };
  position("Rope<HalfSplit>", ls::Rope<ls::HalfSplit>{});
  position("Rope<Interleaved>", ls::Rope<ls::Interleaved>{});
}

}  // namespace bench
