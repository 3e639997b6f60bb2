#include "npy/npy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "handed.hpp"
#include "reference.hpp"
#include "temporary_file.hpp"

namespace {

using examples_test::Bytes;
using examples_test::contains;
using examples_test::refusal;
using examples_test::TemporaryFile;

// A file as NumPy writes it.
Bytes npy_bytes(const std::string& header, const std::vector<float>& values) {
  Bytes bytes;
  bytes.add_text(std::string("\x93NUMPY\x01\x00", 8)).add(static_cast<std::uint16_t>(header.size())).add_text(header);
  for (const float value : values) bytes.add(value);
  return bytes;
}

TEST(Npy, ReadsWhatNumPyWrites) {
  const TemporaryFile file(
      npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n", {0, 1, 2, 3, -4.5F, 5}));
  const npy::Matrix matrix = npy::read(file.path());
  ASSERT_EQ(matrix.rows(), 2);
  ASSERT_EQ(matrix.cols(), 3);
  EXPECT_EQ(matrix(0, 2), 2);
  EXPECT_EQ(matrix(1, 1), -4.5F);
}

TEST(Npy, WritesWhatItReads) {
  const TemporaryFile file{Bytes()};
  const npy::Matrix written = npy::Matrix::Random(17, 5);
  npy::write(file.path(), written);
  EXPECT_EQ(npy::read(file.path()), written);
  // The data begin on a multiple of 64 bytes, as the format asks.
  EXPECT_EQ((std::filesystem::file_size(file.path()) - 17 * 5 * sizeof(float)) % 64, 0U);
  EXPECT_EQ(examples_test::read_npy<float>(file.path(), "<f4").size(), 17U * 5U);
}

TEST(Npy, RefusesEverythingElse) {
  const auto message = [](const std::string& header, std::size_t floats) {
    const TemporaryFile file(npy_bytes(header, std::vector<float>(floats)));
    return refusal([&] { static_cast<void>(npy::read(file.path())); });
  };
  const std::string start = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  EXPECT_EQ(message(start + "(2, 3), }", 6), "");
  EXPECT_TRUE(contains(message(start + "(2, 3), }", 5), "found 20 bytes of data, allowed 24"));
  EXPECT_TRUE(contains(message(start + "(2, 3), }", 7), "found 28 bytes of data, allowed 24"));
  EXPECT_TRUE(contains(message(start + "(6,), }", 6), "found shape (6,), allowed two extents"));
  EXPECT_TRUE(contains(message(start + "(1, 2, 3), }", 6), "allowed two extents"));
  EXPECT_TRUE(contains(message(start + "(99999999999, 2), }", 6), "found an extent of 2^28 or more"));
  EXPECT_TRUE(contains(message("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 12), "allowed '<f4'"));
  EXPECT_TRUE(contains(message("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 6), "allowed C order"));
  EXPECT_TRUE(contains(message("", 6), "allowed '<f4'"));
  const TemporaryFile other(Bytes().add_text("no such format"));
  EXPECT_TRUE(contains(refusal([&] { static_cast<void>(npy::read(other.path())); }), "allowed npy of version 1.0"));
  EXPECT_TRUE(contains(refusal([&] { static_cast<void>(npy::read("/no/such/file.npy")); }), "allowed one"));
}

// The program gqa_from_numpy, run on files that this test makes.
class GqaFromNumpy : public testing::Test {
 protected:
  static constexpr Eigen::Index heads = 6, kv_heads = 2, head_dim = 8, hidden = 20, tokens = 37;

  void SetUp() override {
    if (std::string(LOCKSTEP_GQA_FROM_NUMPY).empty()) GTEST_SKIP() << "SKIPPED: built without the examples";
    folder_ = std::filesystem::temp_directory_path() / ("lockstep_gqa_" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder_);
    for (const auto& [name, matrix] : {std::pair{"wq", &wq_}, {"wk", &wk_}, {"wv", &wv_}, {"wo", &wo_}, {"x", &x_}})
      npy::write(folder_ / (std::string(name) + ".npy"), *matrix);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  int run(const std::string& arguments) const {
    return std::system(("'" LOCKSTEP_GQA_FROM_NUMPY "' '" + folder_.string() + "' " + arguments + " > '" +
                        (folder_ / "said").string() + "' 2>&1")
                           .c_str());
  }
  std::string said() const { return examples_test::read_text(folder_ / "said"); }

  // x w^T, its rows [heads, head_dim] rotated half-split at the row's position.
  static reference::Values projected(const npy::Matrix& x, const npy::Matrix& w, double base) {
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> y =
        x.cast<double>() * w.cast<double>().transpose();
    for (Eigen::Index i = 0; base > 0 && i < y.rows(); ++i)
      for (Eigen::Index first = 0; first < y.cols(); first += head_dim)
        for (Eigen::Index d = 0; d < head_dim / 2; ++d) {
          const double angle = static_cast<double>(i) * std::pow(base, -2.0 * static_cast<double>(d) / head_dim);
          double &a = y(i, first + d), &b = y(i, first + d + head_dim / 2);
          const double turned = a * std::cos(angle) - b * std::sin(angle);
          b = a * std::sin(angle) + b * std::cos(angle);
          a = turned;
        }
    return {y.data(), y.data() + y.size()};
  }
  // The largest error of y.npy against the definition in double.
  double error(double base) const {
    const reference::Problem problem{.heads = heads,
                                     .kv_heads = kv_heads,
                                     .head_dim = head_dim,
                                     .v_head_dim = head_dim,
                                     .q_len = tokens,
                                     .kv_len = tokens,
                                     .visible = reference::causal()};
    const auto context =
        reference::attend(problem, projected(x_, wq_, base), projected(x_, wk_, base), projected(x_, wv_, 0)).context;
    const Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> rows(
        context.data(), tokens, heads * head_dim);
    const std::vector<float> y = examples_test::read_npy<float>(folder_ / "y.npy", "<f4");
    const Eigen::Map<const npy::Matrix> given(y.data(), tokens, hidden);
    return (rows * wo_.cast<double>().transpose() - given.cast<double>()).cwiseAbs().maxCoeff();
  }

  const npy::Matrix wq_ = npy::Matrix::Random(heads * head_dim, hidden),
                    wk_ = npy::Matrix::Random(kv_heads * head_dim, hidden),
                    wv_ = npy::Matrix::Random(kv_heads * head_dim, hidden),
                    wo_ = npy::Matrix::Random(hidden, heads* head_dim), x_ = npy::Matrix::Random(tokens, hidden);

 private:
  std::filesystem::path folder_;
};

TEST_F(GqaFromNumpy, AgreesWithTheDefinition) {
  ASSERT_EQ(run("6 2"), 0) << said();
  EXPECT_LT(error(1e4), 2e-5);
  EXPECT_GT(error(1e5), 1e-3);
  ASSERT_EQ(run("6 2 1e5"), 0) << said();
  EXPECT_LT(error(1e5), 2e-5);
}

TEST_F(GqaFromNumpy, SaysWhatDoesNotFit) {
  EXPECT_NE(run("6 3"), 0);
  EXPECT_TRUE(contains(said(), "weights.key: given")) << said();
  EXPECT_NE(run("0 2"), 0);
  EXPECT_TRUE(contains(said(), "HEADS: found '0', allowed numbers above 0")) << said();
  EXPECT_NE(run("6"), 0);
  EXPECT_TRUE(contains(said(), "usage")) << said();
}

}  // namespace
