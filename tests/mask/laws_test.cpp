// Every mask keeps the laws, and a mask that breaks one is found.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "conformance/mask.hpp"
#include "lockstep/mask/array.hpp"
#include "lockstep/mask/causal.hpp"
#include "lockstep/mask/compose.hpp"

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

bool in_window(QueryRow q, Index key, Index window, Index sinks) {
  return key <= q.place && (q.place - key < window || key < sinks);
}

template <int W, int Sinks>
struct SlidingSubject {
  static std::string name() { return "SlidingWindow" + std::to_string(W) + "Sinks" + std::to_string(Sinks); }
  ls::SlidingWindow make() const { return {.window = W, .sinks = Sinks}; }
  bool sees(QueryRow q, Index key) const { return in_window(q, key, W, Sinks); }
};

template <int Left, int Right>
struct WindowSubject {
  static std::string name() {
    return "Window" + (Left < 0 ? "All" : std::to_string(Left)) + "Before" +
           (Right < 0 ? "All" : std::to_string(Right)) + "After";
  }
  ls::Window make() const {
    return {.left = Left < 0 ? ls::Window::unbounded : Left, .right = Right < 0 ? ls::Window::unbounded : Right};
  }
  bool sees(QueryRow q, Index key) const {
    return (Left < 0 || key >= q.place - Left) && (Right < 0 || key <= q.place + Right);
  }
};

template <int Prefix>
struct PrefixSubject {
  static std::string name() { return "PrefixLm" + std::to_string(Prefix); }
  ls::PrefixLm make() const { return ls::PrefixLm(Index{Prefix}); }
  bool sees(QueryRow q, Index key) const { return key < Prefix || key <= q.place; }
};

struct PrefixesSubject {
  static constexpr const char* name = "PrefixLmForEachSequence";
  std::array<Index, 2> prefixes{300, 5};
  ls::PrefixLm make() const { return ls::PrefixLm(std::span<const Index>(prefixes)); }
  bool sees(QueryRow q, Index key) const {
    return key <= q.place || key < prefixes[static_cast<std::size_t>(q.sequence)];
  }
};

constexpr Index array_rows = 401, array_keys = 520;

// Long runs with holes, so that blocks are none, all and some, other ones for each head; keys from 520 on are missing.
bool shown(Index sequence, Index head, Index row, Index key) {
  if (key >= array_keys || row == 16) return false;
  const Index turned = key + 3 * row + 40 * head + 200 * sequence;
  return row == 17 || (turned / 150 % 2 == 0 && key % 97 != 5);
}

template <class T>
struct Rectangle {
  std::unique_ptr<T[]> at = std::make_unique<T[]>(static_cast<std::size_t>(4 * array_rows * array_keys));
  template <class F>
  explicit Rectangle(F&& number) {
    std::size_t i = 0;
    for (Index sequence = 0; sequence < 2; ++sequence)
      for (Index head = 0; head < 2; ++head)
        for (Index row = 0; row < array_rows; ++row)
          for (Index key = 0; key < array_keys; ++key) at[i++] = number(sequence, head, row, key);
  }
  ls::View<const T, 4> view() const {
    return ls::View<const T, 4>::contiguous(at.get(), {2, 2, array_rows, array_keys});
  }
};

struct BooleanSubject {
  static constexpr const char* name = "BooleanMask";
  Rectangle<bool> flags{shown};
  ls::BooleanMask make() const { return ls::BooleanMask(flags.view()); }
  bool sees(QueryRow q, Index key) const { return shown(q.sequence, q.head, q.row, key); }
};

// Rows lie backwards and only every second key counts: nothing is adjacent.
struct StridedBooleanSubject {
  static constexpr const char* name = "BooleanMaskStrided";
  Rectangle<bool> flags{shown};
  ls::BooleanMask make() const {
    auto view = flags.view();
    view.data += (array_rows - 1) * view.stride[2];
    view.stride[2] = -view.stride[2];
    view.stride[3] = 2;
    view.extent[3] = array_keys / 2;
    return ls::BooleanMask(view);
  }
  bool sees(QueryRow q, Index key) const {
    return key < array_keys / 2 && shown(q.sequence, q.head, array_rows - 1 - q.row, 2 * key);
  }
};

// One row of flags for all rows and heads, another for each sequence.
struct BroadcastBooleanSubject {
  static constexpr const char* name = "BooleanMaskBroadcast";
  Rectangle<bool> flags{shown};
  ls::BooleanMask make() const { return ls::BooleanMask(flags.view().part(1, 1, 1).part(2, 3, 1)); }
  bool sees(QueryRow q, Index key) const { return shown(q.sequence, 1, 3, key); }
};

template <class E>
E addend(Index sequence, Index head, Index row, Index key) {
  return shown(sequence, head, row, key) ? static_cast<E>(static_cast<float>(key % 50 - 20) * 0.375F)
                                         : -std::numeric_limits<E>::infinity();
}

