// Projections: weights packed once, and products whose rows have the same bits for one row and for many.
#pragma once

#include <type_traits>

#include "lockstep/aligned.hpp"
#include "lockstep/concepts.hpp"
#include "lockstep/tasks.hpp"
#include "lockstep/numeric/half.hpp"
#include "lockstep/numeric/rounded.hpp"
#include "lockstep/simd/sets.hpp"
#include "lockstep/views.hpp"

namespace lockstep {

/// The element type in which a layer keeps its weights; `WeightStorage<>`: the layer's own.
template <class S = void>
struct WeightStorage {
  static constexpr PolicyKind policy_kind = PolicyKind::weights;
  using Storage = S;
};
/// The policy before a layer gives it its element type.
template <>
struct WeightStorage<void> : public detail::Unbound<PolicyKind::weights, WeightStorage> {};

/// Weights of y = W x + b, packed as [in/256][out/64][256][64] (16-bit storage: [in/256][out/64][128][64][2]), several
/// matrices of the same input stacked so that x is read once.
template <class S>
class PackedWeights {
 public:
  static constexpr Index panel = 64;                     ///< outputs that lie side by side
  static constexpr Index pair = sizeof(S) == 2 ? 2 : 1;  ///< inputs in one line
  using Compute = compute_t<S>;

  PackedWeights() noexcept = default;

  /// `out` rows over an inner dimension of `in`; all zero, no bias. Errors: sizes below 0 or beyond 63 bits.
  PackedWeights(Index out, Index in) {
    raise_unless_ok(check(out, in));
    out_ = out;
    in_ = in;
    bias_.resize(static_cast<std::size_t>(round_up(out, panel)), no_bias);
    data_.resize(static_cast<std::size_t>(ceil_div(in, projection_block) * block_stride()));
  }
  /// Whether such sizes are possible.
  static Status check(Index out, Index in) noexcept {
    constexpr Index limit = Index{1} << 62;
    Index numbers = 0;
    if (out < 0 || in < 0 || out > limit || in > limit ||
        __builtin_mul_overflow(round_up(out, panel), round_up(in, projection_block), &numbers) ||
        numbers > limit / static_cast<Index>(sizeof(S)))
      return Status::length("weights", "given {} rows of {}, allowed 0 to what 62 bits of bytes hold", out, in);
    return {};
  }

  /// Stacks a matrix [rows, in] at output row `first`, each number rounded once to S; without a bias none is added.
  /// Errors: rows beyond out(), other shapes.
  template <class T>
  void place(Index first, View<const T, 2> weight, View<const T, 1> bias) {
    if (first < 0 || first > out() || weight.extent[0] > out() - first)
      raise(Status::length("first", "given {} and {} rows, allowed 0 to {}", first, weight.extent[0], out()));
    raise_unless_ok(detail::check_shape("weight", weight, {weight.extent[0], in_}));
    raise_unless_ok(detail::check_optional("bias", bias, {weight.extent[0]}));
    for (Index n = 0; n < weight.extent[0]; ++n)
      for (Index k = 0; k < in_; ++k) {
        const Index row = first + n;
        data_[static_cast<std::size_t>(
            (k / projection_block) * block_stride() + (row / panel) * (projection_block * panel) +
            (k % projection_block) / pair * (panel * pair) + row % panel * pair + k % pair)] =
            narrow<S>(widen(weight(n, k)));
      }
    if (!bias.present()) return;
    for (Index n = 0; n < weight.extent[0]; ++n) bias_[static_cast<std::size_t>(first + n)] = widen(bias(n));
  }

  Index out() const noexcept { return bias_.empty() ? 0 : out_; }  ///< rows of W; 0 once moved from
  Index in() const noexcept { return in_; }                        ///< columns of W
  /// Elements from one block of 256 inputs to the next.
  Index block_stride() const noexcept { return ceil_div(out(), panel) * projection_block * panel; }
  /// The first block of panel p.
  const S* panel_data(Index p) const noexcept { return data_.data() + p * projection_block * panel; }
  /// The biases of panel p, zeros where there are none.
  const Compute* bias_data(Index p) const noexcept { return bias_.data() + p * panel; }

 private:
  // Adding -0 changes no number, not even a zero's sign: rows without a bias need no code of their own.
  static constexpr Compute no_bias = Compute(-0.0);

