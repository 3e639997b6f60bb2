// What reads the source instead of running it (presets tidy and cppcheck) reads it here: all headers, and of the
// templates one instance or two that reach every member and every kernel.
#include <array>
#include <sstream>

#include <lockstep/executor/thread_pool.hpp>
#include <lockstep/lockstep.hpp>

namespace ls = lockstep;
using ls::Index;

// Every member that is not a template itself.
template class ls::ContiguousCache<float>;
template class ls::PagedCache<std::int8_t>;
template class ls::PagePool<Eigen::bfloat16>;
template class ls::RingCache<Eigen::half>;
template class ls::RopeTable<float>;
template class ls::Alibi<float>;
template class ls::RelativeBias<float>;
template class ls::Partial<float>;
template class ls::PackedWeights<float>;

namespace {

using Plain = ls::Attention<float, 4, 2, ls::Rope<ls::HalfSplit>>;
using Laden = ls::Attention<Eigen::bfloat16, ls::Dynamic, ls::Dynamic, ls::Rope<ls::Interleaved>, ls::SlidingWindow,
                            ls::SoftCap, ls::Alibi<>, ls::LearnedSinks<>, ls::QkNorm<ls::BeforeRope>, ls::Dropout,
                            ls::Specification, ls::PagedCache<>, ls::ThreadPool>;

template <class Layer>
void all_calls(const Layer& layer, typename Layer::Cache& cache) {
  using T = typename Layer::Scalar;
  std::array<T, 64> in{}, out{};
  const auto x = ls::View<const T, 2>::contiguous(in.data(), {2, 32});
  const auto y = ls::View<T, 2>::contiguous(out.data(), {2, 32});
  const std::array<Index, 2> parents{-1, 0};
  layer.forward(x, cache, y);
  layer.forward(x, y);
  layer.forward_tree(x, parents, cache, y);
  if (!layer.check(x, cache, y).ok()) cache.clear();
  std::stringstream stream;
  ls::save_cache(cache, stream);
  ls::restore_cache(cache, stream);
  stream << layer;
}

template void all_calls<Plain>(const Plain&, Plain::Cache&);
template void all_calls<Laden>(const Laden&, Laden::Cache&);

}  // namespace
