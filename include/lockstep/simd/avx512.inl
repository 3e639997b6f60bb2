// Vector operations in AVX-512. See simd/portable.inl for what each means.

// Without optimization g++ has some intrinsics as macros, whose conversions of a mask count as ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

struct VectorScope {
  // It leaves zmm16 to zmm31 alone, which are out of the reach of SSE instructions.
  [[gnu::always_inline]] ~VectorScope() { _mm256_zeroupper(); }
};

struct Set {};

template <class C>
struct Simd;

template <>
struct Simd<float> {
  using Reg = __m512;
  static constexpr Index width = 16;
  static constexpr Index rows = 6, lines = 4;  // 24 sums, 4 lines, broadcasts from memory: 28 of 32 registers
  static constexpr Index decode_rows = 8;
  // The forms with a mask of all lanes are the same instructions; g++ 12 takes those without for uses of an
  // uninitialised register.
  static constexpr __mmask16 all = 0xffff;

  static Reg zero() noexcept { return _mm512_setzero_ps(); }
  static Reg broadcast(float x) noexcept { return _mm512_set1_ps(x); }
  static Reg load(const float* p) noexcept { return _mm512_loadu_ps(p); }
  static void store(float* p, Reg x) noexcept { _mm512_storeu_ps(p, x); }
  static Reg fma(Reg a, Reg b, Reg c) noexcept { return _mm512_fmadd_ps(a, b, c); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return _mm512_fmsub_ps(a, b, c); }
  static Reg mul(Reg a, Reg b) noexcept { return opaque(_mm512_mul_ps(a, b)); }
  static Reg add(Reg a, Reg b) noexcept { return opaque(_mm512_add_ps(a, b)); }
  static Reg sub(Reg a, Reg b) noexcept { return opaque(_mm512_sub_ps(a, b)); }
  static Reg div(Reg a, Reg b) noexcept { return opaque(_mm512_div_ps(a, opaque(b))); }
  static Reg larger(Reg a, Reg b) noexcept { return _mm512_maskz_max_ps(all, b, a); }
  static Reg round(Reg x) noexcept {
    return _mm512_maskz_roundscale_ps(all, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Reg scale_by_power(Reg p, Reg n) noexcept {
    return _mm512_maskz_scalef_ps(
        _mm512_cmp_ps_mask(n, _mm512_set1_ps(ExpConstants<float>::least_exponent), _CMP_NLT_UQ), p, n);
  }
  static Reg canonical(Reg x) noexcept {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x,
                                _mm512_set1_ps(lockstep::canonical(std::numeric_limits<float>::quiet_NaN())));
  }
  static Reg zero_unless_nan(Reg x) noexcept { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x); }
  static Reg with_sign_of(Reg x, Reg sign) noexcept {
    constexpr int choose = 0xCA;  // a ? b : c, bit by bit
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_set1_epi32(INT32_MIN), _mm512_castps_si512(sign),
                                                         _mm512_castps_si512(x), choose));
  }
  template <class R>
  static R opaque(R x) noexcept {
    asm("" : "+v"(x));
    return x;
  }
  static float fold_larger(Reg x) noexcept {
    const __m256 eight =
        _mm256_max_ps(_mm512_maskz_extractf32x8_ps(0xff, x, 0), _mm512_maskz_extractf32x8_ps(0xff, x, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static float fold_sum(const Reg (&x)[1]) noexcept {
    const __m256 eight =
        opaque(_mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xff, x[0], 0), _mm512_maskz_extractf32x8_ps(0xff, x[0], 1)));
    const __m128 four = opaque(_mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
    const __m128 two = opaque(_mm_add_ps(four, _mm_movehl_ps(four, four)));
    return rounded(_mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1))));
  }

  static void load_pair(const Eigen::bfloat16* p, Reg& first, Reg& second) noexcept {
    const __m512i both = _mm512_loadu_si512(p);
    first = _mm512_castsi512_ps(_mm512_maskz_slli_epi32(all, both, 16));
    second = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
  }
  static void load_pair(const Eigen::half* p, Reg& first, Reg& second) noexcept {
    const __m512i both = _mm512_loadu_si512(p);
    first = _mm512_maskz_cvtph_ps(all, _mm512_maskz_cvtepi32_epi16(all, both));
    second = _mm512_maskz_cvtph_ps(all, _mm512_maskz_cvtepi32_epi16(all, _mm512_maskz_srli_epi32(all, both, 16)));
  }
  using Codes = __m512i;
  static Codes load_codes(const std::int8_t* p) noexcept { return _mm512_loadu_si512(p); }
  template <int Step>
  static Reg step_of(Codes x) noexcept {
    if constexpr (Step < 3) x = _mm512_maskz_slli_epi32(all, x, 24 - 8 * Step);
    return _mm512_maskz_cvtepi32_ps(all, _mm512_maskz_srai_epi32(all, x, 24));
  }
  static Reg load_step(const std::int8_t* p, Index step) noexcept {
    const __m128i left = _mm_cvtsi32_si128(static_cast<int>(24 - 8 * step));
    return step_of<3>(_mm512_maskz_sll_epi32(all, load_codes(p), left));
  }
};

