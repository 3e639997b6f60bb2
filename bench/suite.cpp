// lockstep_bench: registers the benchmarks and runs those that are asked for.
#include "suite.hpp"

#include <benchmark/benchmark.h>

#include <cstring>
#include <iostream>
#include <map>
#include <thread>

#include "gauge.hpp"
#include "openblas.hpp"
#include "peers.hpp"

namespace bench {

namespace {

struct Heads {
  Index heads, kv_heads, head_dim;
};
// Llama 3 8B; without sharing; one kv head; Qwen2 0.5B.
constexpr Heads usual_heads{32, 8, 128};
constexpr Heads other_heads[] = {{32, 32, 128}, {8, 1, 128}, {14, 2, 64}};
constexpr Index other_head_dims[] = {64, 80, 256};

Shape shape_of(const Heads& h, Index q_len, Index past, Index batch = 1) {
  return {h.heads, h.kv_heads, h.head_dim, q_len, past, batch};
}

/// The usual heads over all lengths, other heads and head sizes at one of them; in `all`, everything with everything.
std::vector<Heads> heads_at(Sizes sizes, bool main_length) {
  if (sizes == Sizes::tiny) return {{4, 2, 64}, {7, 1, 80}};
  std::vector<Heads> heads{usual_heads};
  if (sizes == Sizes::plots) return heads;
  if (sizes == Sizes::usual) {
    if (!main_length) return heads;
    for (const Heads& h : other_heads) heads.push_back(h);
    for (const Index d : other_head_dims) heads.push_back({usual_heads.heads, usual_heads.kv_heads, d});
    return heads;
  }
  heads.clear();
  for (const auto& [q, kv] : {std::pair<Index, Index>{32, 8}, {32, 32}, {8, 1}, {14, 2}})
    for (const Index d : {64, 80, 128, 256}) heads.push_back({q, kv, d});
  return heads;
}

std::vector<Shape> over(Sizes sizes, const std::vector<Index>& lengths, Index main_length,
                        const std::function<Shape(const Heads&, Index)>& shape) {
  std::vector<Shape> shapes;
  for (const Index length : lengths)
    for (const Heads& h : heads_at(sizes, length == main_length)) shapes.push_back(shape(h, length));
  // A whole prompt of 32768 with 32 heads of 256 would take minutes.
  std::erase_if(shapes, [](const Shape& s) {
    constexpr double most_flops = 3e12;
    return 4.0 * static_cast<double>(s.batch * s.heads * s.head_dim * s.q_len) * static_cast<double>(s.kv_len()) >
           most_flops;
  });
  return shapes;
}

std::vector<Index> lengths_for(Sizes sizes, Speed speed, std::vector<Index> usual, std::vector<Index> plotted = {}) {
  if (sizes == Sizes::tiny) return {70};
  if (speed == Speed::slow) return {128};
  if (sizes == Sizes::plots && !plotted.empty()) return plotted;
  return sizes == Sizes::all ? std::vector<Index>{128, 512, 2048, 8192, 32768} : std::move(usual);
}

}  // namespace

std::vector<Shape> Suite::prefill(Speed speed) const {
  return over(sizes_, lengths_for(sizes_, speed, {128, 512, 2048}, {32, 64, 128, 256, 512, 1024, 2048}),
              speed == Speed::fast ? 512 : 0, [](const Heads& h, Index n) { return shape_of(h, n, 0); });
}
std::vector<Shape> Suite::chunk(Speed speed) const {
  const Index q_len = sizes_ == Sizes::tiny ? 19 : speed == Speed::slow ? 32 : 256;
  return over(sizes_, lengths_for(sizes_, speed, {512, 4096}), 0,
              [=](const Heads& h, Index n) { return shape_of(h, q_len, n < q_len ? n : n - q_len); });
}
std::vector<Shape> Suite::decode(Speed speed) const {
  const std::vector<Index> slow{128, 1024};
  if (sizes_ == Sizes::plots && speed == Speed::fast) {
    std::vector<Shape> shapes;
    for (const Index group_size : {1, 4, 8})
      for (const Index n : {128, 512, 2048, 8192, 32768})
        shapes.push_back(shape_of({8 * group_size, 8, 128}, 1, n - 1));
    return shapes;
  }
  return over(
      sizes_,
      speed == Speed::slow && sizes_ != Sizes::tiny ? slow : lengths_for(sizes_, speed, {128, 1024, 8192, 32768}),
      speed == Speed::fast ? 1024 : 0, [](const Heads& h, Index n) { return shape_of(h, 1, n - 1); });
}
std::vector<Shape> Suite::batch_decode(Speed speed) const {
  std::vector<Shape> shapes;
  for (const Index batch :
       sizes_ == Sizes::tiny || speed == Speed::slow ? std::vector<Index>{3} : std::vector<Index>{4, 16})
    for (const Shape& s : over(sizes_, lengths_for(sizes_, speed, {1024}), 0,
                               [=](const Heads& h, Index n) { return shape_of(h, 1, n - 1, batch); }))
      if (s.kv_len() <= 8192) shapes.push_back(s);  // sixteen longer caches would not fit into memory
  return shapes;
}
std::vector<Suite::Product> Suite::products(Speed speed) const {
  if (sizes_ == Sizes::tiny) return {{1, 130, 300}, {5, 130, 300}};
  std::vector<Product> products;
  for (const auto& [out, in] : {std::pair<Index, Index>{1152, 896}, {4096, 4096}})
    for (const Index rows : {1, 2, 8, 64, 512})
      if ((sizes_ == Sizes::all || rows != 2) && (speed == Speed::fast || (rows <= 8 && in < 1024)))
        products.push_back({rows, out, in});
  return products;
}
std::vector<Shape> Suite::layers(Speed speed) const {
  if (sizes_ == Sizes::tiny) return {{4, 2, 32, 40, 0}, {4, 2, 32, 1, 40}};
  std::vector<Shape> shapes;
  // Qwen2 0.5B and, with a hidden size of 4096, Llama 3 8B.
  std::vector<Heads> heads{{14, 2, 64}};
  if (sizes_ == Sizes::all && speed == Speed::fast) heads.push_back(usual_heads);
  for (const Heads& h : heads) {
    for (const Index q_len : speed == Speed::slow ? std::vector<Index>{64} : std::vector<Index>{64, 512, 2048})
      shapes.push_back(shape_of(h, q_len, 0));
    for (const Index past : speed == Speed::slow ? std::vector<Index>{512} : std::vector<Index>{64, 512, 4096})
      shapes.push_back(shape_of(h, 1, past));
  }
  return shapes;
}
std::vector<Index> Suite::threads() const {
  const auto cores = static_cast<Index>(std::thread::hardware_concurrency());
  std::vector<Index> threads{2};
  for (Index n = 4; n <= cores && sizes_ != Sizes::tiny; n *= 2) threads.push_back(n);
  return threads;
}

std::vector<lockstep::InstructionSet> instruction_sets() {
  std::vector<lockstep::InstructionSet> sets;
  for (const auto set : lockstep::all_instruction_sets)
    if (lockstep::cpu_has(set)) sets.push_back(set);
  return sets;
}

SpinningThreads& spinning_threads(Index threads) {
  static std::map<Index, std::unique_ptr<SpinningThreads>> made;
  auto& found = made[threads];
  if (found == nullptr) found = std::make_unique<SpinningThreads>(threads);
  return *found;
}
Eigen::ThreadPoolInterface& thread_pool(Index threads) {
  static std::map<Index, std::unique_ptr<Eigen::ThreadPool>> made;
  auto& found = made[threads];
  if (found == nullptr) found = std::make_unique<Eigen::ThreadPool>(static_cast<int>(threads - 1));
  return *found;
}

std::string name_of_heads(const Shape& s) {
  return "/heads:" + std::to_string(s.heads) + "/kv_heads:" + std::to_string(s.kv_heads) +
         "/head_dim:" + std::to_string(s.head_dim);
}

namespace {

/// The work of the benchmark that runs. Google Benchmark calls a benchmark several times; inputs are made and checked
/// once.
struct Current {
  std::string name;
  std::unique_ptr<Work> work;
  bool right = false;
};
Current& current() {
  static Current c;
  return c;
}

class ForcedSet {
 public:
  explicit ForcedSet(lockstep::InstructionSet set) : before_(lockstep::instruction_set()) {
    lockstep::force_instruction_set(set);
  }
  ~ForcedSet() { lockstep::force_instruction_set(before_); }
  ForcedSet(const ForcedSet&) = delete;
  ForcedSet& operator=(const ForcedSet&) = delete;

