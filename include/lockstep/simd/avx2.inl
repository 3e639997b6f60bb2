// Vector operations in AVX2, FMA and F16C. See simd/portable.inl for what each means.

struct VectorScope {
  [[gnu::always_inline]] ~VectorScope() { _mm256_zeroupper(); }
};

template <>
struct Simd<float> : Vectors<float, 8> {
  static constexpr Index rows = 6, lines = 1;  // 12 sums, 2 vectors of a line, 1 broadcast: 15 of 16 registers
  static constexpr Index decode_rows = 4;

  static Reg fma(Reg a, Reg b, Reg c) noexcept { return _mm256_fmadd_ps(a, b, c); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return _mm256_fmsub_ps(a, b, c); }
  static Reg round(Reg x) noexcept { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

  using Vectors::load;
  static Reg load(const std::int8_t* p) noexcept {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  using Vectors::load_pair;
  static void load_pair(const Eigen::half* p, Reg& first, Reg& second) noexcept {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    first = _mm256_cvtph_ps(low_halves(_mm256_and_si256(both, _mm256_set1_epi32(0xffff))));
    second = _mm256_cvtph_ps(low_halves(_mm256_srli_epi32(both, 16)));
  }

 private:
  // The eight 32-bit numbers, all below 2^16, as eight 16-bit ones.
  static __m128i low_halves(__m256i x) noexcept {
    const __m256i packed = _mm256_packus_epi32(x, x);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
  }
};

template <>
struct Simd<double> : Vectors<double, 4> {
  static constexpr Index rows = 3, lines = 1;  // 12 sums, lines as memory operands
  static constexpr Index decode_rows = 2;

  static Reg fma(Reg a, Reg b, Reg c) noexcept { return _mm256_fmadd_pd(a, b, c); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return _mm256_fmsub_pd(a, b, c); }
  static Reg round(Reg x) noexcept { return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
};
