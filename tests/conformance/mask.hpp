// The laws of masks, for ours and for a user's own.
//
//     struct MyMaskSubject {
//       static constexpr const char* name = "MyMask";
//       auto make() const { return MyMask{...}; }                       // refers to at most `sequences` sequences
//       bool sees(lockstep::QueryRow q, lockstep::Index key) const;     // optional: the definition, in one line
//     };
//     INSTANTIATE_TYPED_TEST_SUITE_P(Mine, MaskLaws, MyMaskSubject, conformance::SubjectName);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "conformance/report.hpp"
#include "lockstep/concepts.hpp"

namespace conformance {

using lockstep::Index;
using lockstep::KeyRange;
using lockstep::QueryRow;
using lockstep::Visibility;

/// A subject's mask is asked about this many sequences, heads and keys.
inline constexpr Index mask_sequences = 2, mask_heads = 2, mask_keys = 530;

/// f(row) for rows of several sequences, heads and places, some before the first key and after the last.
template <class F>
Report for_each_row(F&& f) {
  for (Index sequence = 0; sequence < mask_sequences; ++sequence)
    for (Index head = 0; head < mask_heads; ++head)
      for (const Index row : {0, 1, 2, 15, 16, 17, 255, 256, 257, 400})
        for (const Index offset : {0, 1, 7, 100})
          if (Report r = f(QueryRow{sequence, head, row, row + offset}); !r.empty())
            return said(r, " (sequence ", sequence, ", head ", head, ", row ", row, ", place ", row + offset, ")");
  return {};
}

inline constexpr Index mask_lengths[] = {0, 1, 2, 15, 16, 17, 100, 255, 256, 257, 512, 530};

/// The keys that a row sees when kv_len are present.
template <class M>
std::vector<Index> visible_keys(const M& mask, QueryRow q, Index kv_len) {
  std::vector<Index> keys;
  const KeyRange range = mask.range(q, kv_len);
  for (Index key = range.first; key < range.last; ++key)
    if (mask.visible(q, key)) keys.push_back(key);
  return keys;
}

/// range() stays within the keys that are present.
template <class M>
Report range_stays_within_the_keys(const M& mask) {
  return for_each_row([&](QueryRow q) {
    for (const Index kv_len : mask_lengths)
      if (const KeyRange r = mask.range(q, kv_len); !r.empty() && (r.first < 0 || r.last > kv_len))
        return said("range() gives [", r.first, ", ", r.last, ") of ", kv_len, " keys");
    return Report{};
  });
}

/// block(): `none` means none of the keys is visible, `all` that each is.
template <class M>
Report blocks_agree_with_pairs(const M& mask) {
  return for_each_row([&](QueryRow q) {
    for (const Index kv_len : mask_lengths) {
      const KeyRange range = mask.range(q, kv_len);
      for (const Index width : {1, 16, 256, 1000})
        for (Index first = range.first; first < range.last; first = (first / width + 1) * width) {
          const KeyRange keys{first, std::min(range.last, (first / width + 1) * width)};
          Index seen = 0;
          for (Index key = keys.first; key < keys.last; ++key) seen += mask.visible(q, key) ? 1 : 0;
          const Visibility v = mask.block(q, keys);
          if ((v == Visibility::none && seen != 0) || (v == Visibility::all && seen != keys.size()))
            return said("block() says ", v == Visibility::none ? "none" : "all", " of [", keys.first, ", ", keys.last,
                        "), of which ", seen, " are visible");
        }
    }
    return Report{};
  });
}

/// narrowed(), where the mask has it: stays within what it was given and leaves no visible key outside, and block()
/// holds of what is left.
template <class M>
Report narrowing_leaves_out_hidden_keys_only(const M& mask) {
  if constexpr (requires { mask.narrowed(QueryRow{}, KeyRange{}); }) {
    static_assert(noexcept(mask.narrowed(QueryRow{}, KeyRange{})));
    return for_each_row([&](QueryRow q) {
      for (const Index kv_len : mask_lengths) {
        const KeyRange range = mask.range(q, kv_len);
        for (const Index width : {1, 16, 100, 256, 1000})
          for (Index first = range.first; first < range.last; first = (first / width + 1) * width) {
            const KeyRange keys{first, std::min(range.last, (first / width + 1) * width)};
            const KeyRange part = mask.narrowed(q, keys);
            Index seen = 0;
            for (Index key = keys.first; key < keys.last; ++key) {
              if (!mask.visible(q, key)) continue;
              if (key < part.first || key >= part.last)
                return said("narrowed() leaves key ", key, " out of [", keys.first, ", ", keys.last, ")");
              ++seen;
            }
            if (part.empty()) continue;
            if (part.first < keys.first || part.last > keys.last)
              return said("narrowed() gives [", part.first, ", ", part.last, ") of [", keys.first, ", ", keys.last,
                          ")");
            const Visibility v = mask.block(q, part);
            if ((v == Visibility::none && seen != 0) || (v == Visibility::all && seen != part.size()))
              return said("block() says ", v == Visibility::none ? "none" : "all", " of the narrowed [", part.first,
                          ", ", part.last, "), of which ", seen, " are visible");
          }
      }
      return Report{};
    });
  } else {
    return {};
  }
}

/// add(), where the mask has it: both forms have the same bits, in whatever ranges of keys.
template <class C, class M>
Report addends_agree(const M& mask) {
  if constexpr (lockstep::AddingMask<M, C>)
    return for_each_row([&](QueryRow q) {
      const KeyRange range = mask.range(q, mask_keys);
      for (const Index width : {1, 15, 16, 17, 256, 1000})
        for (Index first = range.first; first < range.last; first += width) {
          const KeyRange keys{first, std::min(range.last, first + width)};
          std::vector<C> logits, expected;
          for (Index key = keys.first; key < keys.last; ++key) {
            logits.push_back(static_cast<C>(0.1) * static_cast<C>(key - 200));
            expected.push_back(mask.add(logits.back(), q, key));
          }
          mask.add(logits.data(), q, keys);
          for (Index key = keys.first; key < keys.last; ++key) {
            const auto at = static_cast<std::size_t>(key - keys.first);
            if (std::memcmp(&logits[at], &expected[at], sizeof(C)) != 0)
              return said("add() of the range [", keys.first, ", ", keys.last, ") gives ", logits[at], " for key ", key,
                          ", of the key alone ", expected[at]);
          }
        }
      return Report{};
    });
  else
    return {};
}

/// More keys change nothing for those that were there, and from keys_needed() on they change nothing at all.
template <class M>
Report more_keys_change_nothing(const M& mask) {
  return for_each_row([&](QueryRow q) {
    const std::vector<Index> all = visible_keys(mask, q, mask_keys);
    for (const Index kv_len : mask_lengths) {
      std::vector<Index> expected = all;
      std::erase_if(expected, [kv_len](Index key) { return key >= kv_len; });
      if (visible_keys(mask, q, kv_len) != expected)
        return said("with ", kv_len, " keys the row sees other keys than with ", mask_keys);
      // One number stands for all heads.
      const Index needed = mask.keys_needed({q.sequence, 0, q.row, q.place});
      if (kv_len >= needed && expected != all)
        return said("keys_needed() gives ", needed, ", but the row sees a key beyond ", kv_len);
    }
    return Report{};
  });
}

/// A copy answers alike.
template <class M>
Report copies_answer_alike(const M& mask) {
  const M copy = mask;
  return for_each_row([&](QueryRow q) {
    return visible_keys(copy, q, mask_keys) == visible_keys(mask, q, mask_keys) ? Report{}
                                                                                : said("a copy sees other keys");
  });
}

/// Nothing outside range() is visible, nor is anything else than by the subject's own definition.
template <class Subject, class M>
Report sees_what_it_is_defined_to_see(const Subject& subject, const M& mask) {
  if constexpr (requires(QueryRow q, Index key) { subject.sees(q, key); })
    return for_each_row([&](QueryRow q) {
      for (const Index kv_len : mask_lengths) {
        const std::vector<Index> given = visible_keys(mask, q, kv_len);
        for (Index key = 0; key < kv_len; ++key)
          if (std::binary_search(given.begin(), given.end(), key) != subject.sees(q, key))
            return said("key ", key, " of ", kv_len, " is ", subject.sees(q, key) ? "hidden" : "visible");
      }
      return Report{};
    });
  else
    return {};
}

/// All laws.
template <class Subject>
Report mask_laws(const Subject& subject) {
  const auto mask = subject.make();
  static_assert(lockstep::Mask<std::remove_const_t<decltype(mask)>>);
  for (Report r :
       {range_stays_within_the_keys(mask), blocks_agree_with_pairs(mask), narrowing_leaves_out_hidden_keys_only(mask),
        addends_agree<float>(mask), addends_agree<double>(mask), more_keys_change_nothing(mask),
        copies_answer_alike(mask), sees_what_it_is_defined_to_see(subject, mask)})
    if (!r.empty()) return r;
  return {};
}

}  // namespace conformance

