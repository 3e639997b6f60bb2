// Benchmarks of the masks, over the causal one.
#include "lockstep/mask/compose.hpp"
#include "lockstep/mask/key_padding.hpp"
#include "lockstep/mask/none.hpp"
#include "lockstep/mask/offset_causal.hpp"
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
    for (const char* pattern : {"left", "holes"}) add_padding(suite, s, pattern);
  }
}

}  // namespace bench
