// The reader of reference cases: what it gives, and that it refuses whatever is not exactly as announced.
#include "cases/case_reader.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "cases/report.hpp"

namespace {

namespace fs = std::filesystem;
using cases::BadCase;
using cases::Case;

// A folder of one small case, as the format wants it; each test then damages one thing.
class CaseReader : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / ("lockstep_case_reader_" + std::to_string(getpid()));
    folder_ = root_ / "cases" / "group" / "name";
    fs::create_directories(folder_);
    fs::create_directories(root_ / "models");
    write(folder_ / "case.txt", manifest_);
    write(folder_ / "x.npy", npy("<f4", "(2, 3)", std::vector<float>{1, -2, 3, 4, 5, 6.5f}));
    write(root_ / "models" / "w.npy", npy("|i1", "(2,)", std::vector<signed char>{-3, 5}));
    write(folder_ / "y.npy", npy("<f8", "(0, 3)", std::vector<double>{}));
  }
  void TearDown() override { fs::remove_all(root_); }

  static void write(const fs::path& file, const std::string& bytes) {
    std::ofstream stream(file, std::ios::binary);
    stream << bytes;
  }

  template <class Stored>
  static std::string npy(const std::string& descr, const std::string& shape, const std::vector<Stored>& data,
                         const std::string& fortran = "False") {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
    header += std::string(63 - (10 + header.size()) % 64, ' ') + "\n";
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(header.size() % 256);
    bytes += static_cast<char>(header.size() / 256);
    bytes += header;
    const std::size_t before = bytes.size();
    bytes.resize(before + data.size() * sizeof(Stored));
    if (!data.empty()) std::memcpy(bytes.data() + before, data.data(), data.size() * sizeof(Stored));
    return bytes;
  }

  Case read() const { return cases::read_case(folder_, root_); }

  // The manifest with one piece of it replaced.
  void change(const std::string& from, const std::string& to) {
    std::string text = manifest_;
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    write(folder_ / "case.txt", text);
  }

  void expect_refused(const std::string& fact) const {
    try {
      read();
      ADD_FAILURE() << "taken, though it should say: " << fact;
    } catch (const BadCase& error) {
      EXPECT_NE(std::string(error.what()).find(fact), std::string::npos) << error.what();
    }
  }

  const std::string manifest_ =
      "format 1\nid group/name\nop attention\ntags 2 one two\n"
      "attr heads int -2\nattr scale float 0.35355339059327373\nattr layout str BHSD\n"
      "attr lengths ints 3 1 2 3\nattr factors floats 2 1.5 inf\n"
      "in x float32 2 2 3 x.npy 1.0\nin w int8 1 2 models/w.npy 0.5\n"
      "out y float64 2 0 3 y.npy 1e-6 1e-12 0.25 0.5\nref y_other float32 2 2 3 x.npy 1e-3 0.0\nend\n";
  fs::path root_, folder_;
};

