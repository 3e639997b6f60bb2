// One of the translation units of mixed.hpp: compiled twice, with LOCKSTEP_PART as the name of its Part.
#include "mixed.hpp"

#include <lockstep/kernel/tiled.hpp>

#include "bits.hpp"

#define LOCKSTEP_TEXT_OF(x) #x
#define LOCKSTEP_TEXT(x) LOCKSTEP_TEXT_OF(x)

namespace mixed {

using namespace bits;

/// Half storage under a float layer, so that conversions take part; Specification beside Tiled, for its functions.
struct Session {
  using Cache = ls::ContiguousCache<Eigen::half>;
  template <class K>
  using Layer = ls::Attention<float, 4, 2, ls::Rope<ls::HalfSplit>, Cache, K>;
  static constexpr Index hidden = 40, head_dim = 24, tokens = 40;
  static constexpr ls::LayerShape shape{.hidden = hidden, .head_dim = head_dim, .heads = 4, .kv_heads = 2};

  Weights<float> weights{shape, 3, true, 0.25};
  Layer<ls::Tiled> tiled{shape, weights.views(), ls::RopeTable<float>({.rotary_dim = head_dim, .positions = tokens})};
  Layer<ls::Specification> specification{shape, weights.views(),
                                         ls::RopeTable<float>({.rotary_dim = head_dim, .positions = tokens})};
  Cache fast = tiled.make_cache(tokens), plain = specification.make_cache(tokens);
  std::vector<float> x = numbers<float>(tokens * hidden, 1), y = std::vector<float>(x.size()),
                     z = std::vector<float>(x.size());
  Index done = 0;
};

namespace {

Session* begin() { return new Session; }

void forward(Session* s, int tokens) {
  const auto rows = [&](auto& v) {
    return ls::View<std::remove_reference_t<decltype(v[0])>, 2>::contiguous(v.data() + s->done * Session::hidden,
                                                                            {tokens, Session::hidden});
  };
  const std::vector<float>& x = s->x;
  s->tiled.forward(rows(x), s->fast, rows(s->y));
  s->specification.forward(rows(x), s->plain, rows(s->z));
  s->done += tokens;
}

const char* refusal(Session* s) {
  static ls::Status status;
  const Index left = s->fast.capacity() - s->fast.length();
  std::vector<float> rows(at((left + 1) * Session::hidden));
  const auto x = ls::View<float, 2>::contiguous(rows.data(), {left + 1, Session::hidden});
  std::vector<float> results(rows.size());
  status = s->tiled.check(x, s->fast, ls::View<float, 2>::contiguous(results.data(), {left + 1, Session::hidden}));
  return status.message();
}

void force(const char* set) {
  for (const ls::InstructionSet one : ls::all_instruction_sets)
    if (std::strcmp(set, ls::name_of(one)) == 0 && ls::cpu_has(one)) ls::force_instruction_set(one);
}
const char* set() { return ls::name_of(ls::instruction_set()); }

std::uint64_t end(Session* s) {
  Hash hash;
  hash.add(s->y);
  if (!same_bits(s->y, s->z)) hash.add(s->z);
  std::vector<Eigen::half> keys(at(s->fast.length() * 2 * Session::head_dim));
  s->fast.export_keys(ls::View<Eigen::half, 3>::contiguous(keys.data(), {2, s->fast.length(), Session::head_dim}));
  hash.add(keys);
  delete s;
  return hash.value();
}

}  // namespace

const Part LOCKSTEP_PART{LOCKSTEP_TEXT(LOCKSTEP_PART), &begin, &forward, &refusal, &force, &set, &end};

}  // namespace mixed
