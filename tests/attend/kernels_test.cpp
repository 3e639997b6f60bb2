// Kernels of the contract equal Specification bit for bit: every shape, storage and instruction set.
#include "attend/contract_kernels.hpp"
#include "attend/problem.hpp"

namespace {

using namespace fixture;

template <class Case>
class ContractKernel : public ::testing::Test {
 protected:
  static void expect_bits(const Sizes& sizes, Index offset_from_end = 0) {
    SCOPED_TRACE(::testing::PrintToString(sizes));
    const Problem<typename Case::Element> problem(sizes);
    const auto cache = problem.cache();
    const Index offset = sizes.kv_len - sizes.q_len + offset_from_end;
    const auto expected = problem.template attend<ls::Specification>(cache, {.offset = offset});
    for_each_instruction_set([&] {
      expect_same(sizes, expected, problem.template attend<typename Case::Kernel>(cache, {.offset = offset}));
    });
  }
};
using Cases = Cross<ContractKernels, Elements>;
TYPED_TEST_SUITE(ContractKernel, Cases, CaseName);

TYPED_TEST(ContractKernel, EqualsSpecificationAtEveryHeadSize) {
  for (const Index head_dim : {1, 2, 3, 8, 12, 15, 16, 17, 64, 80, 96, 112, 128, 255, 256, 257, 520})
    this->expect_bits({.q_len = 9, .kv_len = 40, .heads = 2, .kv_heads = 1, .head_dim = head_dim});
  for (const Index v_head_dim : {1, 5, 16, 31, 48, 80, 130})
    this->expect_bits({.q_len = 9, .kv_len = 40, .heads = 2, .kv_heads = 1, .head_dim = 10, .v_head_dim = v_head_dim});
}

TYPED_TEST(ContractKernel, EqualsSpecificationInEveryGroup) {
  for (const auto& [heads, kv_heads] :
       {std::pair<Index, Index>{1, 1}, {3, 3}, {4, 2}, {3, 1}, {14, 2}, {8, 1}, {25, 5}, {32, 1}})
    for (const Index q_len : {1, 2, 11})
      this->expect_bits({.q_len = q_len, .kv_len = 70, .heads = heads, .kv_heads = kv_heads, .head_dim = 6});
}

TYPED_TEST(ContractKernel, EqualsSpecificationAtEveryNumberOfRows) {
  for (Index q_len = 1; q_len <= 26; ++q_len)
    this->expect_bits({.q_len = q_len, .kv_len = 270, .heads = 1, .kv_heads = 1, .head_dim = 5});
  for (const Index q_len : {83, 84, 85, 168, 200})
    this->expect_bits({.q_len = q_len, .kv_len = 70, .heads = 1, .kv_heads = 1, .head_dim = 5});
}

TYPED_TEST(ContractKernel, EqualsSpecificationAtEveryNumberOfKeys) {
  for (const Index kv_len :
       {1, 2, 15, 16, 17, 63, 64, 65, 127, 255, 256, 257, 511, 513, 1023, 1024, 1025, 1281, 2047, 2048, 2049, 3100})
    for (const Index q_len : {1, 7})
      this->expect_bits({.q_len = q_len, .kv_len = kv_len, .heads = 1, .kv_heads = 1, .head_dim = 9});
}

TYPED_TEST(ContractKernel, EqualsSpecificationWhereRowsSeeFewKeysOrNone) {
  for (const Index offset : {-400, -35, -30, -17, -1, 1, 50})
    this->expect_bits({.q_len = 40, .kv_len = 300, .heads = 4, .kv_heads = 2, .head_dim = 7}, offset - 260);
  this->expect_bits({.q_len = 50, .kv_len = 20, .heads = 4, .kv_heads = 2, .head_dim = 7});
  this->expect_bits({.q_len = 3, .kv_len = 0, .heads = 2, .kv_heads = 1, .head_dim = 4});
}

}  // namespace