  Index out_ = 0, in_ = 0;
  AlignedVector<S> data_;
  AlignedVector<Compute> bias_;
};

#define LOCKSTEP_EACH_SET "lockstep/projection/project.inl"
#include "lockstep/simd/each_set.inl"

/// Numbers of scratch that project() needs for these rows: x in compute type, where it is stored otherwise or its
/// columns are not adjacent.
template <class C, class T>
Index project_scratch(View<const T, 2> x) noexcept {
  return std::same_as<T, C> && x.stride[1] == 1 ? 0 : x.extent[0] * x.extent[1];
}

/// y = W x + b for every row: x [rows, in], y [rows, out], rounded once to y's type. Each number is one fma chain per
/// 256 of the inner index from +0, the chains added in order, then the bias: the same bits for 1 row and for many, on
/// any executor. `scratch`: project_scratch(x) numbers. Precondition: the shapes above, and memory that does not
/// overlap.
template <class T, class S, class Out, class Run>
void project(View<const T, 2> x, const PackedWeights<S>& weights, View<Out, 2> y, const Run& executor,
             compute_t<S>* scratch) {
  using C = compute_t<S>;
  constexpr Index panel = PackedWeights<S>::panel;
  const Index rows = x.extent[0];
  if (rows == 0) return;
  View<const C, 2> plain;
  if constexpr (std::same_as<T, C>) plain = x;
  if (project_scratch<C>(x) != 0) {
    detail::for_each_task(executor, rows, {.bytes = rows * weights.in() * 8}, [&](Index, Index r) noexcept {
      for (Index k = 0; k < x.extent[1]; ++k) scratch[r * x.extent[1] + k] = widen(x(r, k));
    });
    plain = View<const C, 2>::contiguous(scratch, x.extent);
  }
  // A task is one panel and so many rows: weights of a panel come from memory once, rows stay in the second-level
  // cache. One row waits for memory: it takes four panels a quarter apart, because one core reads four streams faster
  // than one; what is left over at the end goes together with its neighbours, which are not written again.
  // Panel after panel it reaches 0.90 instead of 0.95 of the read bandwidth, and 0.79 of the speed where weights are in
  // cache. Tried without gain: eight panels at once, requests 8 to 32 steps ahead in each of the four, four panels that
  // are not equally far apart at the end (fewer reads, but 5 to 14 % more code).
  constexpr Index task_rows = 192 * static_cast<Index>(sizeof(float)) / static_cast<Index>(sizeof(C));
  const Index panels = ceil_div(weights.out(), panel), quarter = panels / 4;
  const bool single = rows == 1 && quarter > 0;
  const Index across = single ? quarter + (panels % 4 != 0 ? 1 : 0) : panels;
  const detail::Effort effort{rows * weights.in() * weights.out(),
                              weights.in() * weights.out() * static_cast<Index>(sizeof(S))};
  detail::for_each_task(executor, across * ceil_div(rows, task_rows), effort, [&](Index, Index task) noexcept {
    alignas(64) C numbers[static_cast<std::size_t>(task_rows * panel)];
    const Index p = task % across, first = task / across * task_rows;
    const Index count = rows - first < task_rows ? rows - first : task_rows;
    const C* from = plain.data + first * plain.stride[0];
    const auto write = [&](Index r, Index at, const C* row) noexcept {
      const Index width = weights.out() - at * panel < panel ? weights.out() - at * panel : panel;
      Out* to = &y(first + r, at * panel);
      if (y.stride[1] == 1)
        for (Index n = 0; n < width; ++n) to[n] = narrow<Out>(row[n]);
      else
        for (Index n = 0; n < width; ++n) to[n * y.stride[1]] = narrow<Out>(row[n]);
    };
    with_set(instruction_set(), [&](auto set) {
      if (!single)
        project_rows(set, from, plain.stride[0], count, weights, p, numbers, write);
      else if (p < quarter)
        project_row(set, from, weights, p, quarter, 0, numbers, write);
      else
        project_row(set, from, weights, panels - 4, 1, 4 * quarter, numbers, write);
    });
  });
}

/// The same for rows x [rows, in] and y [rows, out] in anything that a view can be made of. `scratch` null: memory is
/// taken and given back within the call, where any is needed. Errors, before anything is written: x or y of another
/// shape, y in memory that overlaps x.
template <class X, class S, class Y, class Run>
void project(const X& x, const PackedWeights<S>& weights, Y&& y, const Run& executor, compute_t<S>* scratch = nullptr) {
  using T = std::remove_cv_t<std::remove_pointer_t<decltype(detail::data_of(x))>>;
  using Out = std::remove_pointer_t<decltype(detail::data_of(y))>;
  static_assert(ViewableAs<const X&, const T, 2> && Element<T>,
                "lockstep::project: x must be a matrix [rows, in] of float, double, Eigen::half or Eigen::bfloat16");
  static_assert(ViewableAs<Y&, Out, 2> && Element<Out>,
                "lockstep::project: y must be a writable matrix [rows, out] of float, double, Eigen::half or "
                "Eigen::bfloat16");
  const View<const T, 2> in(x);
  const View<Out, 2> out(y);
  raise_unless_ok(detail::check_shape("x", in, {in.extent[0], weights.in()}));
  raise_unless_ok(detail::check_shape("y", out, {in.extent[0], weights.out()}));
  const View<compute_t<S>, 1> plain(scratch, {project_scratch<compute_t<S>>(in)}, {1});
  raise_unless_ok(detail::check_apart({{"x", detail::bytes_of(in)}},
                                      {{"y", detail::bytes_of(out)}, {"scratch", detail::bytes_of(plain)}}));
  AlignedVector<compute_t<S>> own;
  if (scratch == nullptr) {
    own.resize(static_cast<std::size_t>(plain.extent[0]));
    scratch = own.data();
  }
  project<T, S, Out, Run>(in, weights, out, executor, scratch);
}

}  // namespace lockstep
