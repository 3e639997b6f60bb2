// Counts the logits of a cached forward that have the bits of a forward without a cache.
#pragma once

#include <cstdint>
#include <cstring>
#include <ostream>
#include <span>

#include "llama2c/model.hpp"

namespace llama2c {

template <class AnyModel>
class BitCheck {
 public:
  using Logits = typename AnyModel::Matrix;

  explicit BitCheck(const AnyModel& model) : model_(model) {}

  /// `rows` are the logits of the last tokens of the sequence; the whole of it is forwarded again.
  void compare(const Logits& rows, std::span<const int> tokens) {
    using Index = lockstep::Index;
    const Logits full = model_.forward(tokens);
    for (Index i = 0; i < rows.rows(); ++i)
      for (Index j = 0; j < rows.cols(); ++j) {
        const auto expected = full(full.rows() - rows.rows() + i, j), given = rows(i, j);
        different_ += std::memcmp(&given, &expected, sizeof(given)) != 0;
      }
    tokens_ += rows.rows();
    logits_ += rows.size();
  }

  bool passed() const noexcept { return different_ == 0; }

  friend std::ostream& operator<<(std::ostream& out, const BitCheck& check) {
    out << check.tokens_ << " tokens, " << check.logits_ << " logits: ";
    if (check.passed()) return out << "all bits equal to those of the full forward without a cache";
    return out << check.different_ << " differ from those of the full forward without a cache";
  }

 private:
  const AnyModel& model_;
  std::int64_t tokens_ = 0;
  std::int64_t logits_ = 0;
  std::int64_t different_ = 0;
};

}  // namespace llama2c
