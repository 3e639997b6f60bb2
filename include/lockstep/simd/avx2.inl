// Vector operations in AVX2, FMA and F16C. See simd/portable.inl for what each means.

struct VectorScope {
  [[gnu::always_inline]] ~VectorScope() { _mm256_zeroupper(); }
};

struct Set {};

template <class C>
struct Simd;

template <>
struct Simd<float> {
  using Reg = __m256;
  static constexpr Index width = 8;
  static constexpr Index rows = 6, lines = 1;  // 12 sums, 2 vectors of a line, 1 broadcast: 15 of 16 registers
  static constexpr Index decode_rows = 4;

  static Reg zero() noexcept { return _mm256_setzero_ps(); }
  static Reg broadcast(float x) noexcept { return _mm256_set1_ps(x); }
  static Reg load(const float* p) noexcept { return _mm256_loadu_ps(p); }
  static void store(float* p, Reg x) noexcept { _mm256_storeu_ps(p, x); }
  static Reg fma(Reg a, Reg b, Reg c) noexcept { return _mm256_fmadd_ps(a, b, c); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return _mm256_fmsub_ps(a, b, c); }
  static Reg mul(Reg a, Reg b) noexcept { return opaque(_mm256_mul_ps(a, b)); }
  static Reg add(Reg a, Reg b) noexcept { return opaque(_mm256_add_ps(a, b)); }
  static Reg sub(Reg a, Reg b) noexcept { return opaque(_mm256_sub_ps(a, b)); }
  static Reg div(Reg a, Reg b) noexcept { return opaque(_mm256_div_ps(a, opaque(b))); }
  static Reg larger(Reg a, Reg b) noexcept { return _mm256_max_ps(b, a); }
  static Reg round(Reg x) noexcept { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Reg scale_by_power(Reg p, Reg n) noexcept {
    const __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_andnot_ps(_mm256_cmp_ps(n, _mm256_set1_ps(ExpConstants<float>::least_exponent), _CMP_LT_OQ),
                            mul(p, _mm256_castsi256_ps(power)));
  }
  static Reg canonical(Reg x) noexcept {
    return _mm256_blendv_ps(x, _mm256_set1_ps(lockstep::canonical(std::numeric_limits<float>::quiet_NaN())),
                            _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  }
  static Reg zero_unless_nan(Reg x) noexcept { return _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)); }
  static Reg with_sign_of(Reg x, Reg sign) noexcept {
    const Reg bit = _mm256_set1_ps(-0.0F);
    return _mm256_or_ps(_mm256_andnot_ps(bit, x), _mm256_and_ps(bit, sign));
  }
  template <class R>
  static R opaque(R x) noexcept {
    asm("" : "+x"(x));
    return x;
  }
  static float fold_larger(Reg x) noexcept {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static float fold_sum(const Reg (&x)[2]) noexcept {
    const __m256 eight = add(x[0], x[1]);
    const __m128 four = opaque(_mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
    const __m128 two = opaque(_mm_add_ps(four, _mm_movehl_ps(four, four)));
    return rounded(_mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1))));
  }

  static void load_pair(const Eigen::bfloat16* p, Reg& first, Reg& second) noexcept {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    first = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    second = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  static void load_pair(const Eigen::half* p, Reg& first, Reg& second) noexcept {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    first = _mm256_cvtph_ps(low_halves(_mm256_and_si256(both, _mm256_set1_epi32(0xffff))));
    second = _mm256_cvtph_ps(low_halves(_mm256_srli_epi32(both, 16)));
  }
  using Codes = __m256i;
  static Codes load_codes(const std::int8_t* p) noexcept {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  template <int Step>
  static Reg step_of(Codes x) noexcept {
    if constexpr (Step < 3) x = _mm256_slli_epi32(x, 24 - 8 * Step);
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(x, 24));
  }
  static Reg load_step(const std::int8_t* p, Index step) noexcept {
    return step_of<3>(_mm256_sll_epi32(load_codes(p), _mm_cvtsi32_si128(static_cast<int>(24 - 8 * step))));
  }

 private:
  // The eight 32-bit numbers, all below 2^16, as eight 16-bit ones.
  static __m128i low_halves(__m256i x) noexcept {
    const __m256i packed = _mm256_packus_epi32(x, x);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
  }
};

template <>
struct Simd<double> {
  using Reg = __m256d;
  static constexpr Index width = 4;
  static constexpr Index rows = 3, lines = 1;  // 12 sums, lines as memory operands
  static constexpr Index decode_rows = 2;

  static Reg zero() noexcept { return _mm256_setzero_pd(); }
  static Reg broadcast(double x) noexcept { return _mm256_set1_pd(x); }
  static Reg load(const double* p) noexcept { return _mm256_loadu_pd(p); }
  static void store(double* p, Reg x) noexcept { _mm256_storeu_pd(p, x); }
  static Reg fma(Reg a, Reg b, Reg c) noexcept { return _mm256_fmadd_pd(a, b, c); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return _mm256_fmsub_pd(a, b, c); }
  static Reg mul(Reg a, Reg b) noexcept { return opaque(_mm256_mul_pd(a, b)); }
  static Reg add(Reg a, Reg b) noexcept { return opaque(_mm256_add_pd(a, b)); }
  static Reg sub(Reg a, Reg b) noexcept { return opaque(_mm256_sub_pd(a, b)); }
  static Reg div(Reg a, Reg b) noexcept { return opaque(_mm256_div_pd(a, opaque(b))); }
  static Reg larger(Reg a, Reg b) noexcept { return _mm256_max_pd(b, a); }
  static Reg round(Reg x) noexcept { return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static Reg scale_by_power(Reg p, Reg n) noexcept {
    const __m256i integer = _mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(n));
    const __m256i power = _mm256_slli_epi64(_mm256_add_epi64(integer, _mm256_set1_epi64x(1023)), 52);
    return _mm256_andnot_pd(_mm256_cmp_pd(n, _mm256_set1_pd(ExpConstants<double>::least_exponent), _CMP_LT_OQ),
                            mul(p, _mm256_castsi256_pd(power)));
  }
  static Reg canonical(Reg x) noexcept {
    return _mm256_blendv_pd(x, _mm256_set1_pd(lockstep::canonical(std::numeric_limits<double>::quiet_NaN())),
                            _mm256_cmp_pd(x, x, _CMP_UNORD_Q));
  }
  static Reg zero_unless_nan(Reg x) noexcept { return _mm256_and_pd(x, _mm256_cmp_pd(x, x, _CMP_UNORD_Q)); }
  static Reg with_sign_of(Reg x, Reg sign) noexcept {
    const Reg bit = _mm256_set1_pd(-0.0);
    return _mm256_or_pd(_mm256_andnot_pd(bit, x), _mm256_and_pd(bit, sign));
  }
  template <class R>
  static R opaque(R x) noexcept {
    asm("" : "+x"(x));
    return x;
  }
  static double fold_larger(Reg x) noexcept {
    const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
  }
  static double fold_sum(const Reg (&x)[4]) noexcept {
    const __m256d four = add(add(x[0], x[2]), add(x[1], x[3]));
    const __m128d two = opaque(_mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1)));
    return rounded(_mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two))));
  }
};
