#include "lockstep/views.hpp"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <unsupported/Eigen/CXX11/Tensor>
#include <utility>
#include <vector>

namespace ls = lockstep;
using ls::Index;
using ls::View;

namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <std::size_t N>
using Numbers = std::array<Index, N>;

TEST(View, OfRawMemoryWithoutGapsIsRowMajor) {
  float memory[24];
  const auto view = View<float, 3>::contiguous(memory, {2, 3, 4});
  EXPECT_EQ(view.stride, (Numbers<3>{12, 4, 1}));
  EXPECT_EQ(view.size(), 24);
  EXPECT_EQ(&view(1, 2, 3), memory + 23);
}

TEST(View, OfAMatrixFollowsItsStorageOrder) {
  RowMajor rows(3, 5);
  Eigen::MatrixXf columns(3, 5);
  EXPECT_EQ((View<float, 2>(rows).stride), (Numbers<2>{5, 1}));
  EXPECT_EQ((View<float, 2>(columns).stride), (Numbers<2>{1, 3}));
  EXPECT_EQ((View<float, 2>(columns).extent), (Numbers<2>{3, 5}));
  EXPECT_EQ(&(View<float, 2>(columns))(2, 4), &columns(2, 4));
  EXPECT_EQ(&(View<const float, 2>(std::as_const(rows)))(2, 4), &rows(2, 4));
}

TEST(View, OfBlocksMapsAndRefsKeepsTheirStrides) {
  RowMajor whole(6, 10);
  auto block = whole.block(1, 2, 3, 4);
  const View<float, 2> of_block(block);
  EXPECT_EQ(of_block.data, &whole(1, 2));
  EXPECT_EQ(of_block.extent, (Numbers<2>{3, 4}));
  EXPECT_EQ(of_block.stride, (Numbers<2>{10, 1}));

  Eigen::Map<RowMajor, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> map(whole.data(), 2, 3, {20, 2});
  EXPECT_EQ((View<float, 2>(map).stride), (Numbers<2>{20, 2}));
  const Eigen::Map<const RowMajor> constant(whole.data(), 6, 10);
  EXPECT_EQ((View<const float, 2>(constant).data), whole.data());
  Eigen::Ref<RowMajor, 0, Eigen::OuterStride<>> ref(whole.leftCols(7));
  EXPECT_EQ((View<float, 2>(ref).extent), (Numbers<2>{6, 7}));
  EXPECT_EQ((View<float, 2>(ref).stride), (Numbers<2>{10, 1}));
  EXPECT_EQ((View<float, 2>(whole.transpose()).stride), (Numbers<2>{1, 10}));
}

TEST(View, OfAVectorIsALineOrAMatrixOfOne) {
  Eigen::VectorXf column(7);
  Eigen::RowVectorXf row(7);
  EXPECT_EQ((View<float, 1>(column).extent), (Numbers<1>{7}));
  EXPECT_EQ((View<float, 1>(row).stride), (Numbers<1>{1}));
  EXPECT_EQ((View<float, 2>(column).extent), (Numbers<2>{7, 1}));
  EXPECT_EQ((View<float, 2>(row).extent), (Numbers<2>{1, 7}));
  RowMajor whole(6, 10);
  auto one_column = whole.col(3);
  EXPECT_EQ((View<float, 1>(one_column).stride), (Numbers<1>{10}));
  EXPECT_EQ(&(View<float, 1>(one_column))(5), &whole(5, 3));
}

TEST(View, OfTensorsInBothLayouts) {
  Eigen::Tensor<float, 3, Eigen::RowMajor> rows(2, 3, 4);
  Eigen::Tensor<float, 3> columns(2, 3, 4);
  EXPECT_EQ((View<float, 3>(rows).stride), (Numbers<3>{12, 4, 1}));
  EXPECT_EQ((View<float, 3>(columns).stride), (Numbers<3>{1, 2, 6}));
  EXPECT_EQ((View<float, 3>(columns).extent), (Numbers<3>{2, 3, 4}));
  EXPECT_EQ(&(View<float, 3>(columns))(1, 2, 3), &columns(1, 2, 3));
  const Eigen::TensorMap<Eigen::Tensor<const float, 2, Eigen::RowMajor>> map(rows.data(), 6, 4);
  EXPECT_EQ((View<const float, 2>(map).extent), (Numbers<2>{6, 4}));
  Eigen::TensorFixedSize<float, Eigen::Sizes<2, 5>, Eigen::RowMajor> fixed;
  EXPECT_EQ((View<float, 2>(fixed).extent), (Numbers<2>{2, 5}));
}

