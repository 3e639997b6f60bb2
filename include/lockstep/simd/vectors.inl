// What the sets of vector instructions have in common, in the compilers' own vector types, whose operators are single
// instructions: whole-vector arithmetic, comparisons, selections and shuffles. Included once for each such set, which
// adds the rest. See simd/portable.inl for what each operation means.

struct Set {};

template <class C>
struct Simd;

/// Registers of Width numbers.
template <class C, Index Width>
struct Vectors {
  using K = ExpConstants<C>;
  using Int = std::make_signed_t<typename K::Bits>;
  using Reg [[gnu::vector_size(Width * sizeof(C))]] = C;
  using Ints [[gnu::vector_size(Width * sizeof(C))]] = Int;
  static constexpr Index width = Width;

  static Reg zero() noexcept { return Reg{}; }
  static Reg broadcast(C x) noexcept { return x - Reg{}; }
  static Reg load(const C* p) noexcept { return *reinterpret_cast<const RegInMemory*>(p); }
  static void store(C* p, Reg x) noexcept { *reinterpret_cast<RegInMemory*>(p) = x; }
  static Reg mul(Reg a, Reg b) noexcept { return opaque(a * b); }
  static Reg add(Reg a, Reg b) noexcept { return opaque(a + b); }
  static Reg sub(Reg a, Reg b) noexcept { return opaque(a - b); }
  static Reg div(Reg a, Reg b) noexcept { return opaque(a / opaque(b)); }
  static Reg larger(Reg a, Reg b) noexcept { return b > a ? b : a; }
  static Reg scale_by_power(Reg p, Reg n) noexcept {
    // The sum of an integer and the shift holds it in the low bits, the only ones that are left of it as an exponent.
    const Reg shifted = add(n, broadcast(K::integer_shift + K::exponent_bias));
    const Reg power = reinterpret_cast<Reg>(reinterpret_cast<Ints>(shifted) << K::mantissa_bits);
    return n < broadcast(K::least_exponent) ? zero() : mul(p, power);
  }
  static Reg canonical(Reg x) noexcept {
    return x == x ? x : broadcast(lockstep::canonical(std::numeric_limits<C>::quiet_NaN()));
  }
  static Reg zero_unless_nan(Reg x) noexcept { return x == x ? zero() : x; }
  static Reg with_sign_of(Reg x, Reg sign) noexcept {
    const Ints bit = std::numeric_limits<Int>::min() - Ints{};
    return reinterpret_cast<Reg>((reinterpret_cast<Ints>(x) & ~bit) | (reinterpret_cast<Ints>(sign) & bit));
  }
  template <class V>
  static V opaque(V x) noexcept {
#if defined(__x86_64__)
    asm("" : "+v"(x));
#else
    asm("" : "+w"(x));
#endif
    return x;
  }
  static C fold_larger(Reg x) noexcept {
    return folded(x, [](auto a, auto b) { return b > a ? b : a; });
  }
  template <std::size_t Count>
  static C fold_sum(const Reg (&x)[Count]) noexcept {
    if constexpr (Count == 1) {
      return folded(x[0], [](auto a, auto b) { return opaque(a + b); });
    } else {
      Reg sum[Count / 2];
      for (std::size_t i = 0; i < Count / 2; ++i) sum[i] = add(x[i], x[i + Count / 2]);
      return fold_sum(sum);
    }
  }

  static void load_pair(const Eigen::bfloat16* p, Reg& first, Reg& second) noexcept {
    const Ints both = load_ints(p);
    first = reinterpret_cast<Reg>(both << 16);
    second = reinterpret_cast<Reg>(both & static_cast<Int>(0xffff0000u));
  }

 protected:
  static Ints load_ints(const void* p) noexcept { return *static_cast<const IntsInMemory*>(p); }

 private:
  using RegInMemory [[gnu::vector_size(Width * sizeof(C)), gnu::aligned(1), gnu::may_alias]] = C;
  using IntsInMemory [[gnu::vector_size(Width * sizeof(C)), gnu::aligned(1), gnu::may_alias]] = Int;

  /// Lanes i and i + half join, then half as many, until one is left.
  template <class V, class Join>
  static C folded(V x, Join join) noexcept {
    constexpr Index half = sizeof(V) / sizeof(C) / 2;
    if constexpr (sizeof(V) > 16)  // halves as registers of their own: a shuffle within a wide one costs more
      return [&]<Index... I>(std::integer_sequence<Index, I...>) {
        return folded(join(__builtin_shufflevector(x, x, I...), __builtin_shufflevector(x, x, (I + half)...)), join);
      }(std::make_integer_sequence<Index, half>{});
    else
      return folded_in_place<half>(x, join);
  }
  template <Index Half, class V, class Join>
  static C folded_in_place(V x, Join join) noexcept {
    constexpr auto all = static_cast<Index>(sizeof(V) / sizeof(C));
    x = [&]<Index... I>(std::integer_sequence<Index, I...>) {
      return join(x, __builtin_shufflevector(x, x, (I ^ Half)...));
    }(std::make_integer_sequence<Index, all>{});
    if constexpr (Half == 1)
      return x[0];
    else
      return folded_in_place<Half / 2>(x, join);
  }
};
