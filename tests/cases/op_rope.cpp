// rope_apply and rope_freqs: rotary embedding by the library's position policy, with given tables and with its own.
#include <algorithm>

#include <lockstep/position/rope.hpp>

#include "operations.hpp"
#include "rope_scaling.hpp"
#include "tensors.hpp"

namespace cases {
namespace {

using lockstep::View;

// Rotates every head row of x [batch, tokens, heads, head_dim] in place; `position(b, token)` picks the table's row.
template <class Style, class T, class Positions>
void rotate_all(const lockstep::RopeTable<T>& table, View<T, 4> x, Positions position) {
  const lockstep::Rope<Style, T> rope(table);
  for (Index b = 0; b < x.extent[0]; ++b)
    for (Index token = 0; token < x.extent[1]; ++token)
      for (Index head = 0; head < x.extent[2]; ++head) rope.rotate(&x(b, token, head, 0), position(b, token));
}

template <class T, class Positions>
void rotate_as(const Case& test, const lockstep::RopeTable<T>& table, View<T, 4> x, Positions position) {
  if (table.rotary_dim() > x.extent[3]) throw BadCase("rope.dim is larger than head_dim");
  const std::string& style = test.text("rope.style");
  if (style == "half") return rotate_all<lockstep::HalfSplit>(table, x, position);
  if (style == "interleaved") return rotate_all<lockstep::Interleaved>(table, x, position);
  throw BadCase("rope.style: given " + style + ", allowed half, interleaved");
}

std::vector<Index> positions_in(const Tensor& tensor, Index known) {
  std::vector<Index> positions;
  for (const double value : tensor.values) {
    const auto position = static_cast<Index>(value);
    if (position < 0 || position >= known)
      throw BadCase("position " + std::to_string(position) + ": allowed 0 to " + std::to_string(known - 1));
    positions.push_back(position);
  }
  return positions;
}

template <class T>
void run_apply(const Case& test, Report& report) {
  const Layout layout = layout_of(test);
  const Index heads = test.integer("heads"), head_dim = test.integer("head_dim"), pairs = test.integer("rope.dim") / 2;
  const std::vector<Index>& shape = test.input("x").shape;
  if (shape.size() != (layout == Layout::bhsd ? 4 : 3))
    throw BadCase("x: given " + to_text(shape) + " for this layout");
  const Index batch = shape[0], tokens = shape[layout == Layout::bhsd ? 2 : 1];
  std::vector<T> x = numbers<T>(test.input("x", shape_in(layout, batch, tokens, heads, head_dim)));

  const bool by_position = test.has_input("position_ids");
  const Index rows = by_position ? test.input("cos").shape.front() : batch * tokens;
  const std::vector<Index> table_shape =
      by_position ? std::vector<Index>{rows, pairs} : std::vector<Index>{batch, tokens, pairs};
  const std::vector<T> cos = numbers<T>(test.input("cos", table_shape)),
                       sin = numbers<T>(test.input("sin", table_shape));
  const lockstep::RopeTable<T> table(View<const T, 2>::contiguous(cos.data(), {rows, pairs}),
                                     View<const T, 2>::contiguous(sin.data(), {rows, pairs}));
  std::vector<Index> positions(at(batch * tokens));
  if (by_position)
    positions = positions_in(test.input("position_ids", {batch, tokens}), rows);
  else
    for (Index i = 0; i < batch * tokens; ++i) positions[at(i)] = i;

  rotate_as(test, table, token_major(x.data(), layout, batch, tokens, heads, head_dim),
            [&](Index b, Index token) { return positions[at(b * tokens + token)]; });
  report.compare(test, "y", x);
}

template <class T>
void run_freqs(const Case& test, Report& report) {
  const Tensor& given = test.input("positions");
  if (given.shape.size() != 1) throw BadCase("positions: given " + to_text(given.shape) + ", allowed [tokens]");
  const std::vector<Index> positions = positions_in(given, Index{1} << 31);
  const Index tokens = static_cast<Index>(positions.size()), head_dim = test.integer("head_dim");
  Index last = 0;
  for (const Index position : positions) last = std::max(last, position);
  const lockstep::RopeTable<T> table = rope_table<T>(
      test, {.rotary_dim = test.integer("rope.dim"), .base = test.number("rope.base"), .positions = last + 1});
  const auto pairs = at(table.rotary_dim() / 2);

  std::vector<T> frequencies, cos, sin;
  for (const double frequency : table.inverse_frequencies()) frequencies.push_back(static_cast<T>(frequency));
  for (const Index position : positions) {
    cos.insert(cos.end(), table.cos(position), table.cos(position) + pairs);
    sin.insert(sin.end(), table.sin(position), table.sin(position) + pairs);
  }
  std::vector<T> x = numbers<T>(test.input("x", {tokens, head_dim}));
  rotate_as(test, table, View<T, 4>::contiguous(x.data(), {1, tokens, 1, head_dim}),
            [&](Index, Index token) { return positions[at(token)]; });

  report.compare(test, "inv_freq", frequencies);
  report.compare(test, "attention_factor", std::vector<T>{static_cast<T>(table.magnitude())});
  report.compare(test, "cos", cos);
  report.compare(test, "sin", sin);
  report.compare(test, "y", x);
}

std::string no_limits(const Case&) { return {}; }

}  // namespace

const Operation rope_apply{"rope_apply", no_limits, run_apply<float>, run_apply<double>};
const Operation rope_freqs{"rope_freqs", unsupported_rope, run_freqs<float>, run_freqs<double>};

}  // namespace cases
