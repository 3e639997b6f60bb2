// Results do not depend on the rounding mode that the caller has set.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cstring>
#include <vector>

#include "lockstep/lockstep.hpp"

namespace ls = lockstep;
using ls::Index;
using ls::View;

namespace {

constexpr Index hidden = 24, tokens = 40;

TEST(Layer, DoesNotDependOnTheCallersFloatingPointModes) {
  std::vector<float> numbers(static_cast<std::size_t>(48 * hidden)), x(static_cast<std::size_t>(tokens * hidden));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.01F * static_cast<float>(i % 23) - 0.1F;
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1e-3F * static_cast<float>(i % 31) - 0.01F;
  // All of it under the caller's modes: the layer's construction, forwards, and attend() on what the cache then holds.
  const auto everything = [&] {
    using Half = ls::Attention<float, 6, 2, ls::Rope<ls::Interleaved>, ls::ContiguousCache<Eigen::half>>;
    const auto matrix = [&](Index out, Index in) {
      return View<const float, 2>::contiguous(numbers.data(), {out, in});
    };
    const Half layer({.hidden = hidden, .head_dim = 8},
                     {.query = matrix(48, hidden),
                      .key = matrix(16, hidden),
                      .value = matrix(16, hidden),
                      .output = matrix(hidden, 48)},
                     ls::RopeTable<float>({.rotary_dim = 8, .base = 500000, .positions = tokens}));
    auto cache = layer.make_cache(tokens);
    std::vector<float> results(static_cast<std::size_t>(tokens * hidden + 48));
    layer.forward(View<const float, 3>::contiguous(x.data(), {1, tokens, hidden}), cache,
                  View<float, 3>::contiguous(results.data(), {1, tokens, hidden}));
    ls::attend(View<const float, 3>::contiguous(x.data(), {1, 6, 8}), cache,
               View<float, 3>::contiguous(results.data() + tokens * hidden, {1, 6, 8}));
    // What is asked of a policy, or of a function, alone; doubles as they are.
    const auto keep = [&results](double number) {
      const auto halves = std::bit_cast<std::array<float, 2>>(number);
      results.insert(results.end(), halves.begin(), halves.end());
    };
    for (const Index head : {0, 2, 4}) keep(ls::alibi_slope(head, 5));
    keep(static_cast<double>(ls::Alibi<float>(Index{5}).slope(3)));
    keep(ls::yarn_magnitude(7.3, 0.83));
    for (const Index distance : {-9, -37, -100}) keep(static_cast<double>(ls::RelativeBuckets{}.bucket(distance)));
    const auto weight = View<const float, 1>::contiguous(x.data(), {8});
    const ls::QkNorm<ls::BeforeRope, ls::PerHead, float> norm(weight, weight, 1e-6);
    const ls::Attention<float, 6, 2, ls::QkNorm<>> normed({.hidden = hidden, .head_dim = 8},
                                                          {.query = matrix(48, hidden),
                                                           .key = matrix(16, hidden),
                                                           .value = matrix(16, hidden),
                                                           .output = matrix(hidden, 48)},
                                                          norm);
    const std::size_t before = results.size();
    results.resize(before + x.size());
    normed.forward(View<const float, 3>::contiguous(x.data(), {1, tokens, hidden}),
                   View<float, 3>::contiguous(results.data() + before, {1, tokens, hidden}));
    return results;
  };
  const std::vector<float> plain = everything();
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const std::vector<float> other = everything();
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(after, mode);
    EXPECT_EQ(std::memcmp(other.data(), plain.data(), plain.size() * sizeof(float)), 0) << "rounding mode " << mode;
  }
}

}  // namespace
