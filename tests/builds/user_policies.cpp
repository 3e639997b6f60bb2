// A user's own mask and logit transform in a build with a host's flags and Eigen settings: the same bits as in every
// other build, and those of the specification. No test framework, so that the program builds with anything.
#include <lockstep/lockstep.hpp>

#include <Eigen/Core>

#include <cinttypes>
#include <cstdio>

#include "golden/bits.hpp"

namespace {

using namespace bits;

/// The one number that all builds must give.
constexpr std::uint64_t golden = 0xAAAA48D326705813;

/// Every third key, and the 40 nearest; adds what depends on the key.
struct Strided {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  ls::KeyRange range(ls::QueryRow q, Index kv_len) const noexcept {
    return {0, q.place + 1 < kv_len ? q.place + 1 : kv_len};
  }
  ls::Visibility block(ls::QueryRow q, ls::KeyRange keys) const noexcept {
    return keys.first > q.place - 40 ? ls::Visibility::all : ls::Visibility::some;
  }
  bool visible(ls::QueryRow q, Index key) const noexcept { return key % 3 == 0 || key > q.place - 40; }
  Index keys_needed(ls::QueryRow q) const noexcept { return q.place + 1; }
  float add(float s, ls::QueryRow, Index key) const noexcept {
    return ls::rounded(s + ls::rounded(0.3F * static_cast<float>(key % 5)));
  }
  void add(float* s, ls::QueryRow q, ls::KeyRange keys) const noexcept {
    for (Index i = 0; i < keys.size(); ++i) s[i] = add(s[i], q, keys.first + i);
  }
};

/// s - 0.015 s^3 + s / 3, which flags may fuse, regroup and replace. The factor is no power of two, or nothing would
/// show.
struct Bent {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::logits;
  double scale(Index head_dim) const noexcept { return 1.0 / static_cast<double>(head_dim); }
  float apply(float s, ls::QueryRow, Index) const noexcept {
    const float square = ls::rounded(s * s);
    return ls::rounded(ls::fma(ls::rounded(square * s), -0.015F, s) + ls::quotient(s, 3.0F));
  }
  void apply(float* s, ls::QueryRow q, ls::KeyRange keys) const noexcept {
    for (Index i = 0; i < keys.size(); ++i) s[i] = apply(s[i], q, keys.first + i);
  }
};

constexpr Index hidden = 20, head_dim = 12, tokens = 290;

/// Matrices of Eigen at the border, a 16-bit cache, chunks that end within a block.
template <class K>
std::vector<float> outputs() {
  using Layer = ls::Attention<float, 4, 2, Bent, Strided, ls::Rope<ls::HalfSplit>, ls::ContiguousCache<Eigen::half>, K>;
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const ls::LayerShape shape{.hidden = hidden, .head_dim = head_dim, .heads = 4, .kv_heads = 2};
  const Layer layer(shape, Weights<float>(shape, 7, true, 0.5).views(),
                    ls::RopeTable<float>({.rotary_dim = head_dim, .positions = tokens}));
  const std::vector<float> x = numbers<float>(tokens * hidden, 11, 4);
  std::vector<float> y(x.size());
  auto cache = layer.make_cache(tokens);
  Index done = 0;
  for (const Index rows : {Index{250}, Index{39}, Index{1}}) {
    const Matrix in = Eigen::Map<const Matrix>(x.data() + done * hidden, static_cast<Eigen::Index>(rows),
                                               static_cast<Eigen::Index>(hidden));
    Eigen::Map<Matrix> out(y.data() + done * hidden, static_cast<Eigen::Index>(rows),
                           static_cast<Eigen::Index>(hidden));
    layer.forward(in, cache, out);
    done += rows;
  }
  return y;
}

std::uint64_t hash_of(const std::vector<float>& y) {
  Hash hash;
  hash.add(y);
  return hash.value();
}

}  // namespace

int main() {
  int different = 0;
  const auto compare = [&](const char* kernel, const char* set, std::uint64_t hash) {
    if (hash == golden) return;
    ++different;
    std::printf("%s under %s: 0x%016" PRIx64 ", golden is 0x%016" PRIx64 "\n", kernel, set, hash, golden);
  };
  compare("Specification", "no set", hash_of(outputs<ls::Specification>()));
  for (const ls::InstructionSet set : instruction_sets()) {
    ls::force_instruction_set(set);
    compare("Tiled", ls::name_of(set), hash_of(outputs<ls::Tiled>()));
  }
  std::printf("%d different\n", different);
  return different == 0 ? 0 : 1;
}