template <class Subject>
class MaskLaws : public testing::Test {
 protected:
  Subject subject;
};
TYPED_TEST_SUITE_P(MaskLaws);
TYPED_TEST_P(MaskLaws, RangeStaysWithinTheKeys) {
  EXPECT_EQ(conformance::range_stays_within_the_keys(this->subject.make()), "");
}
TYPED_TEST_P(MaskLaws, BlocksAgreeWithPairs) {
  EXPECT_EQ(conformance::blocks_agree_with_pairs(this->subject.make()), "");
}
TYPED_TEST_P(MaskLaws, NarrowingLeavesOutHiddenKeysOnly) {
  EXPECT_EQ(conformance::narrowing_leaves_out_hidden_keys_only(this->subject.make()), "");
}
TYPED_TEST_P(MaskLaws, AddendsAgree) {
  EXPECT_EQ(conformance::addends_agree<float>(this->subject.make()), "");
  EXPECT_EQ(conformance::addends_agree<double>(this->subject.make()), "");
}
TYPED_TEST_P(MaskLaws, MoreKeysChangeNothing) {
  EXPECT_EQ(conformance::more_keys_change_nothing(this->subject.make()), "");
}
TYPED_TEST_P(MaskLaws, CopiesAnswerAlike) { EXPECT_EQ(conformance::copies_answer_alike(this->subject.make()), ""); }
TYPED_TEST_P(MaskLaws, SeesWhatItIsDefinedToSee) {
  EXPECT_EQ(conformance::sees_what_it_is_defined_to_see(this->subject, this->subject.make()), "");
}
REGISTER_TYPED_TEST_SUITE_P(MaskLaws, RangeStaysWithinTheKeys, BlocksAgreeWithPairs, NarrowingLeavesOutHiddenKeysOnly,
                            AddendsAgree, MoreKeysChangeNothing, CopiesAnswerAlike, SeesWhatItIsDefinedToSee);
