// A layer of grouped-query attention with weights from .npy files, its output into another.
//
//     numpy.save("wq.npy", wq)  # all float32; [heads head_dim, hidden], used as x @ wq.T
//     numpy.save("wk.npy", wk)  # [kv_heads head_dim, hidden], and so wv
//     numpy.save("wo.npy", wo)  # [hidden, heads head_dim]
//     numpy.save("x.npy", x)    # [tokens, hidden]
//
//     gqa_from_numpy FOLDER HEADS KV_HEADS [ROPE_BASE]  # writes FOLDER/y.npy [tokens, hidden]
//
// The rotation is the half-split one, as Hugging Face's llama has it; its base is 10000 unless given.
#include <charconv>
#include <exception>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "lockstep/lockstep.hpp"
#include "npy/npy.hpp"

namespace {

namespace ls = lockstep;
// Head numbers that are known at run time only; where they are known earlier, Attention<float, 8, 2, ...> has the same
// bits.
using Layer = ls::Attention<float, ls::Dynamic, ls::Dynamic, ls::Rope<ls::HalfSplit>, ls::Causal>;

template <class Number>
Number parse(const char* name, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0))
    throw std::runtime_error(std::string(name) + ": found '" + std::string(text) + "', allowed numbers above 0");
  return value;
}

int run(const std::filesystem::path& folder, ls::Index heads, ls::Index kv_heads, double base) {
  const npy::Matrix wq = npy::read(folder / "wq.npy"), wk = npy::read(folder / "wk.npy"),
                    wv = npy::read(folder / "wv.npy"), wo = npy::read(folder / "wo.npy"),
                    x = npy::read(folder / "x.npy");
  const ls::Index head_dim = wq.rows() / heads, tokens = x.rows();
  const ls::RopeTable rope{ls::RopeConfig{.rotary_dim = head_dim, .base = base, .positions = tokens}};
  // Shapes that do not fit are refused here, by a sentence that names the matrix, what it has and what is allowed.
  const Layer layer{{.hidden = wq.cols(), .head_dim = head_dim, .heads = heads, .kv_heads = kv_heads},
                    {.query = wq, .key = wk, .value = wv, .output = wo},
                    rope};
  npy::Matrix y(tokens, layer.hidden());
  layer.forward(x, y);
  npy::write(folder / "y.npy", y);
  std::cout << layer << '\n' << tokens << " tokens written to " << (folder / "y.npy").string() << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::cerr << "usage: gqa_from_numpy FOLDER HEADS KV_HEADS [ROPE_BASE]\n"
                 "reads wq, wk, wv, wo and x.npy (float32, weights [out, in]) from FOLDER and writes y.npy there\n";
    return 2;
  }
  try {
    return run(argv[1], parse<ls::Index>("HEADS", argv[2]), parse<ls::Index>("KV_HEADS", argv[3]),
               argc == 5 ? parse<double>("ROPE_BASE", argv[4]) : 1e4);
  } catch (const std::exception& error) {
    std::cerr << "gqa_from_numpy: " << error.what() << '\n';
    return 2;
  }
}
