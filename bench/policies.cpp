// Benchmarks of what happens to logits, of dropout and of repeated heads, over none of these.
#include "lockstep/bias/distance.hpp"
#include "lockstep/dropout/dropout.hpp"
#include "lockstep/heads/repeated.hpp"
#include "lockstep/logit/soft_cap.hpp"
#include "lockstep/sinks/learned.hpp"
#include "policy_work.hpp"

namespace bench {

namespace {

/// A policy of some kind beside the causal mask; `set(options)` gives its value.
template <class Policy, class Set>
void add_beside_causal(const Suite& suite, const Shape& s, const std::string& name, Set set) {
  suite.add(policy_name("Tiled", name, s), [s, set]() -> std::unique_ptr<Work> {
    PolicyOptions<ls::Tiled, ls::Causal, Policy> options;
    set(options);
    return std::make_unique<PolicyWork<ls::Tiled, ls::Causal, Policy>>(s, options);
  });
}

void add_logits(const Suite& suite, const Shape& s) {
  add_beside_causal<ls::SoftCap>(suite, s, "SoftCap", [](auto& options) { options.logits.cap = 50; });
  add_beside_causal<ls::Alibi<>>(suite, s, "Alibi", [s](auto& options) { options.bias = ls::Alibi<float>(s.heads); });
  add_beside_causal<ls::RelativeBias<>>(suite, s, "RelativeBias", [s](auto& options) {
    const ls::RelativeBuckets buckets{.num_buckets = 32, .max_distance = 128, .bidirectional = false};
    const auto table = numbers<float>(32 * s.heads, 11);
    options.bias = ls::RelativeBias<float>(buckets, ls::View<const float, 2>::contiguous(table.data(), {32, s.heads}));
  });
  add_beside_causal<ls::LearnedSinks<>>(suite, s, "LearnedSinks", [s](auto& options) {
    const auto logits = numbers<float>(s.heads, 12);
    options.sinks = ls::LearnedSinks<float>(ls::View<const float, 1>::contiguous(logits.data(), {s.heads}));
  });
}

void add_dropout(const Suite& suite, const Shape& s) {
  suite.add(policy_name("Tiled", "Dropout", s), [s]() -> std::unique_ptr<Work> {
    PolicyOptions<ls::Tiled, ls::Causal, ls::Dropout> options;
    options.dropout = {.probability = 0.1, .seed = 7};
    options.mode = ls::Mode::training;
    return std::make_unique<PolicyWork<ls::Tiled, ls::Causal, ls::Dropout>>(s, options);
  });
}

void add_repeated(const Suite& suite, const Shape& s) {
  suite.add(policy_name("Materialized", "RepeatedHeads", s), [s]() -> std::unique_ptr<Work> {
    return std::make_unique<PolicyWork<ls::Materialized, ls::Causal, ls::RepeatedHeads>>(
        s, PolicyOptions<ls::Materialized, ls::Causal, ls::RepeatedHeads>{});
  });
}

}  // namespace

void add_policies(const Suite& suite) {
  for (const Shape& s : policy_shapes(suite, Speed::fast)) {
    add_logits(suite, s);
    add_dropout(suite, s);
  }
  for (const Shape& s : policy_shapes(suite, Speed::slow)) add_repeated(suite, s);
}

}  // namespace bench