template <>
struct Simd<double> {
  using Reg = __m512d;
  static constexpr Index width = 8;
  static constexpr Index rows = 6, lines = 2;
  static constexpr Index decode_rows = 8;
  static constexpr __mmask8 all = 0xff;  // as for float

  static Reg zero() noexcept { return _mm512_setzero_pd(); }
  static Reg broadcast(double x) noexcept { return _mm512_set1_pd(x); }
  static Reg load(const double* p) noexcept { return _mm512_loadu_pd(p); }
  static void store(double* p, Reg x) noexcept { _mm512_storeu_pd(p, x); }
  static Reg fma(Reg a, Reg b, Reg c) noexcept { return _mm512_fmadd_pd(a, b, c); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return _mm512_fmsub_pd(a, b, c); }
  static Reg mul(Reg a, Reg b) noexcept { return opaque(_mm512_mul_pd(a, b)); }
  static Reg add(Reg a, Reg b) noexcept { return opaque(_mm512_add_pd(a, b)); }
  static Reg sub(Reg a, Reg b) noexcept { return opaque(_mm512_sub_pd(a, b)); }
  static Reg div(Reg a, Reg b) noexcept { return opaque(_mm512_div_pd(a, opaque(b))); }
  static Reg larger(Reg a, Reg b) noexcept { return _mm512_maskz_max_pd(all, b, a); }
  static Reg round(Reg x) noexcept {
    return _mm512_maskz_roundscale_pd(all, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Reg scale_by_power(Reg p, Reg n) noexcept {
    return _mm512_maskz_scalef_pd(
        _mm512_cmp_pd_mask(n, _mm512_set1_pd(ExpConstants<double>::least_exponent), _CMP_NLT_UQ), p, n);
  }
  static Reg canonical(Reg x) noexcept {
    return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q), x,
                                _mm512_set1_pd(lockstep::canonical(std::numeric_limits<double>::quiet_NaN())));
  }
  static Reg zero_unless_nan(Reg x) noexcept { return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q), x); }
  static Reg with_sign_of(Reg x, Reg sign) noexcept {
    constexpr int choose = 0xCA;  // as for float
    return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(_mm512_set1_epi64(INT64_MIN), _mm512_castpd_si512(sign),
                                                         _mm512_castpd_si512(x), choose));
  }
  template <class R>
  static R opaque(R x) noexcept {
    asm("" : "+v"(x));
    return x;
  }
  static double fold_larger(Reg x) noexcept {
    const __m256d four =
        _mm256_max_pd(_mm512_maskz_extractf64x4_pd(0xf, x, 0), _mm512_maskz_extractf64x4_pd(0xf, x, 1));
    const __m128d two = _mm_max_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_max_sd(two, _mm_unpackhi_pd(two, two)));
  }
  static double fold_sum(const Reg (&x)[2]) noexcept {
    const __m512d eight = add(x[0], x[1]);
    const __m256d four =
        opaque(_mm256_add_pd(_mm512_maskz_extractf64x4_pd(0xf, eight, 0), _mm512_maskz_extractf64x4_pd(0xf, eight, 1)));
    const __m128d two = opaque(_mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1)));
    return rounded(_mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two))));
  }
};

#pragma GCC diagnostic pop
