// Every mask keeps the laws, and a mask that breaks one is found.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "conformance/mask.hpp"
#include "lockstep/mask/causal.hpp"
#include "lockstep/mask/compose.hpp"
#include "lockstep/mask/key_padding.hpp"
#include "lockstep/mask/none.hpp"
#include "lockstep/mask/offset_causal.hpp"

namespace ls = lockstep;
using conformance::SubjectName;
using ls::Index;
using ls::KeyRange;
using ls::QueryRow;
using ls::Visibility;

namespace {

struct CausalSubject {
  static constexpr const char* name = "Causal";
  ls::Causal make() const { return {}; }
  bool sees(QueryRow q, Index key) const { return key <= q.place; }
};

struct NoMaskSubject {
  static constexpr const char* name = "NoMask";
  ls::NoMask make() const { return {}; }
  bool sees(QueryRow, Index) const { return true; }
};

template <int Offset>
struct OffsetSubject {
  static constexpr const char* name = Offset < 0    ? "OffsetCausalNegative"
                                      : Offset == 0 ? "OffsetCausalZero"
                                                    : "OffsetCausalPositive";
  ls::OffsetCausal make() const { return ls::OffsetCausal(Index{Offset}); }
  bool sees(QueryRow q, Index key) const { return key <= Offset + q.row; }
};

struct OffsetsSubject {
  static constexpr const char* name = "OffsetCausalForEachSequence";
  std::array<Index, 2> offsets{-20, 31};
  ls::OffsetCausal make() const { return ls::OffsetCausal(std::span<const Index>(offsets)); }
  bool sees(QueryRow q, Index key) const { return key <= offsets[static_cast<std::size_t>(q.sequence)] + q.row; }
};

// Sequence 0: the first 40 keys and some single ones are padding; sequence 1: all keys are tokens except a whole block.
struct Flags {
  Flags() {
    for (Index s = 0; s < 2; ++s)
      for (Index key = 0; key < conformance::mask_keys; ++key)
        (*at)[static_cast<std::size_t>(s * conformance::mask_keys + key)] = token(s, key);
  }
  static bool token(Index sequence, Index key) {
    return sequence == 0 ? key >= 40 && key % 7 != 3 : key < 256 || key >= 512;
  }
  ls::KeyPadding mask() const {
    return ls::KeyPadding(ls::View<const bool, 2>::contiguous(at->data(), {2, conformance::mask_keys}));
  }
  using Array = std::array<bool, static_cast<std::size_t>(2 * conformance::mask_keys)>;
  std::unique_ptr<Array> at = std::make_unique<Array>();
};

struct KeyPaddingSubject {
  static constexpr const char* name = "KeyPadding";
  Flags flags;
  ls::KeyPadding make() const { return flags.mask(); }
  bool sees(QueryRow q, Index key) const { return Flags::token(q.sequence, key); }
};

struct CausalAndPaddingSubject {
  static constexpr const char* name = "CausalAndKeyPadding";
  Flags flags;
  auto make() const { return ls::Causal{} & flags.mask(); }
  bool sees(QueryRow q, Index key) const { return key <= q.place && Flags::token(q.sequence, key); }
};

struct CausalOrPaddingSubject {
  static constexpr const char* name = "CausalOrKeyPadding";
  Flags flags;
  auto make() const { return ls::Causal{} | flags.mask(); }
  bool sees(QueryRow q, Index key) const { return key <= q.place || Flags::token(q.sequence, key); }
};

struct NestedSubject {
  static constexpr const char* name = "OffsetOrCausalAndPadding";
  Flags flags;
  auto make() const { return ls::OffsetCausal(Index{-30}) | (ls::Causal{} & flags.mask()); }
  bool sees(QueryRow q, Index key) const {
    return key <= q.row - 30 || (key <= q.place && Flags::token(q.sequence, key));
  }
};

// A user's mask that answers for keys of its own range only, as the concept allows: the range does all the work.
struct Band {
  static constexpr ls::PolicyKind policy_kind = ls::PolicyKind::mask;
  Index width;
  KeyRange range(QueryRow q, Index kv_len) const noexcept {
    return ls::intersection({q.place - width + 1, q.place + 1}, {0, kv_len});
  }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::all; }
  bool visible(QueryRow, Index) const noexcept { return true; }
  Index keys_needed(QueryRow q) const noexcept { return q.place + 1; }
};

