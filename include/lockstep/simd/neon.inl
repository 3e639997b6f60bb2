// Vector operations in Advanced SIMD (NEON) of AArch64. See simd/portable.inl for what each means.

struct VectorScope {
  ~VectorScope() {}
};

struct Set {};

template <class C>
struct Simd;

template <>
struct Simd<float> {
  using Reg = float32x4_t;
  static constexpr Index width = 4;
  static constexpr Index rows = 6, lines = 1;  // 24 sums, 4 vectors of a line, 2 of broadcasts: 30 of 32 registers
  static constexpr Index decode_rows = 4;

  static Reg zero() noexcept { return vdupq_n_f32(0); }
  static Reg broadcast(float x) noexcept { return vdupq_n_f32(x); }
  static Reg load(const float* p) noexcept { return vld1q_f32(p); }
  static void store(float* p, Reg x) noexcept { vst1q_f32(p, x); }
  static Reg fma(Reg a, Reg b, Reg c) noexcept { return vfmaq_f32(c, a, b); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return vfmaq_f32(vnegq_f32(c), a, b); }
  static Reg mul(Reg a, Reg b) noexcept { return opaque(vmulq_f32(a, b)); }
  static Reg add(Reg a, Reg b) noexcept { return opaque(vaddq_f32(a, b)); }
  static Reg sub(Reg a, Reg b) noexcept { return opaque(vsubq_f32(a, b)); }
  static Reg div(Reg a, Reg b) noexcept { return opaque(vdivq_f32(a, opaque(b))); }
  static Reg larger(Reg a, Reg b) noexcept { return vbslq_f32(vcgtq_f32(b, a), b, a); }
  static Reg round(Reg x) noexcept { return vrndnq_f32(x); }
  static Reg scale_by_power(Reg p, Reg n) noexcept {
    const int32x4_t power = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vbslq_f32(vcltq_f32(n, vdupq_n_f32(ExpConstants<float>::least_exponent)), zero(),
                     mul(p, vreinterpretq_f32_s32(power)));
  }
  static Reg canonical(Reg x) noexcept {
    return vbslq_f32(vceqq_f32(x, x), x, vdupq_n_f32(lockstep::canonical(std::numeric_limits<float>::quiet_NaN())));
  }
  static Reg zero_unless_nan(Reg x) noexcept { return vbslq_f32(vceqq_f32(x, x), zero(), x); }
  static Reg with_sign_of(Reg x, Reg sign) noexcept { return vbslq_f32(vdupq_n_u32(0x80000000u), sign, x); }
  template <class R>
  static R opaque(R x) noexcept {
    asm("" : "+w"(x));
    return x;
  }
  static float fold_larger(Reg x) noexcept { return vmaxvq_f32(x); }
  static float fold_sum(const Reg (&x)[4]) noexcept {
    const Reg four = add(add(x[0], x[2]), add(x[1], x[3]));
    const float32x2_t two = opaque(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
    return rounded(vget_lane_f32(two, 0) + vget_lane_f32(two, 1));
  }

  static void load_pair(const Eigen::bfloat16* p, Reg& first, Reg& second) noexcept {
    const uint32x4_t both = vreinterpretq_u32_u16(vld1q_u16(reinterpret_cast<const std::uint16_t*>(p)));
    first = vreinterpretq_f32_u32(vshlq_n_u32(both, 16));
    second = vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xffff0000u)));
  }
  static void load_pair(const Eigen::half* p, Reg& first, Reg& second) noexcept {
    const uint32x4_t both = vreinterpretq_u32_u16(vld1q_u16(reinterpret_cast<const std::uint16_t*>(p)));
    first = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(both)));
    second = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(both, 16)));
  }
  using Codes = int32x4_t;
  static Codes load_codes(const std::int8_t* p) noexcept { return vreinterpretq_s32_s8(vld1q_s8(p)); }
  template <int Step>
  static Reg step_of(Codes x) noexcept {
    if constexpr (Step < 3) x = vshlq_n_s32(x, 24 - 8 * Step);
    return vcvtq_f32_s32(vshrq_n_s32(x, 24));
  }
  static Reg load_step(const std::int8_t* p, Index step) noexcept {
    return step_of<3>(vshlq_s32(load_codes(p), vdupq_n_s32(static_cast<int>(24 - 8 * step))));
  }
};

template <>
struct Simd<double> {
  using Reg = float64x2_t;
  static constexpr Index width = 2;
  static constexpr Index rows = 3, lines = 1;  // 24 sums
  static constexpr Index decode_rows = 2;

  static Reg zero() noexcept { return vdupq_n_f64(0); }
  static Reg broadcast(double x) noexcept { return vdupq_n_f64(x); }
  static Reg load(const double* p) noexcept { return vld1q_f64(p); }
  static void store(double* p, Reg x) noexcept { vst1q_f64(p, x); }
  static Reg fma(Reg a, Reg b, Reg c) noexcept { return vfmaq_f64(c, a, b); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return vfmaq_f64(vnegq_f64(c), a, b); }
  static Reg mul(Reg a, Reg b) noexcept { return opaque(vmulq_f64(a, b)); }
  static Reg add(Reg a, Reg b) noexcept { return opaque(vaddq_f64(a, b)); }
  static Reg sub(Reg a, Reg b) noexcept { return opaque(vsubq_f64(a, b)); }
  static Reg div(Reg a, Reg b) noexcept { return opaque(vdivq_f64(a, opaque(b))); }
  static Reg larger(Reg a, Reg b) noexcept { return vbslq_f64(vcgtq_f64(b, a), b, a); }
  static Reg round(Reg x) noexcept { return vrndnq_f64(x); }
  static Reg scale_by_power(Reg p, Reg n) noexcept {
    const int64x2_t power = vshlq_n_s64(vaddq_s64(vcvtq_s64_f64(n), vdupq_n_s64(1023)), 52);
    return vbslq_f64(vcltq_f64(n, vdupq_n_f64(ExpConstants<double>::least_exponent)), zero(),
                     mul(p, vreinterpretq_f64_s64(power)));
  }
  static Reg canonical(Reg x) noexcept {
    return vbslq_f64(vceqq_f64(x, x), x, vdupq_n_f64(lockstep::canonical(std::numeric_limits<double>::quiet_NaN())));
  }
  static Reg zero_unless_nan(Reg x) noexcept { return vbslq_f64(vceqq_f64(x, x), zero(), x); }
  static Reg with_sign_of(Reg x, Reg sign) noexcept { return vbslq_f64(vdupq_n_u64(std::uint64_t{1} << 63), sign, x); }
  template <class R>
  static R opaque(R x) noexcept {
    asm("" : "+w"(x));
    return x;
  }
  static double fold_larger(Reg x) noexcept { return vmaxvq_f64(x); }
  static double fold_sum(const Reg (&x)[8]) noexcept {
    const Reg a = add(add(x[0], x[4]), add(x[2], x[6])), b = add(add(x[1], x[5]), add(x[3], x[7]));
    const Reg two = add(a, b);
    return rounded(vgetq_lane_f64(two, 0) + vgetq_lane_f64(two, 1));
  }
};
