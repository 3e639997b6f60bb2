// What every part agrees on: index type, platform, numerics version, errors and floating-point environment.
#pragma once

#include <array>
#include <atomic>
#include <cfenv>
#include <cfloat>
#include <cinttypes>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <type_traits>
#if defined(__cpp_exceptions)
#include <stdexcept>
#endif
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error \
    "lockstep: finite-math modes (-ffast-math, -Ofast, -ffinite-math-only) are refused: minus infinity and NaN are part of the numerics contract"
#endif
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "lockstep: big-endian platforms are not supported: stored caches and packed half formats are little-endian"
#endif
#if FLT_RADIX != 2 || FLT_MANT_DIG != 24 || FLT_MAX_EXP != 128 || DBL_MANT_DIG != 53 || DBL_MAX_EXP != 1024
#error "lockstep: float and double must be IEEE 754 binary32 and binary64: results are defined by their roundings"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error \
    "lockstep: FLT_EVAL_METHOD must be 0 (on 32-bit x86 use -msse2 -mfpmath=sse): wider intermediate results would change bits"
#endif

// After the refusals above, which would otherwise wait for the heaviest header.
#include <Eigen/Core>

/// Causal attention on the CPU, the same bits every time.
namespace lockstep {

/// Places, positions, lengths and strides: signed 64 bits everywhere, so that a product of two of them cannot wrap at
/// 2^31.
using Index = std::int64_t;

namespace detail {
/// What heads, head sizes and lists of numbers may be at most: a product of two of them stays within 63 bits.
inline constexpr Index size_limit = Index{1} << 31;
}  // namespace detail

/// Marks a number of heads that is known at run time only.
inline constexpr int Dynamic = -1;

/// The number of the numerics contract: equal numbers mean equal bits, across releases and machines.
inline constexpr int numerics_version = 1;

/// Keys per block: the unit in which a row's running maximum is updated. Part of the contract.
inline constexpr Index block_keys = 256;
/// Keys per split: each split has a softmax state of its own, folded in place order. Part of the contract.
inline constexpr Index split_keys = 1024;
/// The lane of a key is its place modulo this number; a block's weights are summed lane by lane. Part of the contract.
inline constexpr Index lanes = 16;
/// Inner products of projections are chains of this length, added in order. Part of the contract.
inline constexpr Index projection_block = 256;

/// An element type of inputs, weights and results: float, double, Eigen::half or Eigen::bfloat16.
template <class T>
concept Element = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Eigen::half> ||
                  std::is_same_v<T, Eigen::bfloat16>;

/// What a cache may store: an element type, or std::int8_t, codes with a scale for each token and kv head
/// (numeric/half.hpp).
template <class T>
concept CacheElement = Element<T> || std::is_same_v<T, std::int8_t>;

/// Whether a cache that stores S holds codes.
template <class S>
inline constexpr bool is_quantised = std::is_same_v<S, std::int8_t>;

/// The type in which an element type is computed: double for double, float for the others.
template <CacheElement T>
using compute_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// a / b rounded up, for b >= 1 and every a: nothing is added that might overflow.
constexpr Index ceil_div(Index a, Index b) noexcept { return a / b + (a % b > 0 ? 1 : 0); }
/// The least multiple of b from a on.
constexpr Index round_up(Index a, Index b) noexcept { return ceil_div(a, b) * b; }

/// What kind of error a check found.
enum class StatusCode { ok, invalid_argument, length_error };

namespace detail {

/// Writes an error's text, as far as there is room.
class TextWriter {
 public:
  explicit TextWriter(std::span<char> room) noexcept : room_(room) {}

  void write(const char* name) noexcept { wrote(std::snprintf(room_.data(), room_.size(), "%s", name)); }
  void write(std::floating_point auto number) noexcept {
    wrote(std::snprintf(room_.data(), room_.size(), "%g", static_cast<double>(number)));
  }
  void write(std::integral auto number) noexcept {
    constexpr bool above_0 = std::unsigned_integral<decltype(number)>;
    wrote(std::snprintf(room_.data(), room_.size(), above_0 ? "%" PRIu64 : "%" PRId64, static_cast<Index>(number)));
  }
  /// As "[3, 7]".
  void write(std::span<const Index> shape) noexcept {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      write(i == 0 ? "[" : ", ");
      write(shape[i]);
    }
    write("]");
  }
  /// What stands before the next {}; returns what stands after it.
  const char* write_to_place(const char* text) noexcept {
    const int length = static_cast<int>(std::strcspn(text, "{"));
    wrote(std::snprintf(room_.data(), room_.size(), "%.*s", length, text));
    return text + length + 2;
  }

