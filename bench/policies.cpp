// Benchmarks of dropout and of repeated heads, over neither.
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

void add_repeated(const Suite& suite, const Shape& s) {
  suite.add(policy_name("Materialized", "RepeatedHeads", s), [s]() -> std::unique_ptr<Work> {
    return std::make_unique<PolicyWork<ls::Materialized, ls::Causal, ls::RepeatedHeads>>(
        s, PolicyOptions<ls::Materialized, ls::Causal, ls::RepeatedHeads>{});
  });
}

}  // namespace

void add_policies(const Suite& suite) {
  for (const Shape& s : policy_shapes(suite, Speed::fast)) add_dropout(suite, s);
  for (const Shape& s : policy_shapes(suite, Speed::slow)) add_repeated(suite, s);
}

}  // namespace bench
