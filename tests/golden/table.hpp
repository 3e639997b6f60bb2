// The golden bits: hashes of the results of the configurations in cases.hpp. Printed by lockstep_golden --print;
// a change of the numerics contract is the only reason to print it anew, in the commit that makes the change.
#pragma once

#include <cstdint>

namespace golden {

struct Row {
  const char* name;
  std::uint64_t contract;
  std::uint64_t materialized;  ///< 0: not asked
};

inline constexpr Row table[] = {
    {"exp_float", 0x5974d21be3575ec3, 0},
    {"exp_double", 0x0226f6fdd3a37049, 0},
    {"tanh_float", 0xa08265c5480b1f51, 0},
    {"tanh_double", 0x72b2bbdeedc05395, 0},
    {"log_double", 0x4540034e882d8562, 0},
    {"power_double", 0x5c1469fa8a565071, 0},
    {"sin_cos_double", 0x3f32b343ea5def13, 0},
    {"philox", 0x3f9077239d8f95db, 0},
    {"half_conversions", 0x53d13b25b0dab25b, 0},
    {"bfloat16_conversions", 0xf7578fd47a192a00, 0},
    {"project_float", 0xc30cfa0da0fadbec, 0},
    {"project_double", 0xdfc5d86cd8907344, 0},
    {"project_half", 0xc3f3daa0e0690124, 0},
    {"project_bfloat16", 0xbfca53f37c576116, 0},
    {"project_float_by_bfloat16", 0x410db4c00ad27ef0, 0},
    {"attend_float_g1_d64", 0xa83c40ea02e7005e, 0x470e2fca32a1d435},
    {"attend_float_g1_d16_beyond_a_row_block", 0xfdb8b0edc7c15220, 0x1f1a1897bc1211aa},
    {"attend_float_g2_d96_v80", 0x034c16bc5e089fb0, 0x5bc77a990ea46447},
    {"attend_float_g7_d64", 0xe6318ce605697ac6, 0xfb02952e7449e21f},
    {"attend_float_g8_d128_decode", 0x021167a72105ca2e, 0xe3aa7191f22fabcb},
    {"attend_float_g2_d16_three_splits", 0xcfdd09dbb907ce96, 0xbd375a3c8b2b9ecc},
    {"attend_float_mqa_d3", 0xfe1852a9b3dadd04, 0xeb7c585b60bf9892},
    {"attend_float_d1", 0xf3689df8d16e2139, 0x1ef7f0077621b23f},
    {"attend_float_d80_unmasked", 0x82bedb98f2dbe38b, 0x0eaa1120976cac93},
    {"attend_float_d16_offset_below_zero", 0x67e597d0b9b4bfaf, 0x107fb10d18ac9154},
    {"attend_float_d24_v40_padded", 0x7ecfd8d96d94f945, 0x0afe438259bebaa1},
    {"attend_float_d32_dropped", 0x0db20c2d903f149c, 0x2d6c137a5e90c84c},
    {"attend_float_d64_large_logits", 0x769631025a30df7d, 0x1d667e262d387c0c},
    {"attend_float_d8_not_finite", 0x5d5f9a2d79e1ca26, 0x084e5f41e73f5634},
    {"attend_float_d8_few_keys", 0xf5bae6be3a020b89, 0xf5bae6be3a020b89},
    {"attend_double_g1_d64", 0x62dd8dc0f88a4c71, 0},
    {"attend_double_g8_d128_decode", 0x25db09e60d106fbe, 0},
    {"attend_double_mqa_d3", 0xd9426c8b9f1f5918, 0},
    {"attend_double_g2_d24_v40", 0x1847f2d20f88cbda, 0},
    {"attend_double_d64_large_logits", 0x8beaf5b2b8dcd288, 0},
    {"attend_half_g7_d64", 0x23f2778220a44b67, 0},
    {"attend_half_g2_d3", 0x791a0a2684c4bb5a, 0},
    {"attend_half_d80_v96_padded", 0xe948070a28790ccc, 0},
    {"attend_bfloat16_g8_d128_decode", 0x3ee5db374d3785e7, 0},
    {"attend_bfloat16_g1_d64", 0xc6e56c904be5791b, 0},
    {"attend_bfloat16_g2_d7", 0x1fdccc85df3ba2bb, 0},
    {"attend_int8_g8_d128_decode", 0x37847bb4709e0a69, 0},
    {"attend_int8_g2_d7_v18", 0x1b4ed54d7be2d870, 0},
    {"attend_int8_d24_v40_padded", 0x61341c2e668fcf4f, 0},
    {"layer_float_half_split_in_one", 0x88ba4d75d4ec4aa0, 0},
    {"layer_float_half_split_in_chunks", 0xb1cbf4e5f61c4216, 0},
    {"layer_float_partial_rotary_batch", 0xbecc3c549dd6d447, 0},
    {"layer_float_half_split_across_a_block", 0x96252fa853e6bd9e, 0},
    {"layer_double_interleaved", 0x55b0413ebe52ce9f, 0},
    {"layer_half_interleaved_batch", 0x38324983900098f0, 0},
    {"layer_bfloat16_half_split_dropped", 0xc846453f0b471bbd, 0},
};

}  // namespace golden