 private:
  void wrote(int length) noexcept {
    const auto n = static_cast<std::size_t>(length);
    room_ = room_.subspan(n < room_.size() ? n : room_.size() - 1);
  }
  std::span<char> room_;
};

void an_error_text_needs_as_many_places_as_values();  // what a compiler names if it has not

/// The text of an error, in which {} marks the places of so many values.
template <std::size_t Values>
struct ErrorText {
  const char* text;
  consteval ErrorText(const char* text_) : text(text_) {
    std::size_t places = 0;
    // A brace that opens anything else fits no number of values.
    for (const char* c = text; *c != '\0'; ++c)
      if (*c == '{') places += c[1] == '}' ? 1 : Values + 1;
    if (places != Values) an_error_text_needs_as_many_places_as_values();
  }
};

}  // namespace detail

/// The outcome of a check: ok, or an error that names the argument, what was given and what is allowed.
/// Trivially copyable; the text lives inside, so that checking never allocates and never throws.
class [[nodiscard]] Status {
 public:
  Status() noexcept { text_[0] = '\0'; }
  bool ok() const noexcept { return code_ == StatusCode::ok; }   ///< nothing is wrong
  StatusCode code() const noexcept { return code_; }             ///< which exception raise() throws
  const char* message() const noexcept { return text_.data(); }  ///< empty where ok; lives as long as the status

  /// `argument` is refused; `text` says what was given and what is allowed, with a {} for each of the values: integers,
  /// float and double, C strings and extents of views, and no other brace. What is beyond 239 characters is cut.
  template <class... Values>
  static Status invalid(const char* argument, detail::ErrorText<sizeof...(Values)> text,
                        const Values&... values) noexcept {
    return Status(StatusCode::invalid_argument, argument, text.text, values...);
  }
  /// The same for a length or capacity that is exceeded.
  template <class... Values>
  static Status length(const char* argument, detail::ErrorText<sizeof...(Values)> text,
                       const Values&... values) noexcept {
    return Status(StatusCode::length_error, argument, text.text, values...);
  }

 private:
  // Out of the way of checks that find nothing.
  template <class... Values>
  [[gnu::cold, gnu::noinline]] Status(StatusCode code, const char* argument, const char* text,
                                      const Values&... values) noexcept
      : code_(code) {
    detail::TextWriter writer(text_);
    for (const char* part : {"lockstep: ", argument, ": "}) writer.write(part);
    ((text = writer.write_to_place(text), writer.write(values)), ...);
    writer.write(text);
  }

  StatusCode code_ = StatusCode::ok;
  std::array<char, 240> text_;  // up to its 0: clearing all of it was half of what the 20 checks of a call cost
};

/// The first of some outcomes, in their order, that is not ok.
template <class... Statuses>
Status first_error(const Statuses&... statuses) noexcept {
  for (const Status* status : {&statuses...})
    if (!status->ok()) return *status;
  return {};
}

/// Called with the error in builds without exceptions; may jump away or end the process. If it returns, std::abort
/// follows.
using ErrorHandler = void (*)(const Status&);

namespace detail {
inline std::atomic<ErrorHandler> error_handler{nullptr};
}

/// Sets the handler of builds without exceptions and returns the one before. The default prints the message to stderr.
/// A shared library that is built with hidden visibility has a handler of its own. What is linked together is built one
/// way, all with exceptions or all without.
inline ErrorHandler set_error_handler(ErrorHandler handler) noexcept { return detail::error_handler.exchange(handler); }

#if defined(__cpp_exceptions)
inline namespace throwing {
/// Throws std::length_error or std::invalid_argument with the status' message.
[[noreturn]] inline void raise(const Status& status) {
  if (status.code() == StatusCode::length_error) throw std::length_error(status.message());
  throw std::invalid_argument(status.message());
}
}  // namespace throwing
#else
inline namespace calling {
/// Calls the error handler, then aborts: this build has no exceptions.
[[noreturn]] inline void raise(const Status& status) {
  if (const ErrorHandler handler = detail::error_handler.load())
    handler(status);
  else
    std::fprintf(stderr, "%s\n", status.message());
  std::abort();
}
}  // namespace calling
#endif

/// Raises unless the status is ok.
inline void raise_unless_ok(const Status& status) {
  if (!status.ok()) raise(status);
}

/// Puts the thread into the default floating-point environment (nearest even, denormals kept, no traps) and restores
/// the caller's on destruction. Costs about 6 ns.
class FloatEnvironment {
#if defined(__SSE__)
  unsigned saved_ = _mm_getcsr();

 public:
  FloatEnvironment() noexcept { _mm_setcsr(0x1F80); }
  ~FloatEnvironment() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  std::uint64_t saved_;
  static void set(std::uint64_t fpcr) noexcept { __asm__ volatile("msr fpcr, %0" : : "r"(fpcr) : "memory"); }

 public:
  FloatEnvironment() noexcept {
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved_));
    set(0);
  }
  ~FloatEnvironment() { set(saved_); }
#else
  std::fenv_t saved_;

 public:
  FloatEnvironment() noexcept {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&saved_); }
#endif
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
};

}  // namespace lockstep
