// Vector operations in plain C++: what the other sets' operations mean, lane by lane.

/// Stands first in each function by which a set's code is entered, and leaves the registers clean behind it. On x86 the
/// upper halves are cleared: while they hold anything, the caller's SSE instructions run up to tens of times slower
/// (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Mixing AVX code with SSE code"). g++ sees to that
/// itself from -O2 on only, and not under -Os.
struct VectorScope {
  ~VectorScope() {}
};

/// A tag by which the functions of this set are found; see with_set().
struct Set {};

template <class C>
struct Simd {
  static constexpr Index width = lanes;        // a whole line, in loops that a compiler may vectorise
  static constexpr Index rows = 1, lines = 1;  // rows and 16-lane lines of a register tile
  static constexpr Index decode_rows = 1;      // rows of the tile for few rows
  struct Reg {
    C lane[width];
  };

  template <class F>
  static Reg each(F f) noexcept {
    Reg x;
    for (Index i = 0; i < width; ++i) x.lane[i] = f(i);
    return x;
  }
  static Reg zero() noexcept { return broadcast(0); }
  static Reg broadcast(C x) noexcept {
    return each([=](Index) { return x; });
  }
  static Reg load(const C* p) noexcept {
    return each([=](Index i) { return p[i]; });
  }
  static void store(C* p, Reg x) noexcept {
    for (Index i = 0; i < width; ++i) p[i] = x.lane[i];
  }
  /// a b + c with one rounding.
  static Reg fma(Reg a, Reg b, Reg c) noexcept {
    return each([&](Index i) { return lockstep::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  /// a b - c with one rounding.
  static Reg fms(Reg a, Reg b, Reg c) noexcept {
    return each([&](Index i) { return lockstep::fma(a.lane[i], b.lane[i], -c.lane[i]); });
  }
  static Reg mul(Reg a, Reg b) noexcept {
    return each([&](Index i) { return rounded(a.lane[i] * b.lane[i]); });
  }
  static Reg add(Reg a, Reg b) noexcept {
    return each([&](Index i) { return rounded(a.lane[i] + b.lane[i]); });
  }
  static Reg sub(Reg a, Reg b) noexcept {
    return each([&](Index i) { return rounded(a.lane[i] - b.lane[i]); });
  }
  static Reg div(Reg a, Reg b) noexcept {
    return each([&](Index i) { return quotient(a.lane[i], b.lane[i]); });
  }
  /// b > a ? b : a, so that a NaN in b is passed over.
  static Reg larger(Reg a, Reg b) noexcept {
    return each([&](Index i) { return SoftmaxState<C>::larger(a.lane[i], b.lane[i]); });
  }
  /// To the nearest integer, ties to even.
  static Reg round(Reg x) noexcept {
    return each([&](Index i) { return static_cast<C>(__builtin_rint(static_cast<double>(x.lane[i]))); });
  }
  /// n < least exponent ? +0 : p 2^n, exact, for integers n <= 0; NaN stays NaN.
  static Reg scale_by_power(Reg p, Reg n) noexcept {
    using K = ExpConstants<C>;
    return each([&](Index i) {
      if (n.lane[i] < K::least_exponent) return C(0);
      if (n.lane[i] != n.lane[i]) return n.lane[i];
      const auto biased = static_cast<typename K::Bits>(static_cast<std::int64_t>(n.lane[i]) + K::exponent_bias);
      return rounded(p.lane[i] * std::bit_cast<C>(biased << K::mantissa_bits));
    });
  }
  /// Any NaN becomes the positive quiet one without payload.
  static Reg canonical(Reg x) noexcept {
    return each([&](Index i) { return lockstep::canonical(x.lane[i]); });
  }
  /// +0 for every number, NaN for NaN.
  static Reg zero_unless_nan(Reg x) noexcept {
    return each([&](Index i) { return x.lane[i] == x.lane[i] ? C(0) : x.lane[i]; });
  }
  /// |x| with the sign of another number.
  static Reg with_sign_of(Reg x, Reg sign) noexcept {
    using Bits = typename ExpConstants<C>::Bits;
    constexpr Bits bit = Bits{1} << (sizeof(C) * 8 - 1);
    return each([&](Index i) {
      return std::bit_cast<C>((std::bit_cast<Bits>(x.lane[i]) & ~bit) | (std::bit_cast<Bits>(sign.lane[i]) & bit));
    });
  }
  /// Hides from the compiler how x came about.
  static Reg opaque(Reg x) noexcept { return x; }
  /// The largest lane; none is NaN.
  static C fold_larger(Reg x) noexcept {
    C most = x.lane[0];
    for (Index i = 1; i < width; ++i) most = SoftmaxState<C>::larger(most, x.lane[i]);
    return most;
  }
  /// The sum of 16 lanes: (i, i+8), (i, i+4), (i, i+2), (i, i+1).
  static C fold_sum(const Reg (&x)[lanes / width]) noexcept {
    C sum[lanes];
    for (Index i = 0; i < lanes; ++i) sum[i] = x[i / width].lane[i % width];
    for (Index half = lanes / 2; half >= 1; half /= 2)
      for (Index i = 0; i < half; ++i) sum[i] = rounded(sum[i] + sum[i + half]);
    return sum[0];
  }
  /// 2 width numbers of 16 bits, of which the even ones belong to one step of the reduction and the odd ones to the
  /// next.
  template <class S>
  static void load_pair(const S* p, Reg& first, Reg& second) noexcept {
    first = each([=](Index i) { return widen(p[2 * i]); });
    second = each([=](Index i) { return widen(p[2 * i + 1]); });
  }
  /// As many codes of 8 bits.
  static Reg load(const std::int8_t* p) noexcept {
    return each([=](Index i) { return static_cast<C>(p[i]); });
  }
};