TEST_F(CaseReader, GivesEveryFactOfTheManifest) {
  const Case test = read();
  EXPECT_EQ(test.id, "group/name");
  EXPECT_EQ(test.operation, "attention");
  EXPECT_EQ(test.tags, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(test.integer("heads"), -2);
  EXPECT_EQ(test.number("scale"), 0.35355339059327373);
  EXPECT_EQ(test.text("layout"), "BHSD");
  EXPECT_EQ(test.integers("lengths"), (std::vector<cases::Index>{1, 2, 3}));
  EXPECT_EQ(test.input("x").values, (std::vector<double>{1, -2, 3, 4, 5, 6.5}));
  EXPECT_EQ(test.input("w").values, (std::vector<double>{-1.5, 2.5}));
  EXPECT_TRUE(test.output("y").values.empty());
  EXPECT_EQ(test.outputs.at("y").atol_double, 1e-12);
  EXPECT_EQ(test.outputs.at("y").rtol_float, 0.25);
}

TEST_F(CaseReader, RefusesAQuestionForWhatIsNotThere) {
  const Case test = read();
  EXPECT_THROW(test.integer("depth"), BadCase);
  EXPECT_THROW(test.integer("scale"), BadCase);
  EXPECT_THROW(test.input("z"), BadCase);
  EXPECT_THROW(test.input("x", {3, 2}), BadCase);
  EXPECT_THROW(test.output("x"), BadCase);
}

TEST_F(CaseReader, RefusesADamagedManifest) {
  const std::pair<const char*, const char*> damages[] = {
      {"format 1", "format 2"},
      {"format 1\n", ""},
      {"id group/name", "id group/other"},
      {"id group/name\n", ""},
      {"op attention\n", ""},
      {"op attention\n", "op attention\nop attention\n"},
      {"tags 2 one two", "tags 3 one two"},
      {"tags 2 one two", "tags 1 one two"},
      {"int -2", "int 2.5"},
      {"int -2", "int"},
      {"int -2", "int 99999999999999999999"},
      {"int -2", "integer 2"},
      {"0.35355339059327373", "0.35x"},
      {"attr scale", "attr heads"},
      {"ints 3 1 2 3", "ints 4 1 2 3"},
      {"ints 3 1 2 3", "ints -1"},
      {"x float32", "x float16"},
      {"x float32", "x float64"},
      {"2 2 3 x.npy 1.0", "2 3 2 x.npy 1.0"},
      {"2 2 3 x.npy 1.0", "2 -2 3 x.npy 1.0"},
      {"2 2 3 x.npy 1.0", "2 4611686018427387904 4 x.npy 1.0"},
      {"x.npy 1.0", "x.npy"},
      {"x.npy 1.0", "missing.npy 1.0"},
      {"x.npy 1.0", ". 1.0"},
      {"in w", "in x"},
      {"1e-6 1e-12", "-1e-6 1e-12"},
      {"1e-6 1e-12", "nan 1e-12"},
      {"end\n", ""},
      {"end\n", "end\nmore\n"},
      {"ref y_other", "note y_other"},
  };
  for (const auto& [from, to] : damages) {
    change(from, to);
    EXPECT_THROW(read(), BadCase) << from << " -> " << to;
  }
}

TEST_F(CaseReader, RefusesADamagedTensor) {
  const std::string good = npy("<f4", "(2, 3)", std::vector<float>(6));
  for (std::size_t size = 0; size < good.size(); ++size) {
    write(folder_ / "x.npy", good.substr(0, size));
    EXPECT_THROW(read(), BadCase) << "cut to " << size << " bytes";
  }
  write(folder_ / "x.npy", good + "x");
  expect_refused("too long");
  write(folder_ / "x.npy", npy("<f8", "(2, 3)", std::vector<double>(6)));
  expect_refused("dtype");
  write(folder_ / "x.npy", npy(">f4", "(2, 3)", std::vector<float>(6)));
  expect_refused("dtype");
  write(folder_ / "x.npy", npy("<f4", "(3, 2)", std::vector<float>(6)));
  expect_refused("shape");
  write(folder_ / "x.npy", npy("<f4", "(2, 3)", std::vector<float>(6), "True"));
  expect_refused("Fortran");
  write(folder_ / "x.npy", npy("<f4", "(2, 99999999999999999999)", std::vector<float>(6)));
  expect_refused("too large");
  write(folder_ / "x.npy", std::string(good).replace(6, 1, "\x02"));
  expect_refused("version 1.0");
}

TEST_F(CaseReader, RefusesNumbersThatTheirTypeDoesNotHold) {
  change("in w int8 1 2 models/w.npy 0.5", "in w bool 1 2 w.npy 1.0");
  write(folder_ / "w.npy", npy("|b1", "(2,)", std::vector<char>{1, 2}));
  expect_refused("bool");
  change("in w int8 1 2 models/w.npy 0.5", "in w int64 1 2 w.npy 1.0");
  write(folder_ / "w.npy", npy("<i8", "(2,)", std::vector<std::int64_t>{1, (std::int64_t{1} << 53) + 2}));
  expect_refused("2^53");
}

// A case with one output of two numbers, to be compared with results.
Case expecting(double first, double second) {
  Case test;
  test.outputs.emplace("y", cases::Expected{{"float64", {2}, {first, second}}, 0.5, 0.25, 0, 0.125});
  return test;
}

template <class T>
cases::Report compared(const Case& test, const std::vector<T>& got) {
  cases::Report report;
  report.compare(test, "y", got);
  return report;
}

TEST(CaseReport, MeasuresTheWorstErrorInTolerances) {
  EXPECT_EQ(compared<float>(expecting(1, 2), {1, 2}).worst(), 0);
  EXPECT_EQ(compared<float>(expecting(1, 2), {1.25, 1.75}).worst(), 0.5);
  EXPECT_EQ(compared<double>(expecting(2, 2), {2, 2.25}).worst(), 0.5);
  EXPECT_TRUE(compared<float>(expecting(1, 2), {1.5, 2}).faults().empty());
  EXPECT_FALSE(compared<float>(expecting(1, 2), {1.5625, 2}).faults().empty());
}

TEST(CaseReport, NeverPassesNanNorAnInfinityThatIsNotWanted) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(compared<double>(expecting(infinity, -infinity), {infinity, -infinity}).faults().empty());
  EXPECT_FALSE(compared<double>(expecting(infinity, 0), {-infinity, 0}).faults().empty());
  EXPECT_FALSE(compared<double>(expecting(infinity, 0), {1e300, 0}).faults().empty());
  EXPECT_FALSE(compared<double>(expecting(0, 0), {infinity, 0}).faults().empty());
  EXPECT_FALSE(compared<double>(expecting(0, 0), {nan, 0}).faults().empty());
  EXPECT_FALSE(compared<double>(expecting(nan, 0), {nan, 0}).faults().empty());
}

TEST(CaseReport, RefusesResultsOfAnotherSize) {
  EXPECT_FALSE(compared<double>(expecting(0, 0), {0}).faults().empty());
  EXPECT_FALSE(compared<double>(expecting(0, 0), {0, 0, 0}).faults().empty());
}

TEST(CaseReport, TellsBitsApartThatCompareEqual) {
  cases::Report report;
  report.require_same_bits("sum", std::vector<float>{0, 1}, std::vector<float>{0, 1});
  EXPECT_TRUE(report.faults().empty());
  report.require_same_bits("sum", std::vector<float>{0, 1}, std::vector<float>{-0.0f, 1});
  EXPECT_EQ(report.faults().size(), 1u);
}

}  // namespace