struct BandSubject {
  static constexpr const char* name = "UserBand";
  Band make() const { return {20}; }
  bool sees(QueryRow q, Index key) const { return key <= q.place && key > q.place - 20; }
};

struct BandOrOffsetSubject {
  static constexpr const char* name = "UserBandOrOffset";
  auto make() const { return Band{20} | ls::OffsetCausal(Index{-200}); }
  bool sees(QueryRow q, Index key) const { return (key <= q.place && key > q.place - 20) || key <= q.row - 200; }
};

struct BandAndPaddingSubject {
  static constexpr const char* name = "UserBandAndKeyPadding";
  Flags flags;
  auto make() const { return Band{20} & flags.mask(); }
  bool sees(QueryRow q, Index key) const {
    return key <= q.place && key > q.place - 20 && Flags::token(q.sequence, key);
  }
};

using Subjects = testing::Types<CausalSubject, NoMaskSubject, OffsetSubject<-17>, OffsetSubject<0>, OffsetSubject<40>,
                                OffsetsSubject, KeyPaddingSubject, CausalAndPaddingSubject, CausalOrPaddingSubject,
                                NestedSubject, BandSubject, BandOrOffsetSubject, BandAndPaddingSubject>;

// Causal with one law broken at a time.
struct BrokenRange : ls::Causal {
  KeyRange range(QueryRow q, Index) const noexcept { return {0, q.place + 1}; }
};
struct BrokenBlock : ls::Causal {
  KeyRange range(QueryRow, Index kv_len) const noexcept { return {0, kv_len}; }
};
struct BrokenNone : ls::Causal {
  Visibility block(QueryRow q, KeyRange keys) const noexcept {
    return q.place == 257 && keys.first > 0 ? Visibility::none : Visibility::all;
  }
};
struct BrokenNeed : ls::Causal {
  Index keys_needed(QueryRow q) const noexcept { return q.place; }
};
struct BrokenByLength : ls::Causal {
  KeyRange range(QueryRow q, Index kv_len) const noexcept { return ls::Causal::range(q, kv_len == 257 ? 256 : kv_len); }
};
struct HidesKey17 : ls::Causal {
  bool visible(QueryRow q, Index key) const noexcept { return key != 17 && ls::Causal::visible(q, key); }
  Visibility block(QueryRow, KeyRange) const noexcept { return Visibility::some; }
};

template <class M>
struct BrokenSubject {
  M make() const { return {}; }
  bool sees(QueryRow q, Index key) const { return key <= q.place; }
};

}  // namespace

INSTANTIATE_TYPED_TEST_SUITE_P(Library, MaskLaws, Subjects, SubjectName);

TEST(MaskConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::mask_laws(CausalSubject{}), "");
  EXPECT_NE(conformance::range_stays_within_the_keys(BrokenRange{}), "");
  EXPECT_NE(conformance::blocks_agree_with_pairs(BrokenBlock{}), "");
  EXPECT_NE(conformance::blocks_agree_with_pairs(BrokenNone{}), "");
  EXPECT_NE(conformance::more_keys_change_nothing(BrokenNeed{}), "");
  EXPECT_NE(conformance::more_keys_change_nothing(BrokenByLength{}), "");
  EXPECT_NE(conformance::mask_laws(BrokenSubject<HidesKey17>{}), "");
  EXPECT_NE(conformance::mask_laws(BrokenSubject<BrokenRange>{}), "");
}
