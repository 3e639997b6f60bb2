// Built without exceptions and run-time type information: check() returns what a call would have thrown, and the call
// tells the handler, in the floating-point environment of the host. Each refusal in a process of its own, because
// raise() does not return.
#include <lockstep/lockstep.hpp>

#include <Eigen/Core>

#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

namespace ls = lockstep;

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Layer = ls::Attention<float, 2, 1, ls::Rope<ls::HalfSplit>>;
constexpr int exit_refused = 0, exit_said_another = 3, exit_went_on = 4, exit_left_environment = 5;

struct TooFast {
  ls::Status check(const ls::RopeConfig&) const noexcept { return {}; }
  double apply(const ls::RopeConfig&, std::span<double> frequencies) const noexcept {
    frequencies[0] = 1e9;
    return 1;
  }
};

int failures = 0;
const char* expected = "";
ls::StatusCode expected_code = ls::StatusCode::invalid_argument;

/// Whether the host's rounding mode, upward, rules.
bool rounds_upward() {
  const volatile float one = 1, tiny = 1e-10F;
  return one + tiny > 1;
}

/// f must end in the handler, with an error that contains `text`.
template <class F>
void refuses(const char* text, ls::StatusCode code, F&& f) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    expected = text;
    expected_code = code;
    ls::set_error_handler([](const ls::Status& status) {
      const bool same = std::strstr(status.message(), expected) != nullptr && status.code() == expected_code;
      if (!same) std::printf("said '%s', expected '%s'\n", status.message(), expected);
      std::fflush(stdout);
      _exit(!same ? exit_said_another : rounds_upward() ? exit_refused : exit_left_environment);
    });
    std::fesetround(FE_UPWARD);
    f();
    _exit(exit_went_on);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != exit_refused) {
    ++failures;
    std::printf("not refused with '%s' (status %d)\n", text, status);
  }
}

void expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  std::printf("not so: %s\n", what);
}

}  // namespace

int main() {
  constexpr auto invalid = ls::StatusCode::invalid_argument, length = ls::StatusCode::length_error;
  const Matrix query = Matrix::Random(8, 8), key = Matrix::Random(4, 8), value = Matrix::Random(4, 8),
               output = Matrix::Random(8, 8);
  const ls::LayerWeights<float> weights{.query = query, .key = key, .value = value, .output = output};
  const Layer layer{{.hidden = 8, .head_dim = 4}, weights};
  auto cache = layer.make_cache(3);

  const Matrix x = Matrix::Random(4, 8), x3 = x.topRows(3);
  Matrix y(4, 8), y3(3, 8);
  layer.forward(x3, cache, y3);
  expect(cache.length() == 3, "a forward fills the cache");

  // The layer.
  const ls::Status status = layer.check(x, cache, y);
  expect(!status.ok() && status.code() == length, "check() returns the error");
  refuses(status.message(), length, [&] { layer.forward(x, cache, y); });
  refuses("y: given [1, 3, 8]", invalid, [&] { layer.forward(x, y3); });
  refuses("weights.key: ", invalid, [&] {
    Layer({.hidden = 8, .head_dim = 4}, {.query = query, .key = query, .value = value, .output = output});
  });

  // attend().
  const std::array<float, 8> q{};
  std::array<float, 8> out{};
  const auto row = ls::View<const float, 3>::contiguous(q.data(), {1, 2, 4});
  const auto context = ls::View<float, 3>::contiguous(out.data(), {1, 2, 4});
  ls::attend(row, cache, context);
  expect(out != std::array<float, 8>{}, "attend() writes the context");
  refuses("q: given head_dim 2", invalid, [&] {
    ls::attend(ls::View<const float, 3>::contiguous(q.data(), {1, 4, 2}), cache,
               ls::View<float, 3>::contiguous(out.data(), {1, 4, 2}));
  });

  // Caches.
  const ls::CacheShape shape{1, 4, 4};
  const auto rows = ls::View<const float, 3>::contiguous(q.data(), {2, 1, 4});
  refuses("capacity: ", length, [&] { ls::ContiguousCache<float>(shape, -1); });
  refuses("given 2 tokens to append to 3, allowed 3", length, [&] { cache.append(rows, rows); });
  refuses("length: given 4", length, [&] { cache.truncate(4); });
  ls::PagePool<float> pool(shape, 1);
  ls::PagedCache<float> first(pool, 300), second(pool, 300);
  first.append(rows, rows);
  expect(pool.free_pages() == 0 && !second.check_append(2).ok(), "the pool is used up");
  refuses("page", length, [&] { second.append(rows, rows); });

  // Tables, whose numbers are checked while they are made.
  refuses("base: given 0", invalid, [] { ls::RopeTable<float>({.rotary_dim = 4, .base = 0, .positions = 9}); });
  refuses("factor: given 0", invalid,
          [] { ls::RopeTable<float>({.rotary_dim = 4, .positions = 9}, ls::LinearScaling{.factor = 0}); });
  const float one = 1;
  refuses("table: given 16777216 heads", invalid, [&] {
    ls::RelativeBias<float>(ls::RelativeBuckets{}, ls::View<const float, 2>(&one, {32, 1 << 24}, {0, 0}));
  });
  refuses("scaling: given an inverse frequency of 1e+09", invalid,
          [] { ls::RopeTable<float>({.rotary_dim = 4, .positions = 9}, TooFast{}); });

  // Saved caches.
  std::stringstream stream, cut;
  ls::save_cache(cache, stream);
  cut << stream.str().substr(0, stream.str().size() - 1);
  refuses("stream: given one that ends early", invalid, [&] { ls::restore_cache(cache, cut); });
  stream.setstate(std::ios::badbit);
  refuses("stream: given one that fails", invalid, [&] { ls::save_cache(cache, stream); });

  refuses("instruction set: ", invalid, [] {
    for (const ls::InstructionSet set : ls::all_instruction_sets)
      if (!ls::cpu_has(set)) ls::force_instruction_set(set);
  });
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
