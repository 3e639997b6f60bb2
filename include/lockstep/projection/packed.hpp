// Projections: weights packed once, and products whose rows have the same bits for one row and for many.
#pragma once

#include "lockstep/aligned.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/tasks.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/numeric/rounded.hpp"
#include "lockstep/simd/instruction_set.hpp"
#include "lockstep/views.hpp"

namespace lockstep {

/// The element type in which a layer keeps its weights; `WeightStorage<>`: the layer's own.
template <class S = void>
struct WeightStorage {
  static constexpr PolicyKind policy_kind = PolicyKind::weights;
  using Storage = S;
};
template <>
struct WeightStorage<void> {
  static constexpr PolicyKind policy_kind = PolicyKind::weights;
  template <class T>
  using rebind = WeightStorage<T>;
};

/// Weights of y = W x + b, packed as [in/256][out/64][256][64], several matrices of the same input stacked so that x is read once.
template <class S>
class PackedWeights {
 public:
  static constexpr Index panel = 64;
  using Compute = compute_t<S>;

  PackedWeights() noexcept = default;

  /// `out` rows over an inner dimension of `in`; all zero, no bias.
  PackedWeights(Index out, Index in)
      : out_(out),
        in_(in),
        data_(static_cast<std::size_t>(ceil_div(in, projection_block) * block_stride())),
        bias_(static_cast<std::size_t>(round_up(out, panel)), no_bias) {}

  /// Stacks a matrix [rows, in] at output row `first`, each number rounded once to S; without a bias none is added.
  template <class T>
  void place(Index first, View<const T, 2> weight, View<const T, 1> bias) {
    for (Index n = 0; n < weight.extent[0]; ++n)
      for (Index k = 0; k < in_; ++k) {
        const Index row = first + n;
        data_[static_cast<std::size_t>((k / projection_block) * block_stride() + (row / panel) * (projection_block * panel) +
                                       (k % projection_block) * panel + row % panel)] = narrow<S>(widen(weight(n, k)));
      }
    if (!bias.present()) return;
    for (Index n = 0; n < weight.extent[0]; ++n) bias_[static_cast<std::size_t>(first + n)] = widen(bias(n));
  }

  Index out() const noexcept { return out_; }
  Index in() const noexcept { return in_; }
  Index block_stride() const noexcept { return ceil_div(out_, panel) * projection_block * panel; }
  const S* panel_data(Index p) const noexcept { return data_.data() + p * projection_block * panel; }
  const Compute* bias_data(Index p) const noexcept { return bias_.data() + p * panel; }

 private:
  // Adding -0 changes no number, not even a zero's sign: rows without a bias need no code of their own.
  static constexpr Compute no_bias = Compute(-0.0);

  Index out_ = 0, in_ = 0;
  AlignedVector<S> data_;
  AlignedVector<Compute> bias_;
};

namespace projection_portable {
#include "lockstep/projection/project.inl"
}
#if defined(__x86_64__)
#include "lockstep/simd/region_fma_begin.inl"
namespace projection_fma {
#include "lockstep/projection/project.inl"
}
#include "lockstep/simd/region_end.inl"
#endif

/// y = W x + b for every row: x [rows, in], y [rows, out], rounded once to y's type. Each number is one fma chain per 256 of the inner
/// index from +0, the chains added in order, then the bias: the same bits for 1 row and for many, on any executor.
template <class T, class S, class Out, class Run>
void project(View<const T, 2> x, const PackedWeights<S>& weights, View<Out, 2> y, const Run& executor) {
  using C = compute_t<S>;
  constexpr Index panel = PackedWeights<S>::panel;
  const Index panels = ceil_div(weights.out(), panel);
  detail::for_each_task(executor, panels * x.extent[0], [&](Index, Index task) noexcept {
    const Index p = task / x.extent[0], row = task % x.extent[0];
    const Index width = weights.out() - p * panel < panel ? weights.out() - p * panel : panel;
    const View<Out, 1> out = y.at(row).part(0, p * panel, width);
#if defined(__x86_64__)
    if (cpu_has_fma()) return projection_fma::project_panel<C>(x.at(row), weights.panel_data(p), weights.block_stride(), weights.bias_data(p), out);
#endif
    projection_portable::project_panel<C>(x.at(row), weights.panel_data(p), weights.block_stride(), weights.bias_data(p), out);
  });
}

}  // namespace lockstep
