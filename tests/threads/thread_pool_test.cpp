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
using FastToo = Cross<List<ls::Specification, ls::Materialized, ls::Tiled>, List<float>>;
TYPED_TEST_SUITE(OnThreadPool, FastToo, CaseName);

TYPED_TEST(OnThreadPool, OfAnySizeTheBitsAreThoseOfTheSerialRun) {
  const Shape shape{.hidden = 70, .heads = 6, .kv_heads = 2, .head_dim = 8};
  // The fast kernel splits long caches over threads: under few rows from 1024 keys on.
  const Index tokens = std::same_as<typename TypeParam::Kernel, ls::Tiled> ? 1400 : 290;
  const auto x = numbers<float>(tokens * shape.hidden, 72);
  const auto table = rope<float>(shape.head_dim, tokens);
  const auto serial = make_layer<typename TestFixture::Serial>(shape, table);
  const auto expected = run(serial, x, {tokens});
  for (const int threads : {2, 3, 7, 16}) {
    SCOPED_TRACE(threads);
    Eigen::ThreadPool pool(threads - 1);  // and the caller
    const auto layer =
        make_layer<typename TestFixture::Pooled>(shape, table, ls::ThreadPool(pool, 0));  // small work too
    for (const auto& plan : {std::vector<Index>{tokens}, std::vector<Index>{200, 1, 1, tokens - 204, 1, 1}})
      expect_same_outcome(serial, expected, run(layer, x, plan));
  }
  expect_same_outcome(serial, expected, run(make_layer<typename TestFixture::Pooled>(shape, table), x, {tokens}));
}

}  // namespace
