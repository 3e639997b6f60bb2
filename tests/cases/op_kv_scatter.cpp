// kv_scatter: rows written into a cache at given places, straight on or around the end.
#include <lockstep/cache/contiguous.hpp>

#include "operations.hpp"
#include "tensors.hpp"

namespace cases {
namespace {

using lockstep::View;

/// [.., tokens, dim] as [batch, heads, tokens, dim]; rank 3 has one head.
std::array<Index, 4> with_heads(const std::vector<Index>& shape, const char* name) {
  if (shape.size() == 4) return {shape[0], shape[1], shape[2], shape[3]};
  if (shape.size() == 3) return {shape[0], 1, shape[1], shape[2]};
  throw BadCase(std::string(name) + ": given " + to_text(shape) +
                ", allowed [batch, heads, tokens, dim] or without heads");
}

template <class T>
void run(const Case& test, Report& report) {
  const std::string& mode = test.text("mode");
  if (mode != "linear" && mode != "circular") throw BadCase("mode: given " + mode + ", allowed linear, circular");
  const Tensor &past = test.input("past_cache"), &update = test.input("update");
  const std::array<Index, 4> shape = with_heads(past.shape, "past_cache"),
                             rows_given = with_heads(update.shape, "update");
  const Index batch = shape[0], heads = shape[1], length = shape[2], dim = shape[3], tokens = rows_given[2];
  if (rows_given != std::array<Index, 4>{batch, heads, tokens, dim})
    throw BadCase("update: given " + to_text(update.shape) + " for a cache of " + to_text(past.shape));
  // Without indices every sequence is written from its start.
  const std::vector<double> indices =
      test.has_input("write_indices") ? test.input("write_indices", {batch}).values : std::vector<double>(at(batch));
  const std::vector<T> held = numbers<T>(past), written = numbers<T>(update);

  // What holds for keys holds for values: both are the case's tensor.
  std::vector<T> keys(held.size()), values(held.size());
  for (Index b = 0; b < batch; ++b) {
    const Index first = static_cast<Index>(indices[at(b)]);
    const auto of_sequence = [&](auto* memory) {
      return View<std::remove_reference_t<decltype(*memory)>, 3>::contiguous(memory + b * heads * length * dim,
                                                                             {heads, length, dim});
    };
    lockstep::ContiguousCache<T> cache({heads, dim, dim}, length);
    cache.import(of_sequence(held.data()), of_sequence(held.data()));
    const View<const T, 3> rows =
        swapped(View<const T, 3>::contiguous(written.data() + b * heads * tokens * dim, {heads, tokens, dim}), 0, 1);
    if (mode == "linear")
      cache.write(first, rows, rows);
    else
      cache.write_circular(first, rows, rows);
    cache.export_keys(of_sequence(keys.data()));
    cache.export_values(of_sequence(values.data()));
  }
  report.compare(test, "present_cache", keys);
  report.require_same_bits("keys and values", keys, values);
}

}  // namespace

const Operation kv_scatter{
    "kv_scatter",
    [](const Case&) { return std::string(); },
    run<float>,
    run<double>,
};

}  // namespace cases
