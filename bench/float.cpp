// Benchmarks of float; also on Eigen's thread pool.
#include "families.hpp"
#include "lockstep/executor/thread_pool.hpp"

namespace bench {

void add_float(const Suite& suite) {
  add_element_type<float>(suite);
  for (const Index n : suite.threads()) {
    const Variant v{.kernel = std::string("Tiled, ") + ls::name_of(ls::instruction_set()),
                    .suffix = "/executor:pool/threads:" + std::to_string(n),
                    .settings = {.wall_clock = true}};
    add_attention<float, ls::Tiled, ls::ThreadPool>(suite, v, [n] { return ls::ThreadPool(thread_pool(n)); });
  }
  // Positions are policies of the layer: what rotation costs, over a layer without.
  const Shape shape = suite.layers(Speed::fast).front();
  const auto position = [&]<class Position>(const char* name, Position) {
    suite.add(std::string("Policy<float, Tiled, ") + name + ">" + chunk_name(shape), [=]() -> std::unique_ptr<Work> {
      struct Rotated : LayerWork<float, ls::Tiled, Position> {
        explicit Rotated(const Shape& s) : LayerWork<float, ls::Tiled, Position>(s, {}), plain(s, {}) {}
        Work* without() override { return &plain; }
        LayerWork<float, ls::Tiled, ls::NoPosition> plain;
      };
      return std::make_unique<Rotated>(shape);
    });
  };
  position("Rope<HalfSplit>", ls::Rope<ls::HalfSplit>{});
  position("Rope<Interleaved>", ls::Rope<ls::Interleaved>{});
}

}  // namespace bench