 private:
  lockstep::InstructionSet before_;
};

/// Time of the work as a multiple of the time without its policy: the median of runs in turns.
double cost_of_policy(Work& with, Work& without) {
  std::vector<double> ratios;
  for (int i = 0; i < 5; ++i) {
    const double start = now();
    without.run();
    const double middle = now();
    with.run();
    ratios.push_back((now() - middle) / (middle - start));
  }
  return quantile(ratios, 0.5);
}

void run(benchmark::State& state, const std::string& name, const std::function<std::unique_ptr<Work>()>& make,
         lockstep::InstructionSet set) {
  const ForcedSet forced(set);
  Current& c = current();
  if (c.name != name) {
    c.work = nullptr;  // before the next one takes its memory
    c.work = make();
    c.name = name;
    c.work->run();
    c.right = c.work->right();
  }
  if (!c.right) return state.SkipWithError("the result is wrong");
  for (auto _ : state) c.work->run();
  const auto rate = [&](const char* counter, double amount) {
    if (amount > 0) state.counters[counter] = benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
  };
  rate("flops", c.work->flops);
  rate("bytes", c.work->bytes);
  rate("tokens", c.work->tokens);
  if (Work* without = c.work->without()) state.counters["time_over_none"] = cost_of_policy(*c.work, *without);
}

constexpr const char* usage =
    "lockstep_bench [--sizes tiny|usual|plots|all] [options of Google Benchmark]\n"
    "  --sizes tiny   a few small shapes of everything: does it run, is it right?\n"
    "  --sizes usual  (default) one model shape over all lengths, other heads and head sizes at one length\n"
    "  --sizes plots  one model shape over the lengths that bench/plot.py draws\n"
    "  --sizes all    every head number with every head size and length\n"
    "Options of Google Benchmark: --benchmark_filter=REGEX, --benchmark_list_tests, --benchmark_format=json ...\n";

Sizes parse_sizes(const std::string& word) {
  if (word == "tiny") return Sizes::tiny;
  if (word == "usual") return Sizes::usual;
  if (word == "plots") return Sizes::plots;
  if (word == "all") return Sizes::all;
  throw std::invalid_argument("--sizes takes tiny, usual, plots or all, given " + word);
}

}  // namespace

void Suite::add(const std::string& name, std::function<std::unique_ptr<Work>()> make, Settings settings) const {
  auto* registered = benchmark::RegisterBenchmark(
      name.c_str(),
      [name, make = std::move(make), set = settings.set](benchmark::State& state) { run(state, name, make, set); });
  if (settings.wall_clock) registered->UseRealTime();
}

namespace {

int run_program(int count, char** arguments) {
  Sizes sizes = Sizes::usual;
  std::vector<char*> rest;
  for (int i = 0; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--help") {
      std::cout << usage;
      return 0;
    }
    if (argument == "--sizes") {
      if (++i == count) throw std::invalid_argument("--sizes needs a value");
      sizes = parse_sizes(arguments[i]);
    } else if (argument.starts_with("--sizes=")) {
      sizes = parse_sizes(argument.substr(std::strlen("--sizes=")));
    } else {
      rest.push_back(arguments[i]);
    }
  }
  int left = static_cast<int>(rest.size());
  rest.push_back(nullptr);
  benchmark::Initialize(&left, rest.data());
  if (benchmark::ReportUnrecognizedArguments(left, rest.data())) return 1;

  use_one_openblas_thread();
  benchmark::AddCustomContext("instruction set", lockstep::name_of(lockstep::instruction_set()));
  benchmark::AddCustomContext("Eigen", Eigen::SimdInstructionSetsInUse());
  benchmark::AddCustomContext("OpenBLAS kernel", openblas_kernel());
  for (const PeerLibrary& library : peer_libraries())
    benchmark::AddCustomContext(library.name, library.make ? library.version : "none, not found when this was built");
  const Suite suite(sizes);
  for (const auto add :
       {add_float, add_double, add_half, add_bfloat16, add_masks, add_policies, add_baselines, add_peers})
    add(suite);
  benchmark::RunSpecifiedBenchmarks();
  current() = {};
  benchmark::Shutdown();
  return 0;
}

}  // namespace

}  // namespace bench

int main(int count, char** arguments) {
  try {
    return bench::run_program(count, arguments);
  } catch (const std::exception& error) {
    std::cerr << "lockstep_bench: " << error.what() << '\n';
    return 2;
  }
}
