// Sinks, logits on request and partial results where a long decode is split over tasks: the bits of one thread.
#include "attend/problem.hpp"

namespace {

using namespace fixture;

/// Runs tasks from the last to the first and says that four may run at once, so that splits become tasks.
struct Backwards {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::executor;
  Index concurrency() const noexcept { return 4; }
  Index parallel_from() const noexcept { return 0; }
  template <class F>
  void run(Index n, F&& f) const {
    for (Index i = n; i-- > 0;) f(i);
  }
};

template <class Executor>
struct LongDecode {
  static constexpr Sizes sizes{.q_len = 2, .kv_len = 3100, .heads = 4, .kv_heads = 2, .head_dim = 9};
  Problem<float> problem = Problem<float>(sizes);
  ls::ContiguousCache<float> cache = problem.cache();
  std::vector<float> sinks = numbers<float>(4, 3, 2), logits = std::vector<float>(at(4 * 2 * 3100));

  Attended<float> attended() {
    ls::AttendOptions<float, ls::SoftCap, ls::Alibi<>, ls::LearnedSinks<>, Executor> options;
    options.logits.cap = 3;
    options.bias = ls::Alibi<float>(4);
    options.sinks = ls::LearnedSinks<float>(ls::View<const float, 1>(sinks));
    options.raw_logits = ls::View<float, 4>::contiguous(logits.data(), {1, 4, 2, 3100});
    return problem.attend<ls::SoftCap, ls::Alibi<>, ls::LearnedSinks<>, Executor>(cache, options);
  }
  std::vector<float> in_parts() {
    std::vector<float> context(at(2 * 4 * 9));
    ls::Partial<float> all, rest;
    ls::PartialOptions<float, ls::SoftCap, ls::Alibi<>, Executor> options;
    options.offset = 3098;
    options.logits.cap = 3;
    options.bias = ls::Alibi<float>(4);
    options.places = {0, 2048};
    ls::attend_partial<ls::SoftCap, ls::Alibi<>, Executor>(problem.query(), cache, all, options);
    options.places = {2048, 3100};
    ls::attend_partial<ls::SoftCap, ls::Alibi<>, Executor>(problem.query(), cache, rest, options);
    all.merge(rest);
    ls::finish(all, ls::View<float, 3>::contiguous(context.data(), {2, 4, 9}), {},
               ls::LearnedSinks<float>(ls::View<const float, 1>(sinks)));
    return context;
  }
};

TEST(LogitsOverTasks, HaveTheBitsOfOneThread) {
  LongDecode<ls::Serial> serial;
  LongDecode<Backwards> split;
  const auto expected = serial.attended(), got = split.attended();
  expect_same(serial.sizes, expected, got);
  EXPECT_TRUE(same_bits(serial.logits, split.logits, 3100));
  EXPECT_TRUE(same_bits(expected.context, serial.in_parts(), 9));
  EXPECT_TRUE(same_bits(expected.context, split.in_parts(), 9));
}

}  // namespace
