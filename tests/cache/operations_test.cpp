// Random operations on every kind of cache against a plain list of tokens; import and export in both orders.
#include <random>
#include <sstream>
#include <stdexcept>

#include "cache/tokens.hpp"
#include "lockstep/cache/contiguous.hpp"
#include "lockstep/cache/paged.hpp"
#include "lockstep/cache/ring.hpp"
#include "lockstep/cache/save.hpp"

namespace {

using namespace cache_test;

constexpr CacheShape shape{2, 3, 17};

struct Growing {
  using Cache = ls::ContiguousCache<Eigen::half>;
  static Cache make() { return Cache(shape, 1300, {.initial = 0}); }
};
struct Codes {
  using Cache = ls::ContiguousCache<std::int8_t>;
  static Cache make() { return Cache(shape, 1300); }
};
struct Paged {
  using Cache = ls::PagedCache<float>;
  static Cache make() {
    static const ls::PagePool<float> pool(shape, 14);
    return Cache(pool, 1300);
  }
};
struct PagedCodes {
  using Cache = ls::PagedCache<std::int8_t>;
  static Cache make() {
    static const ls::PagePool<std::int8_t> pool(shape, 14);
    return Cache(pool, 1300);
  }
};
struct Ring {
  using Cache = ls::RingCache<double>;
  static Cache make() { return Cache(shape, 200, 300, 20); }
};
struct RingCodes {
  using Cache = ls::RingCache<std::int8_t>;
  static Cache make() { return Cache(shape, 300, 40); }
};

template <class Kind>
class CacheOperations : public testing::Test {};
using Kinds = testing::Types<Growing, Codes, Paged, PagedCodes, Ring, RingCodes>;
TYPED_TEST_SUITE(CacheOperations, Kinds);

TYPED_TEST(CacheOperations, DoWhatTheyDoToAList) {
  using Cache = typename TypeParam::Cache;
  std::mt19937 random(17);
  const auto below = [&random](Index n) {
    return n < 1 ? Index{0} : static_cast<Index>(random() % static_cast<unsigned long>(n));
  };
  Cache cache = TypeParam::make(), other = TypeParam::make();
  Ids ids, others;
  int next = 0, refused = 0;
  for (int step = 0; step < 400; ++step) {
    const Index length = cache.length();
    SCOPED_TRACE("step " + std::to_string(step));
    try {
      switch (below(9)) {
        case 0:
        case 1:
        case 2: {
          const Ids more = counted(next, below(2) == 0 ? below(8) : below(300));
          next += 300;
          append(cache, more);
          ids.insert(ids.end(), more.begin(), more.end());
          break;
        }
        case 3: {
          const Index kept = below(3) == 0 ? below(length + 1) : length - below(std::min<Index>(length + 1, 40));
          cache.truncate(kept);
          ids.resize(static_cast<std::size_t>(kept));
          break;
        }
        case 4: {
          const Index first = length - below(std::min<Index>(length + 1, 30));
          const Ids more = counted(next, below(40));
          next += 300;
          write(cache, first, more);
          for (std::size_t i = 0; i < more.size(); ++i) {
            const std::size_t at = static_cast<std::size_t>(first) + i;
            if (at == ids.size()) ids.push_back(0);
            ids[at] = more[i];
          }
          break;
        }
        case 5: {
          if (length == 0) break;
          const Index first = below(length);
          const Ids more = counted(next, below(std::min<Index>(length, 300)));
          next += 300;
          write(cache, first, more, true);
          for (std::size_t i = 0; i < more.size(); ++i)
            ids[(static_cast<std::size_t>(first) + i) % ids.size()] = more[i];
          break;
        }
        case 6:
          if (below(2) == 0) {
            other = cache;
            others = ids;
          } else {
            std::swap(cache, other);
            std::swap(ids, others);
          }
          break;
        case 7: {
          std::stringstream stream;
          ls::save_cache(other, stream);
          ls::restore_cache(cache, stream);
          ids = others;
          break;
        }
        default:
          if (below(6) != 0) break;
          cache.clear();
          ids.clear();
      }
    } catch (const std::logic_error&) {
      ++refused;  // and nothing has changed
    }
    ASSERT_TRUE(holds(cache, ids));
    ASSERT_TRUE(holds(other, others));
  }
  EXPECT_GT(refused, 5);
  EXPECT_LT(refused, 200);
}

TYPED_TEST(CacheOperations, ImportAndExportInBothOrders) {
  using Cache = typename TypeParam::Cache;
  using Value = typename Cache::Value;
  const Index tokens = 450;
  Cache cache = TypeParam::make(), by_token = TypeParam::make(), by_head = TypeParam::make();
  append_all(cache, counted(0, tokens));
  const auto sized = [](Index dim) { return std::vector<Value>(static_cast<std::size_t>(2 * 450 * dim)); };
  auto k_token = sized(3), v_token = sized(17), k_head = sized(3), v_head = sized(17);
  const auto tokens_first = [](auto& memory, Index dim) {
    return ls::View<Value, 3>::contiguous(memory.data(), {450, 2, dim});
  };
  const auto heads_first = [](auto& memory, Index dim) {
    return ls::View<Value, 3>::contiguous(memory.data(), {2, 450, dim});
  };
  cache.export_keys(tokens_first(k_token, 3), ls::Order::token_head_dim);
  cache.export_values(tokens_first(v_token, 17), ls::Order::token_head_dim);
  cache.export_keys(heads_first(k_head, 3));
  cache.export_values(heads_first(v_head, 17), ls::Order::head_token_dim);
  for (Index t = 0; t < tokens; ++t)
    for (Index g = 0; g < 2; ++g)
      for (Index d = 0; d < 17; ++d) {
        ASSERT_EQ(tokens_first(v_token, 17)(t, g, d), heads_first(v_head, 17)(g, t, d));
        if (d < 3) {
          ASSERT_EQ(tokens_first(k_token, 3)(t, g, d), heads_first(k_head, 3)(g, t, d));
        }
        ASSERT_NEAR(static_cast<double>(tokens_first(v_token, 17)(t, g, d)),
                    static_cast<double>(number(static_cast<int>(t), g, d, 1)), 0.3);
      }
  append_all(by_token, counted(7000, 30));
  by_token.import(tokens_first(k_token, 3), tokens_first(v_token, 17), ls::Order::token_head_dim);
  by_head.import(heads_first(k_head, 3), heads_first(v_head, 17));
  if constexpr (!ls::is_quantised<typename Cache::Storage>) {
    EXPECT_TRUE(holds(by_token, counted(0, tokens)));
    EXPECT_TRUE(holds(by_head, counted(0, tokens)));
  }
  EXPECT_EQ(by_token.length(), tokens);
  EXPECT_THROW(by_head.import(tokens_first(k_token, 3), tokens_first(v_token, 17)), std::invalid_argument);
  EXPECT_THROW(by_head.export_keys(tokens_first(k_token, 3)), std::invalid_argument);
  EXPECT_THROW(by_head.export_values(heads_first(v_head, 17), ls::Order::token_head_dim), std::invalid_argument);
}

TYPED_TEST(CacheOperations, CarryTheTableTheKeysWereRotatedBy) {
  using Cache = typename TypeParam::Cache;
  Cache cache = TypeParam::make();
  EXPECT_EQ(cache.table(), 0U);
  append(cache, counted(0, 3));
  cache.set_table(42);
  const Cache copy(cache);
  EXPECT_EQ(copy.table(), 42U);
  append(cache, counted(3, 3));
  cache.truncate(1);
  EXPECT_EQ(cache.table(), 42U);
  Cache moved(std::move(cache));
  EXPECT_EQ(moved.table(), 42U);
  moved.truncate(0);
  EXPECT_EQ(moved.table(), 0U);
  moved = copy;
  EXPECT_EQ(moved.table(), 42U);
  const std::vector<typename Cache::Value> rows(2 * 17, typename Cache::Value(1));
  const auto one = [&rows](Index dim) {
    return ls::View<const typename Cache::Value, 3>::contiguous(rows.data(), {2, 1, dim});
  };
  moved.import(one(3), one(17));
  EXPECT_EQ(moved.table(), 0U);
  moved = copy;
  moved.clear();
  EXPECT_EQ(moved.table(), 0U);
}

}  // namespace
