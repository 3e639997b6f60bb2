// A whole model with a sliding window: the same bits through contiguous, ring and paged caches, at any chunking, and
// through forks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "handed.hpp"
#include "llama2c/model.hpp"
#include "lockstep/cache/paged.hpp"
#include "lockstep/cache/ring.hpp"
#include "lockstep/mask/causal.hpp"
#include "small_checkpoint.hpp"
#include "temporary_file.hpp"

namespace {

using examples_test::small_checkpoint;
using examples_test::TemporaryFile;
using llama2c::Checkpoint;
using lockstep::Index;

constexpr Index window = 40, slack = 30, tokens = 900;  // two blocks of 256 places: the ring goes round once and more

template <class Cache>
using Windowed = llama2c::Model<float, lockstep::SlidingWindow, Cache>;
template <class Cache>
Windowed<Cache> windowed(const Checkpoint& checkpoint) {
  return Windowed<Cache>(checkpoint, tokens, lockstep::SlidingWindow{window});
}

std::vector<int> some_tokens(Index vocab) {
  std::vector<int> all(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<int>((i * i + i / 3) % static_cast<std::size_t>(vocab));
  return all;
}

template <class Matrix>
bool same_rows(const Matrix& a, const Matrix& b, Index first_a, Index first_b, Index rows) {
  return std::memcmp(a.row(first_a).data(), b.row(first_b).data(),
                     sizeof(float) * static_cast<std::size_t>(rows * a.cols())) == 0;
}

/// Decodes in pieces of these lengths, over and over; at token `fork_at` a copy of the caches goes on by itself and is
/// dropped.
template <class Model, class Make>
void expect_bits_of_one_pass(const Model& model, const Make& make) {
  const std::vector<int> all = some_tokens(model.config().vocab);
  const auto whole = model.forward(all);
  for (const std::vector<Index>& plan : {std::vector<Index>{1}, {29, 1, 7, 100}, {450}, {900}}) {
    SCOPED_TRACE("pieces of " + std::to_string(plan.front()));
    auto caches = model.make_caches(make);
    bool forked = false;
    Index done = 0;
    for (std::size_t piece = 0; done < tokens; ++piece) {
      const Index count = std::min(plan[piece % plan.size()], tokens - done);
      const auto logits = model.forward(
          std::span(all).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count)), caches);
      ASSERT_TRUE(same_rows(whole, logits, done, 0, count)) << "tokens from " << done;
      done += count;
      if (!forked && done > 600 && done < tokens) {
        forked = true;
        auto fork = caches;
        const std::vector<int> other{3, 1, 4, 1, 5};
        model.forward(other, fork);
        EXPECT_EQ(fork.length(), done + 5);
        EXPECT_EQ(caches.length(), done);
      }
    }
  }
}

void expect_all_caches_alike(const Checkpoint& checkpoint) {
  const auto contiguous = windowed<lockstep::ContiguousCache<>>(checkpoint);
  const auto ring = windowed<lockstep::RingCache<>>(checkpoint);
  const auto paged = windowed<lockstep::PagedCache<>>(checkpoint);
  const std::vector<int> all = some_tokens(contiguous.config().vocab);
  ASSERT_TRUE(same_rows(contiguous.forward(all), ring.forward(all), 0, 0, tokens));
  ASSERT_TRUE(same_rows(contiguous.forward(all), paged.forward(all), 0, 0, tokens));
  {
    SCOPED_TRACE("contiguous");
    expect_bits_of_one_pass(contiguous, [](const auto& layer) { return layer.make_cache(tokens); });
  }
  {
    SCOPED_TRACE("ring");
    expect_bits_of_one_pass(ring, [](const auto& layer) { return layer.make_cache(window, slack); });
  }
  {
    SCOPED_TRACE("paged");
    const lockstep::CacheShape shape{contiguous.config().kv_heads, contiguous.config().head_dim(),
                                     contiguous.config().head_dim()};
    const lockstep::PagePool<float> pool(shape,
                                         2 * contiguous.config().layers * lockstep::ceil_div(tokens + 5, Index{256}));
    expect_bits_of_one_pass(paged, [&pool](const auto&) { return lockstep::PagedCache<float>(pool, tokens + 5); });
    EXPECT_EQ(pool.free_pages(), pool.pages());
  }
  // The window matters: without it, later logits are others.
  const llama2c::Model<float> causal(checkpoint, tokens);
  EXPECT_FALSE(same_rows(contiguous.forward(all), causal.forward(all), window, window, tokens - window));
}

TEST(WindowedModel, SmallModelHasTheSameBitsThroughAllCaches) {
  const TemporaryFile file(small_checkpoint(false));
  expect_all_caches_alike(Checkpoint(file.path()));
}

TEST(WindowedModel, TrainedModelHasTheSameBitsThroughAllCaches) {
  const std::filesystem::path models = examples_test::folder_from("LOCKSTEP_MODELS");
  if (models.empty()) GTEST_SKIP() << "SKIPPED: no trained models. Set LOCKSTEP_MODELS to the folder that holds them.";
  expect_all_caches_alike(Checkpoint(models / "stories260K" / "stories260K.bin"));
}

}  // namespace
