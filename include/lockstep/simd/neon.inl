// Vector operations in Advanced SIMD (NEON) of AArch64. See simd/portable.inl for what each means.

struct VectorScope {
  ~VectorScope() {}
};

template <>
struct Simd<float> : Vectors<float, 4> {
  static constexpr Index rows = 6, lines = 1;  // 24 sums, 4 vectors of a line, 2 of broadcasts: 30 of 32 registers
  static constexpr Index decode_rows = 4;

  static Reg fma(Reg a, Reg b, Reg c) noexcept { return vfmaq_f32(c, a, b); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return vfmaq_f32(-c, a, b); }
  static Reg round(Reg x) noexcept { return vrndnq_f32(x); }

  using Vectors::load;
  static Reg load(const std::int8_t* p) noexcept {
    std::int32_t codes;
    std::memcpy(&codes, p, sizeof(codes));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(codes))))));
  }
  using Vectors::load_pair;
  static void load_pair(const Eigen::half* p, Reg& first, Reg& second) noexcept {
    const uint32x4_t both = vreinterpretq_u32_u16(vld1q_u16(reinterpret_cast<const std::uint16_t*>(p)));
    first = vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(both)));
    second = vcvt_f32_f16(vreinterpret_f16_u16(vshrn_n_u32(both, 16)));
  }
};

template <>
struct Simd<double> : Vectors<double, 2> {
  static constexpr Index rows = 3, lines = 1;  // 24 sums
  static constexpr Index decode_rows = 2;

  static Reg fma(Reg a, Reg b, Reg c) noexcept { return vfmaq_f64(c, a, b); }
  static Reg fms(Reg a, Reg b, Reg c) noexcept { return vfmaq_f64(-c, a, b); }
  static Reg round(Reg x) noexcept { return vrndnq_f64(x); }
};
