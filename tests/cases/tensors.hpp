// Tensors of a case as the library takes them: owned arrays of the computed type, seen through strided views.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/views.hpp>

#include "case.hpp"

namespace cases {

inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// A row-major array with its shape. Elements start as zero.
template <class T, int Rank>
struct Array {
  std::array<Index, Rank> shape;
  std::vector<T> values;

  explicit Array(const std::array<Index, Rank>& extents)
      : shape(extents), values(at(element_count({extents.begin(), extents.end()}))) {}
  lockstep::View<T, Rank> view() { return lockstep::View<T, Rank>::contiguous(values.data(), shape); }
  lockstep::View<const T, Rank> view() const { return lockstep::View<const T, Rank>::contiguous(values.data(), shape); }
};

/// A tensor's numbers in the computed type, in which the format promises them to be exact for float.
template <class T>
std::vector<T> numbers(const Tensor& tensor) {
  std::vector<T> values(tensor.values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(tensor.values[i]);
  return values;
}

/// BHSD is [batch, heads, tokens, dim], BSH [batch, tokens, heads * dim].
enum class Layout { bhsd, bsh };

inline Layout layout_of(const Case& test) {
  const std::string& name = test.text("layout");
  if (name == "BHSD") return Layout::bhsd;
  if (name == "BSH") return Layout::bsh;
  throw BadCase("layout: given " + name + ", allowed BHSD, BSH");
}

/// A tensor's shape in that layout.
inline std::vector<Index> shape_in(Layout layout, Index batch, Index tokens, Index heads, Index dim) {
  if (layout == Layout::bhsd) return {batch, heads, tokens, dim};
  return {batch, tokens, heads * dim};
}

/// The elements of such a tensor seen as [batch, tokens, heads, dim], whatever their order in memory.
template <class T>
lockstep::View<T, 4> token_major(T* data, Layout layout, Index batch, Index tokens, Index heads, Index dim) {
  const Index token_step = layout == Layout::bhsd ? dim : heads * dim;
  const Index head_step = layout == Layout::bhsd ? tokens * dim : dim;
  return {data, {batch, tokens, heads, dim}, {tokens * heads * dim, token_step, head_step, 1}};
}

/// A view with two of its axes exchanged.
template <class T, int Rank>
lockstep::View<T, Rank> swapped(lockstep::View<T, Rank> view, std::size_t a, std::size_t b) {
  std::swap(view.extent[a], view.extent[b]);
  std::swap(view.stride[a], view.stride[b]);
  return view;
}

}  // namespace cases
