// Benchmarks of the masks, over the causal one.
#include <limits>

#include "lockstep/mask/array.hpp"
#include "lockstep/mask/compose.hpp"
#include "lockstep/mask/causal.hpp"
#include "policy_work.hpp"

namespace bench {

namespace {

void add_none(const Suite& suite, const Shape& s) {
  suite.add(policy_name("Tiled", "NoMask", s), [s]() -> std::unique_ptr<Work> {
    auto work = std::make_unique<PolicyWork<ls::Tiled, ls::NoMask>>(s, PolicyOptions<ls::Tiled, ls::NoMask>{});
    work->flops = 4 * static_cast<double>(s.heads * s.head_dim) * static_cast<double>(s.q_len * s.kv_len());
    return work;
  });
}

void add_offset(const Suite& suite, const Shape& s) {
  suite.add(policy_name("Tiled", "OffsetCausal", s), [s]() -> std::unique_ptr<Work> {
    PolicyOptions<ls::Tiled, ls::OffsetCausal> options;
    options.mask = ls::OffsetCausal(s.past);
    auto work = std::make_unique<PolicyWork<ls::Tiled, ls::OffsetCausal>>(s, options);
    work->check_mask = ls::OffsetCausal(s.past + (s.q_len < 3 ? 0 : s.q_len - 3));
    return work;
  });
}

/// FLOP of rows that see `seen(place)` keys each.
template <class Seen>
double mask_flops(const Shape& s, Seen seen) {
  double keys = 0;
  for (Index i = 0; i < s.q_len; ++i) keys += static_cast<double>(seen(s.past + i));
  return 4 * static_cast<double>(s.batch * s.heads * s.head_dim) * keys;
}

void add_window(const Suite& suite, const Shape& s) {
  suite.add(policy_name("Tiled", "SlidingWindow", s), [s]() -> std::unique_ptr<Work> {
    const Index window = s.kv_len() / 4 + 1;
    PolicyOptions<ls::Tiled, ls::SlidingWindow> options;
    options.mask = ls::SlidingWindow{window, 4};
    auto work = std::make_unique<PolicyWork<ls::Tiled, ls::SlidingWindow>>(s, options);
    work->flops = mask_flops(s, [window](Index place) { return place < window + 4 ? place + 1 : window + 4; });
    return work;
  });
}

/// A window to both sides.
void add_two_sided(const Suite& suite, const Shape& s) {
  suite.add(policy_name("Tiled", "Window", s), [s]() -> std::unique_ptr<Work> {
    const ls::Window window{.left = s.kv_len() / 4, .right = s.kv_len() / 8};
    PolicyOptions<ls::Tiled, ls::Window> options;
    options.mask = window;
    auto work = std::make_unique<PolicyWork<ls::Tiled, ls::Window>>(s, options);
    work->flops = mask_flops(s, [window, end = s.kv_len()](Index place) {
      const Index first = place < window.left ? 0 : place - window.left, last = place + window.right + 1;
      return (last < end ? last : end) - first;
    });
    return work;
  });
}

void add_prefix(const Suite& suite, const Shape& s) {
  suite.add(policy_name("Tiled", "PrefixLm", s), [s]() -> std::unique_ptr<Work> {
    const Index prefix = s.kv_len() / 2;
    PolicyOptions<ls::Tiled, ls::PrefixLm> options;
    options.mask = ls::PrefixLm(prefix);
    auto work = std::make_unique<PolicyWork<ls::Tiled, ls::PrefixLm>>(s, options);
    work->flops = mask_flops(s, [prefix](Index place) { return place < prefix ? prefix : place + 1; });
    return work;
  });
}

/// The causal pattern as an array of flags or of addends, [q_len, kv_len].
template <class Array, class N>
void add_array(const Suite& suite, const Shape& s, const std::string& name, N visible, N hidden) {
  suite.add(policy_name("Tiled", name, s), [s, visible, hidden]() -> std::unique_ptr<Work> {
    struct Numbers {
      explicit Numbers(Index n) : number(new N[at(n)]) {}
      std::unique_ptr<N[]> number;
    };
    const auto numbers = std::make_shared<Numbers>(s.q_len * s.kv_len());
    for (Index i = 0; i < s.q_len; ++i)
      for (Index j = 0; j < s.kv_len(); ++j)
        numbers->number[at(i * s.kv_len() + j)] = j <= s.past + i ? visible : hidden;
    const auto rows = [&](Index first, Index count) {
      return Array(
          ls::View<const N, 4>::contiguous(numbers->number.get() + first * s.kv_len(), {1, 1, count, s.kv_len()}));
    };
    PolicyOptions<ls::Tiled, Array> options;
    options.mask = rows(0, s.q_len);
    auto work = std::make_unique<PolicyWork<ls::Tiled, Array>>(s, options, numbers);
    const Index last = s.q_len < 3 ? s.q_len : 3;
    work->check_mask = rows(s.q_len - last, last);
    return work;
  });
}

/// Padding before the tokens leaves each row one range of keys; holes leave it a list.
void add_padding(const Suite& suite, const Shape& s, const std::string& pattern) {
  suite.add(
      policy_name("Tiled", "Causal & KeyPadding", s) + "/padding:" + pattern, [s, pattern]() -> std::unique_ptr<Work> {
        using Mask = ls::And<ls::Causal, ls::KeyPadding>;
        struct Flags {
          explicit Flags(Index n) : flag(new bool[at(n)]) {}
          std::unique_ptr<bool[]> flag;
        };
        const auto flags = std::make_shared<Flags>(s.kv_len());
        for (Index j = 0; j < s.kv_len(); ++j)
          flags->flag[at(j)] = pattern == "left" ? j >= s.kv_len() / 8 : j % 7 != 3;
        PolicyOptions<ls::Tiled, Mask> options;
        options.mask =
            ls::Causal{} & ls::KeyPadding(ls::View<const bool, 2>::contiguous(flags->flag.get(), {1, s.kv_len()}));
        return std::make_unique<PolicyWork<ls::Tiled, Mask>>(s, options, flags);
      });
}

}  // namespace

void add_masks(const Suite& suite) {
  for (const Shape& s : policy_shapes(suite, Speed::fast)) {
    add_none(suite, s);
    add_offset(suite, s);
    add_window(suite, s);
    add_two_sided(suite, s);
    add_prefix(suite, s);
    add_array<ls::BooleanMask, bool>(suite, s, "BooleanMask", true, false);
    add_array<ls::AdditiveMask<float>, float>(suite, s, "AdditiveMask", 0, -std::numeric_limits<float>::infinity());
    for (const char* pattern : {"left", "holes"}) add_padding(suite, s, pattern);
  }
}

}  // namespace bench
