// Vector operations in AVX-512. See simd/portable.inl for what each means.

// Without optimization g++ has some intrinsics as macros, whose conversions of a mask count as ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"

struct VectorScope {
  // It leaves zmm16 to zmm31 alone, which are out of the reach of SSE instructions.
  [[gnu::always_inline]] ~VectorScope() { _mm256_zeroupper(); }
};

template <>
struct Simd<float> : Vectors<float, 16> {
  static constexpr Index rows = 6, lines = 4;  // 24 sums, 4 lines, broadcasts from memory: 28 of 32 registers
  static constexpr Index decode_rows = 8;
  // The forms with a mask of all lanes are the same instructions; g++ 12 takes those without for uses of an
  // uninitialised register.
  static constexpr __mmask16 all = 0xffff;

  static Reg fma(Reg a, Reg b, Reg c) noexcept { return _mm512_fmadd_ps(a, b, c); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return _mm512_fmsub_ps(a, b, c); }
  static Reg round(Reg x) noexcept {
    return _mm512_maskz_roundscale_ps(all, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Reg scale_by_power(Reg p, Reg n) noexcept {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(n, broadcast(K::least_exponent), _CMP_NLT_UQ), p, n);
  }

  using Vectors::load;
  static Reg load(const std::int8_t* p) noexcept {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_maskz_cvtepi32_ps(all, _mm512_maskz_cvtepi8_epi32(all, codes));
  }
  using Vectors::load_pair;
  static void load_pair(const Eigen::half* p, Reg& first, Reg& second) noexcept {
    const __m512i both = _mm512_loadu_si512(p);
    first = _mm512_maskz_cvtph_ps(all, _mm512_maskz_cvtepi32_epi16(all, both));
    second = _mm512_maskz_cvtph_ps(all, _mm512_maskz_cvtepi32_epi16(all, _mm512_maskz_srli_epi32(all, both, 16)));
  }
};

template <>
struct Simd<double> : Vectors<double, 8> {
  static constexpr Index rows = 6, lines = 2;
  static constexpr Index decode_rows = 8;
  static constexpr __mmask8 all = 0xff;  // as for float

  static Reg fma(Reg a, Reg b, Reg c) noexcept { return _mm512_fmadd_pd(a, b, c); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return _mm512_fmsub_pd(a, b, c); }
  static Reg round(Reg x) noexcept {
    return _mm512_maskz_roundscale_pd(all, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Reg scale_by_power(Reg p, Reg n) noexcept {
    return _mm512_maskz_scalef_pd(_mm512_cmp_pd_mask(n, broadcast(K::least_exponent), _CMP_NLT_UQ), p, n);
  }
};

#pragma GCC diagnostic pop