template <class E>
struct AdditiveSubject {
  static std::string name() { return "AdditiveMaskOf" + std::to_string(8 * sizeof(E)) + "Bits"; }
  Rectangle<E> addends{addend<E>};
  ls::AdditiveMask<E> make() const { return ls::AdditiveMask<E>(addends.view()); }
  bool sees(QueryRow q, Index key) const { return shown(q.sequence, q.head, q.row, key); }
};

struct WindowAndAdditiveSubject {
  static constexpr const char* name = "SlidingWindowAndAdditiveMask";
  AdditiveSubject<float> addends;
  auto make() const { return ls::SlidingWindow{.window = 100, .sinks = 4} & addends.make(); }
  bool sees(QueryRow q, Index key) const { return in_window(q, key, 100, 4) && addends.sees(q, key); }
};

struct WindowAndPaddingSubject {
  static constexpr const char* name = "SlidingWindowAndKeyPadding";
  Flags flags;
  auto make() const { return ls::SlidingWindow{.window = 300, .sinks = 60} & flags.mask(); }
  bool sees(QueryRow q, Index key) const { return in_window(q, key, 300, 60) && Flags::token(q.sequence, key); }
};

struct PrefixAndBooleanSubject {
  static constexpr const char* name = "PrefixLmAndBooleanMask";
  BooleanSubject flags;
  auto make() const { return ls::PrefixLm(Index{100}) & flags.make(); }
  bool sees(QueryRow q, Index key) const { return (key < 100 || key <= q.place) && flags.sees(q, key); }
};

struct WindowOrWindowSubject {
  static constexpr const char* name = "SlidingWindowOrWindowAndKeyPadding";
  Flags flags;
  auto make() const { return ls::SlidingWindow{.window = 40, .sinks = 2} | (ls::Window{300, 3} & flags.mask()); }
  bool sees(QueryRow q, Index key) const {
    return in_window(q, key, 40, 2) || (key >= q.place - 300 && key <= q.place + 3 && Flags::token(q.sequence, key));
  }
};

using WindowsAndArrays =
    testing::Types<SlidingSubject<1, 0>, SlidingSubject<2, 0>, SlidingSubject<16, 0>, SlidingSubject<17, 4>,
                   SlidingSubject<256, 0>, SlidingSubject<256, 300>, SlidingSubject<257, 1>, SlidingSubject<10000, 4>,
                   WindowSubject<0, 0>, WindowSubject<20, 7>, WindowSubject<-1, 0>, WindowSubject<3, -1>,
                   WindowSubject<-1, -1>, WindowSubject<300, 256>, PrefixSubject<0>, PrefixSubject<1>,
                   PrefixSubject<256>, PrefixSubject<300>, PrefixesSubject, BooleanSubject, StridedBooleanSubject,
                   BroadcastBooleanSubject, AdditiveSubject<float>, AdditiveSubject<double>,
                   AdditiveSubject<Eigen::half>, WindowAndAdditiveSubject, WindowAndPaddingSubject,
                   PrefixAndBooleanSubject, WindowOrWindowSubject>;

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
struct BrokenNarrowing : ls::Causal {
  KeyRange narrowed(QueryRow q, KeyRange keys) const noexcept {
    return q.place == 257 ? KeyRange{keys.first, keys.last - 1} : keys;
  }
};
struct BrokenNeedOfHeads : ls::NoMask {
  Index keys_needed(QueryRow q) const noexcept { return q.head == 0 ? 0 : ls::all_keys; }
};
struct BrokenAddend : ls::Causal {
  float add(float logit, QueryRow, Index) const noexcept { return logit + 1; }
  void add(float* logits, QueryRow q, KeyRange keys) const noexcept {
    for (Index i = 0; i < keys.size(); ++i) logits[i] += q.place == 257 && keys.first + i == 255 ? 2 : 1;
  }
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
INSTANTIATE_TYPED_TEST_SUITE_P(More, MaskLaws, WindowsAndArrays, SubjectName);

TEST(MaskConformance, FindsEachBrokenLaw) {
  EXPECT_EQ(conformance::mask_laws(CausalSubject{}), "");
  EXPECT_NE(conformance::range_stays_within_the_keys(BrokenRange{}), "");
  EXPECT_NE(conformance::blocks_agree_with_pairs(BrokenBlock{}), "");
  EXPECT_NE(conformance::blocks_agree_with_pairs(BrokenNone{}), "");
  EXPECT_NE(conformance::more_keys_change_nothing(BrokenNeed{}), "");
  EXPECT_NE(conformance::more_keys_change_nothing(BrokenByLength{}), "");
  EXPECT_NE(conformance::narrowing_leaves_out_hidden_keys_only(BrokenNarrowing{}), "");
  EXPECT_NE(conformance::more_keys_change_nothing(BrokenNeedOfHeads{}), "");
  EXPECT_NE(conformance::addends_agree<float>(BrokenAddend{}), "");
  EXPECT_NE(conformance::mask_laws(BrokenSubject<HidesKey17>{}), "");
  EXPECT_NE(conformance::mask_laws(BrokenSubject<BrokenRange>{}), "");
}
