// Any file as a checkpoint: refused, or read in full and nothing beside it.
#include <cstring>

#include "examples/temporary_file.hpp"
#include "fuzz.hpp"
#include "llama2c/checkpoint.hpp"

namespace {

/// The floats that a header asks for, or -1 where it is impossible.
std::int64_t floats_of(const std::string& file) {
  if (file.size() < 28) return -1;
  std::int32_t n[7];
  std::memcpy(n, file.data(), sizeof n);
  const std::int64_t dim = n[0], hidden = n[1], layers = n[2], heads = n[3], kv_heads = n[4], positions = n[6];
  const std::int64_t vocab = n[5] < 0 ? -std::int64_t{n[5]} : n[5];
  if (dim < 2 || dim > 65536 || hidden < 1 || hidden > 262144 || layers < 1 || layers > 1024 || heads < 1 ||
      kv_heads < 1 || heads % kv_heads != 0 || dim % (2 * heads) != 0 || vocab < 1 || vocab > 1048576 ||
      positions < 1 || positions > 1048576)
    return -1;
  const std::int64_t kv_dim = dim / heads * kv_heads;
  return (n[5] < 0 ? 2 : 1) * vocab * dim + layers * (2 * dim + 2 * dim * dim + 2 * kv_dim * dim + 3 * hidden * dim) +
         dim + positions * (dim / heads);
}

}  // namespace

void fuzz::target(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  // What the header asks for is there now and then: a long file costs one bit of the input.
  const bool filled = in.one_in(2);
  std::string file = in.rest();
  const std::int64_t floats = floats_of(file);
  if (filled && floats >= 0 && floats < 20000) file.resize(28 + 4 * static_cast<std::size_t>(floats), '\x3e');
  const bool good = floats >= 0 && file.size() == 28 + 4 * static_cast<std::size_t>(floats);
  const examples_test::TemporaryFile on_disk(examples_test::Bytes().add_text(file));
  bool taken = true;
  double sum = 0;
  try {
    const llama2c::Checkpoint checkpoint(on_disk.path());
    const auto add = [&sum](const auto& numbers) { sum += static_cast<double>(numbers.sum()); };
    add(checkpoint.embedding());
    add(checkpoint.classifier());
    add(checkpoint.final_norm());
    for (std::int64_t i = 0; i < checkpoint.config().layers; ++i) {
      const auto layer = checkpoint.layer(i);
      for (const auto& matrix : {layer.query, layer.key, layer.value, layer.output, layer.gate, layer.down, layer.up})
        add(matrix);
      add(layer.attention_norm);
      add(layer.feed_forward_norm);
    }
  } catch (const std::runtime_error& error) {
    note(error.what());
    taken = false;
  }
  require(taken == good, good ? "a whole checkpoint is taken" : "a checkpoint of another size is refused");
}
