// The benchmarks of lockstep_bench: what one is, the shapes they run over, how they are registered.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <unsupported/Eigen/CXX11/ThreadPool>

#include "lockstep/simd/sets.hpp"
#include "numbers.hpp"
#include "spinning_threads.hpp"

namespace bench {

/// A piece of work whose inputs are ready.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;
  virtual void run() = 0;
  /// Whether the result is right; asked once, before anything is timed.
  virtual bool right() = 0;
  /// The same work without the policy that it is about, where it is about one.
  virtual Work* without() { return nullptr; }

  double flops = 0, bytes = 0, tokens = 0;  ///< of one run
};

/// How much is run: shapes that take seconds in all, the usual ones, those that pictures are drawn from, or every
/// shape.
enum class Sizes { tiny, usual, plots, all };

/// The shape of one benchmark of attention; lengths that a family does not use are 0.
struct Shape {
  Index heads, kv_heads, head_dim;
  Index q_len = 1;
  Index past = 0;
  Index batch = 1;
  Index kv_len() const noexcept { return past + q_len; }
};

/// What computes: fast code, or code that only small shapes suit.
enum class Speed { fast, slow };

class Suite {
 public:
  explicit Suite(Sizes sizes) : sizes_(sizes) {}

  Sizes sizes() const noexcept { return sizes_; }
  std::vector<Shape> prefill(Speed speed) const;
  std::vector<Shape> chunk(Speed speed) const;
  std::vector<Shape> decode(Speed speed) const;
  std::vector<Shape> batch_decode(Speed speed) const;
  /// Shapes [rows, out, in] of projections, as q_len, heads, head_dim.
  struct Product {
    Index rows, out, in;
  };
  std::vector<Product> products(Speed speed) const;
  /// Shapes of layers whose hidden size is heads * head_dim.
  std::vector<Shape> layers(Speed speed) const;
  /// Numbers of threads beside one.
  std::vector<Index> threads() const;

  struct Settings {
    lockstep::InstructionSet set = lockstep::instruction_set();
    bool wall_clock = false;  ///< work on several threads
  };
  /// Registers a benchmark. `make` is called when its turn comes.
  void add(const std::string& name, std::function<std::unique_ptr<Work>()> make, Settings settings) const;
  void add(const std::string& name, std::function<std::unique_ptr<Work>()> make) const {
    add(name, std::move(make), Settings{});
  }

 private:
  Sizes sizes_;
};

/// The sets that this CPU has.
std::vector<lockstep::InstructionSet> instruction_sets();
inline Speed speed_of(lockstep::InstructionSet set) {
  return set == lockstep::InstructionSet::portable ? Speed::slow : Speed::fast;
}

/// Threads that live as long as the program, made when first asked for.
SpinningThreads& spinning_threads(Index threads);
/// A pool with which the caller makes this many threads.
Eigen::ThreadPoolInterface& thread_pool(Index threads);

/// "/heads:32/kv_heads:8/head_dim:128" and what else a shape has.
std::string name_of_heads(const Shape& shape);
inline std::string prefill_name(const Shape& s) { return name_of_heads(s) + "/q_len:" + std::to_string(s.q_len); }
inline std::string chunk_name(const Shape& s) { return prefill_name(s) + "/past:" + std::to_string(s.past); }
inline std::string decode_name(const Shape& s) { return name_of_heads(s) + "/kv_len:" + std::to_string(s.kv_len()); }
inline std::string batch_name(const Shape& s) { return "/batch:" + std::to_string(s.batch) + decode_name(s); }
inline std::string product_name(const Suite::Product& p) {
  return "/rows:" + std::to_string(p.rows) + "/out:" + std::to_string(p.out) + "/in:" + std::to_string(p.in);
}

template <class T>
std::string element_name() {
  if constexpr (std::is_same_v<T, float>)
    return "float";
  else if constexpr (std::is_same_v<T, double>)
    return "double";
  else if constexpr (std::is_same_v<T, Eigen::half>)
    return "half";
  else
    return "bfloat16";
}

/// Plain causal attention by kernel Tiled on one thread.
std::unique_ptr<Work> tiled_causal_float(const Shape& shape);

void add_float(const Suite& suite);
void add_double(const Suite& suite);
void add_half(const Suite& suite);
void add_bfloat16(const Suite& suite);
void add_masks(const Suite& suite);
void add_policies(const Suite& suite);
void add_baselines(const Suite& suite);

}  // namespace bench
