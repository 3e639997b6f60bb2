// Work under a policy, beside the same work without it.
#pragma once

#include <memory>

#include "families.hpp"

namespace bench {

/// Attention under `Policies`, next to plain causal attention by the same kernel. `kept` lives as long as the work:
/// flags and other memory that options borrow.
template <class Kernel, class... Policies>
class PolicyWork : public AttendWork<float, Policies..., Kernel, ls::Hook> {
  using Base = AttendWork<float, Policies..., Kernel, ls::Hook>;

 public:
  PolicyWork(const Shape& shape, typename Base::Options options, std::shared_ptr<void> kept = nullptr)
      : Base(shape, std::move(options)), kept_(std::move(kept)), plain_(make_plain(shape)) {}
  Work* without() override { return plain_.get(); }

 private:
  using Plain = AttendWork<float, ls::Causal, Kernel, ls::Hook>;
  // Tiled's plain attention is compiled once, in float.cpp.
  static std::unique_ptr<Work> make_plain(const Shape& shape) {
    if constexpr (std::same_as<Kernel, ls::Tiled>)
      return tiled_causal_float(shape);
    else
      return std::make_unique<Plain>(shape, typename Plain::Options{});
  }
  std::shared_ptr<void> kept_;
  std::unique_ptr<Work> plain_;
};

template <class Kernel, class... Policies>
using PolicyOptions = typename AttendWork<float, Policies..., Kernel, ls::Hook>::Options;

/// A prompt and a chunk after a long past.
inline std::vector<Shape> policy_shapes(const Suite& suite, Speed speed) {
  std::vector<Shape> shapes{suite.prefill(speed).front(), suite.chunk(speed).back()};
  for (const Shape& s : suite.prefill(speed))
    if (s.q_len == 512 && s.heads == 32 && s.kv_heads == 8 && s.head_dim == 128) shapes[0] = s;
  return shapes;
}
inline std::string policy_name(const std::string& kernel, const std::string& policy, const Shape& s) {
  return "Policy<float, " + kernel + ", " + policy + ">" + chunk_name(s);
}

}  // namespace bench