// What mdspan offers, and nothing else.
struct Mdspan {
  float* memory;
  float* data_handle() const { return memory; }
  std::size_t extent(std::size_t i) const { return i == 0 ? 3 : 4; }
  std::size_t stride(std::size_t i) const { return i == 0 ? 100 : 2; }
  static constexpr std::size_t rank() { return 2; }
};

TEST(View, OfWhatLooksLikeMdspan) {
  float memory[400];
  const View<float, 3> view(Mdspan{memory});
  EXPECT_EQ(view.data, memory);
  EXPECT_EQ(view.extent, (Numbers<3>{1, 3, 4}));
  EXPECT_EQ(view.stride, (Numbers<3>{0, 100, 2}));
}

TEST(View, OfLists) {
  std::vector<float> vector(5);
  std::array<float, 3> array{};
  EXPECT_EQ((View<float, 1>(vector).extent), (Numbers<1>{5}));
  EXPECT_EQ((View<const float, 1>(array).extent), (Numbers<1>{3}));
  EXPECT_EQ((View<float, 1>(std::span<float>(vector).subspan(2)).data), vector.data() + 2);
  EXPECT_EQ((View<float, 2>(vector).extent), (Numbers<2>{1, 5}));
}

TEST(View, FillsUpWithLeadingExtentsOfOne) {
  RowMajor matrix(3, 5);
  EXPECT_EQ((View<float, 4>(matrix).extent), (Numbers<4>{1, 1, 3, 5}));
  EXPECT_EQ((View<float, 4>(matrix).stride), (Numbers<4>{0, 0, 5, 1}));
  const View<float, 2> two(matrix);
  EXPECT_EQ((View<const float, 3>(two).extent), (Numbers<3>{1, 3, 5}));
  EXPECT_EQ((View<const float, 3>(two).data), matrix.data());
}

TEST(View, OfAPointerToSomethingIsThatOrAbsent) {
  RowMajor matrix(3, 5);
  RowMajor* none = nullptr;
  EXPECT_EQ((View<float, 2>(&matrix).data), matrix.data());
  EXPECT_FALSE((View<float, 2>(none).present()));
  EXPECT_EQ((View<float, 2>(none).extent), (Numbers<2>{0, 0}));
  EXPECT_FALSE((View<float, 2>(nullptr).present()));
  EXPECT_FALSE((View<float, 2>().present()));
  EXPECT_EQ((View<float, 2>().size()), 0);
}

TEST(View, TakesNoOtherElementTypeNorMoreDimensionsNorWritesIntoConst) {
  static_assert(std::is_constructible_v<View<const float, 2>, RowMajor&>);
  static_assert(!std::is_constructible_v<View<const double, 2>, RowMajor&>);
  static_assert(!std::is_constructible_v<View<float, 2>, const RowMajor&>);
  static_assert(!std::is_constructible_v<View<float, 2>, Eigen::Tensor<float, 3>&>);
  static_assert(!std::is_constructible_v<View<float, 1>, RowMajor&>);
  static_assert(!std::is_constructible_v<View<float, 2>, View<const float, 2>>);
  static_assert(!std::is_constructible_v<View<float, 1>, int>);
  static_assert(!std::is_constructible_v<View<const float, 2>, decltype(RowMajor() * RowMajor())>);
  static_assert(std::is_trivially_copyable_v<View<float, 4>>);
}

