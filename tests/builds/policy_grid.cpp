// Every class template of the library with a spread of arguments, instantiated in full: members that no test calls
// compile too, without a warning. The policies of layers are spread so that each meets several of the other kinds. In a
// host that shows the names of std and Eigen everywhere, and the macros of <complex.h>.
#include <complex.h>

#include <Eigen/Core>

using namespace std;
using namespace Eigen;

#include <lockstep/executor/thread_pool.hpp>
#include <lockstep/lockstep.hpp>

namespace lockstep {

using Half = Eigen::half;
using Bfloat16 = Eigen::bfloat16;

template class Attention<float, 1, 1>;
template class Attention<double, 6, 3, Rope<HalfSplit>, SlidingWindow, RingCache<>, SoftCap, Alibi<>, Hook>;
template class Attention<Half, Dynamic, 2, Rope<Interleaved>, PrefixLm, PagedCache<>, QkNorm<BeforeRope>,
                         Specification>;
template class Attention<Bfloat16, 8, Dynamic, MultimodalRope<>, KeyPadding, LearnedSinks<>, WeightStorage<Half>>;
template class Attention<float, 4, 4, And<Causal, AdditiveMask<Bfloat16>>, RelativeBias<>, Materialized, RepeatedHeads>;
template class Attention<float, Dynamic, Dynamic, Or<Window, OffsetCausal>, ContiguousCache<std::int8_t>, Dropout>;
template class Attention<Half, 4, 2, BooleanMask, QkNorm<AfterRope, WholeWidth>, ThreadPool, RingCache<Bfloat16>>;
template class Attention<double, 3, 1, NoMask, NoPosition, Materialized, ContiguousCache<double>, Dropout>;

template struct AttendOptions<float>;
template struct AttendOptions<double, Causal, SoftCap, Alibi<double>, LearnedSinks<double>, Dropout, Hook>;
template struct PartialOptions<float, SlidingWindow, SoftCap>;
template class Partial<float>;
template class Partial<double>;

template class ContiguousCache<float>;
template class ContiguousCache<double>;
template class ContiguousCache<Half>;
template class ContiguousCache<Bfloat16>;
template class ContiguousCache<std::int8_t>;
template class RingCache<float>;
template class RingCache<std::int8_t>;
template class PagedCache<double>;
template class PagedCache<std::int8_t>;
template class PagePool<Half>;
template class PagePool<std::int8_t>;
template class ModelCache<ContiguousCache<float>, RingCache<float>>;
template class TreeCache<PagedCache<Half>>;

template class RopeTable<float>;
template class RopeTable<double>;
template class Rope<HalfSplit, float>;
template class Rope<Interleaved, double>;
template class MultimodalRope<HalfSplit, float>;
template class MultimodalRope<Interleaved, double>;
template class Alibi<float>;
template class Alibi<double>;
template class RelativeBias<float>;
template class RelativeBias<double>;
template class LearnedSinks<float>;
template class LearnedSinks<double>;
template class QkNorm<BeforeRope, PerHead, float>;
template class QkNorm<AfterRope, WholeWidth, double>;
template class AdditiveMask<float>;
template class AdditiveMask<double>;
template class AdditiveMask<Half>;
template struct And<Causal, And<BooleanMask, AdditiveMask<float>>>;
template struct Or<SlidingWindow, Or<PrefixLm, KeyPadding>>;
template class PackedWeights<float>;
template class PackedWeights<double>;
template class PackedWeights<Half>;
template class PackedWeights<Bfloat16>;
template struct PlainKeyValues<Bfloat16>;
template struct LayerWeights<Half>;
template struct View<float, 1>;
template struct View<const double, 4>;

}  // namespace lockstep
