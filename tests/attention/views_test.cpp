// Inputs and outputs with strides, in any order and of any type of array, have the bits of contiguous ones.
#include <Eigen/Core>

#include "fixture.hpp"

namespace {

using namespace fixture;

constexpr Index tokens = 21, hidden = 10;

template <class T>
class Views : public ::testing::Test {
 protected:
  using Layer = ls::Attention<T, 4, 2, ls::Rope<ls::HalfSplit>>;
  using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using ColumnMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;

  Layer layer = make_layer<Layer>({.hidden = hidden, .heads = 4, .kv_heads = 2, .head_dim = 6},
                                  rope<ls::compute_t<T>>(6, tokens));
  std::vector<T> x = numbers<T>(tokens * hidden, 51);
  std::vector<T> y = full(layer, x).y;

  /// x, and y afterwards, in a matrix type.
  template <class M>
  M matrix() const {
    M m(tokens, hidden);
    for (Index i = 0; i < tokens; ++i)
      for (Index j = 0; j < hidden; ++j) m(i, j) = x[at(i * hidden + j)];
    return m;
  }
  template <class M>
  static std::vector<T> flat(const M& m) {
    std::vector<T> all;
    for (Index i = 0; i < tokens; ++i)
      for (Index j = 0; j < hidden; ++j) all.push_back(m(i, j));
    return all;
  }

  /// Runs with and without a cache; y must come out the same, whatever x and out are.
  template <class X, class Out>
  void expect_y(const X& in, Out&& out) const {
    layer.forward(in, out);
    EXPECT_TRUE(same_bits(y, flat(out), hidden));
    auto cache = layer.make_cache(tokens);
    layer.forward(in, cache, out);
    EXPECT_TRUE(same_bits(y, flat(out), hidden)) << "with a cache";
  }
};
using Types = ::testing::Types<float, Eigen::bfloat16>;
TYPED_TEST_SUITE(Views, Types);

TYPED_TEST(Views, MatricesOfEitherOrderHaveTheBits) {
  const auto rows = this->template matrix<typename TestFixture::RowMajor>();
  const auto columns = this->template matrix<typename TestFixture::ColumnMajor>();
  typename TestFixture::RowMajor row_out(tokens, hidden);
  typename TestFixture::ColumnMajor column_out(tokens, hidden);
  this->expect_y(rows, row_out);
  this->expect_y(columns, column_out);
  this->expect_y(rows, column_out);
}

TYPED_TEST(Views, MapsBlocksAndRefsHaveTheBits) {
  using Rows = typename TestFixture::RowMajor;
  const auto in = this->template matrix<Rows>();
  Rows out(tokens, hidden);
  this->expect_y(Eigen::Map<const Rows>(in.data(), tokens, hidden), out);
  this->expect_y(Eigen::Ref<const Rows>(in), Eigen::Ref<Rows>(out));
  Rows wide = Rows::Zero(tokens, 30);
  wide.middleCols(7, hidden) = in;
  Rows wide_out(tokens, 30);
  this->expect_y(wide.middleCols(7, hidden), wide_out.middleCols(3, hidden));
}

TYPED_TEST(Views, StridesAreHonouredAndGapsLeftAlone) {
  for (const Index gap : {0, 1, 3})
    for (const Index step : {1, 2}) {
      SCOPED_TRACE("gap " + std::to_string(gap) + ", step " + std::to_string(step));
      const Index width = (hidden + gap) * step;
      const TypeParam canary = number<TypeParam>(7.25);
      std::vector<TypeParam> in(at(tokens * width), nan<TypeParam>()), out(at(tokens * width), canary);
      const ls::View<TypeParam, 2> in_view(in.data(), {tokens, hidden}, {width, step}),
          out_view(out.data(), {tokens, hidden}, {width, step});
      for (Index i = 0; i < tokens; ++i)
        for (Index j = 0; j < hidden; ++j) in_view(i, j) = this->x[at(i * hidden + j)];
      this->expect_y(in_view, out_view);
      Index untouched = 0;
      for (const TypeParam value : out) untouched += value == canary ? 1 : 0;
      EXPECT_EQ(untouched, tokens * (width - hidden));
    }
}

TYPED_TEST(Views, RowsInReverseAreTakenByANegativeStride) {
  std::vector<TypeParam> in(this->x.size()), out(in.size());
  const ls::View<TypeParam, 2> in_view(in.data() + (tokens - 1) * hidden, {tokens, hidden}, {-hidden, 1});
  const ls::View<TypeParam, 2> out_view(out.data() + (tokens - 1) * hidden, {tokens, hidden}, {-hidden, 1});
  for (Index i = 0; i < tokens; ++i)
    for (Index j = 0; j < hidden; ++j) in_view(i, j) = this->x[at(i * hidden + j)];
  this->expect_y(in_view, out_view);
}

/// Offers what std::mdspan offers of a strided matrix, and nothing more.
template <class T>
class Span2 {
 public:
  Span2(T* data, Index rows, Index columns, Index row_stride)
      : data_(data), rows_(rows), columns_(columns), row_stride_(row_stride) {}
  static constexpr std::size_t rank() { return 2; }
  T* data_handle() const { return data_; }
  Index extent(std::size_t axis) const { return axis == 0 ? rows_ : columns_; }
  Index stride(std::size_t axis) const { return axis == 0 ? row_stride_ : 1; }

 private:
  T* data_;
  Index rows_, columns_, row_stride_;
};

TYPED_TEST(Views, MdspansHaveTheBits) {
  const Index width = hidden + 3;
  std::vector<TypeParam> out(at(tokens * width));
  const Span2<const TypeParam> in(this->x.data(), tokens, hidden, hidden);
  Span2<TypeParam> strided(out.data(), tokens, hidden, width);
  this->layer.forward(in, strided);
  for (Index i = 0; i < tokens; ++i)
    EXPECT_TRUE(same_bits(part(this->y, i * hidden, hidden), part(out, i * width, hidden), hidden));
}

// One view of rows does for a batch whose sequences lie one after the other; here they do not.
TYPED_TEST(Views, SequencesWithGapsBetweenThemHaveTheBits) {
  const Index step = tokens * hidden + 5;
  std::vector<TypeParam> in(at(2 * step), nan<TypeParam>()), out(at(2 * step));
  for (Index b = 0; b < 2; ++b) std::copy(this->x.begin(), this->x.end(), in.begin() + b * step);
  this->layer.forward(ls::View<const TypeParam, 3>(in.data(), {2, tokens, hidden}, {step, hidden, 1}),
                      ls::View<TypeParam, 3>(out.data(), {2, tokens, hidden}, {step, hidden, 1}));
  for (Index b = 0; b < 2; ++b) EXPECT_TRUE(same_bits(this->y, part(out, b * step, tokens * hidden), hidden));
}

}  // namespace