TEST(View, PartAndAtCutWithoutMovingTheRest) {
  float memory[60];
  const auto view = View<float, 3>::contiguous(memory, {3, 4, 5});
  const auto part = view.part(1, 1, 2);
  EXPECT_EQ(part.extent, (Numbers<3>{3, 2, 5}));
  EXPECT_EQ(part.stride, view.stride);
  EXPECT_EQ(&part(2, 1, 4), &view(2, 2, 4));
  const auto at = view.at(2);
  static_assert(decltype(at)::rank == 2);
  EXPECT_EQ(at.extent, (Numbers<2>{4, 5}));
  EXPECT_EQ(&at(3, 4), &view(2, 3, 4));
  EXPECT_FALSE((View<float, 2>().part(0, 3, 1).present()));
  EXPECT_FALSE((View<float, 2>().at(3).present()));
}

TEST(View, ReachesBeyondThirtyTwoBits) {
  float one = 0;
  const View<float, 2> view(&one, {4, 2}, {Index{1} << 30, 1});
  EXPECT_EQ(view.offset(3, 1), 3 * (Index{1} << 30) + 1);
  EXPECT_EQ(view.offset(3, 1) * static_cast<Index>(sizeof(float)), Index{12'884'901'892});
  EXPECT_EQ((View<char, 1>(nullptr, {Index{1} << 40}, {1}).size()), Index{1} << 40);
}

TEST(View, GoesBackwardsThroughNegativeStrides) {
  float memory[4] = {0, 1, 2, 3};
  const View<float, 1> backwards(memory + 3, {4}, {-1});
  EXPECT_EQ(backwards(3), 0);
  const auto bytes = ls::detail::bytes_of(backwards);
  EXPECT_EQ(bytes.first, reinterpret_cast<std::uintptr_t>(memory));
  EXPECT_EQ(bytes.last, reinterpret_cast<std::uintptr_t>(memory + 4));
}

TEST(CheckShape, AcceptsTheShapeAndRefusesAnyOther) {
  float memory[6] = {};
  const auto view = View<float, 2>::contiguous(memory, {2, 3});
  EXPECT_TRUE(ls::detail::check_shape("a", view, {2, 3}).ok());
  EXPECT_STREQ(ls::detail::check_shape("a", view, {3, 2}).message(), "lockstep: a: given [2, 3], allowed [3, 2]");
  EXPECT_STREQ(ls::detail::check_shape("a", View<float, 2>(nullptr, {2, 3}, {3, 1}), {2, 3}).message(),
               "lockstep: a: given a null view, allowed [2, 3]");
  EXPECT_TRUE(ls::detail::check_shape("a", View<float, 2>(nullptr, {0, 3}, {3, 1}), {0, 3}).ok());
  EXPECT_STREQ(ls::detail::check_shape("a", View<float, 2>(memory, {2, -3}, {3, 1}), {2, -3}).message(),
               "lockstep: a: given [2, -3], allowed extents from 0");
}

TEST(CheckShape, RefusesProductsBeyondSixtyThreeBits) {
  float one = 0;
  const Index most = std::numeric_limits<Index>::max(), least = std::numeric_limits<Index>::min();
  for (const View<float, 2>& view :
       {View<float, 2>(&one, {2, 2}, {most, 1}), View<float, 2>(&one, {2, 2}, {most / 2, most / 2}),
        View<float, 2>(&one, {3, 1}, {most / 2 + 1, 1}), View<float, 2>(&one, {2, 2}, {least, 1}),
        View<float, 2>(&one, {most, most}, {0, 0}), View<float, 2>(&one, {2, 1}, {most / 4 + 1, 1})})
    EXPECT_FALSE(ls::detail::check_shape("a", view, view.extent).ok());
}

TEST(Overlap, SeesSharedBytesOnly) {
  float memory[10];
  const auto bytes = [&](Index first, Index count) {
    return ls::detail::bytes_of(View<float, 1>(memory + first, {count}, {1}));
  };
  EXPECT_FALSE(ls::detail::overlap(bytes(0, 5), bytes(5, 5)));
  EXPECT_TRUE(ls::detail::overlap(bytes(0, 6), bytes(5, 5)));
  EXPECT_TRUE(ls::detail::overlap(bytes(0, 10), bytes(5, 1)));
  EXPECT_FALSE(ls::detail::overlap(bytes(0, 0), bytes(0, 10)));
  EXPECT_FALSE(ls::detail::overlap(ls::detail::bytes_of(View<float, 1>()), bytes(0, 10)));
}

}  // namespace
