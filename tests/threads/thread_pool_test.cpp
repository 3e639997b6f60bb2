// Eigen's thread pool as executor gives the bits of the serial run.
#include <lockstep/executor/thread_pool.hpp>

#include "fixture.hpp"

namespace {

using namespace fixture;

template <class Case>
class OnThreadPool : public ::testing::Test {
 protected:
  using Kernel = typename Case::Kernel;
  using Serial = ls::Attention<float, 6, 2, ls::Rope<ls::HalfSplit>, Kernel>;
  using Pooled = ls::Attention<float, 6, 2, ls::Rope<ls::HalfSplit>, Kernel, ls::ThreadPool>;
};
TYPED_TEST_SUITE(OnThreadPool, FloatCases, CaseName);

TYPED_TEST(OnThreadPool, OfAnySizeTheBitsAreThoseOfTheSerialRun) {
  const Shape shape{.hidden = 70, .heads = 6, .kv_heads = 2, .head_dim = 8};
  const auto x = numbers<float>(290 * shape.hidden, 72);
  const auto table = rope<float>(shape.head_dim, 290);
  const auto serial = make_layer<typename TestFixture::Serial>(shape, table);
  const auto expected = run(serial, x, {290});
  for (const int threads : {1, 2, 3, 7}) {
    SCOPED_TRACE(threads);
    Eigen::ThreadPool pool(threads);
    const auto layer =
        make_layer<typename TestFixture::Pooled>(shape, table, ls::ThreadPool(pool, 0));  // small work too
    for (const auto& plan : {std::vector<Index>{290}, std::vector<Index>{200, 1, 1, 88}})
      expect_same_outcome(serial, expected, run(layer, x, plan));
  }
  expect_same_outcome(serial, expected, run(make_layer<typename TestFixture::Pooled>(shape, table), x, {290}));
}

}  // namespace
