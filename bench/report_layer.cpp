// The report's lines of projections and whole layers.
#include "default_eigen.hpp"
#include "eigen_attention.hpp"
#include "lockstep/attention.hpp"
#include "lockstep/kernel/tiled.hpp"
#include "lockstep/position/rope.hpp"
#include "report.hpp"

namespace bench {

namespace {

/// y = x W^T on packed weights, and the same product for OpenBLAS; several sets of weights where they shall come from
/// memory.
class Projected {
 public:
  Projected(Index rows, Index out, Index in, Index sets)
      : rows_(rows), out_(out), in_(in), x_(numbers<float>(rows * in, 5)), y_(at(rows * out)) {
    plain_.push_back(numbers<float>(out * in, 6));
    packed_.emplace_back(out, in);
    packed_.back().place(0, ls::View<const float, 2>::contiguous(plain_.front().data(), {out, in}),
                         ls::View<const float, 1>{});
    while (static_cast<Index>(packed_.size()) < sets) packed_.push_back(packed_.front());
  }
  double flops() const {
    return 2 * static_cast<double>(rows_ * out_) * static_cast<double>(in_) * static_cast<double>(packed_.size());
  }
  double bytes() const { return static_cast<double>(out_ * in_) * sizeof(float) * static_cast<double>(packed_.size()); }

  void run() {
    for (const auto& weights : packed_)
      ls::project(ls::View<const float, 2>::contiguous(x_.data(), {rows_, in_}), weights,
                  ls::View<float, 2>::contiguous(y_.data(), {rows_, out_}), ls::Serial{}, static_cast<float*>(nullptr));
  }
  /// Whether the results are those of a sum in double, near enough, in some columns.
  bool right() {
    run();
    constexpr Index columns = 97;
    const double tolerance = 1e-6 * static_cast<double>(in_);
    for (Index n = 0; n < columns; ++n) {
      const Index row = n % rows_, column = n * (out_ / columns);
      double sum = 0;
      for (Index k = 0; k < in_; ++k)
        sum += static_cast<double>(x_[at(row * in_ + k)]) * static_cast<double>(plain_.front()[at(column * in_ + k)]);
      if (!(std::abs(sum - static_cast<double>(y_[at(row * out_ + column)])) <= tolerance)) return false;
    }
    return true;
  }

#if LOCKSTEP_HAVE_OPENBLAS
  Gauge sgemm() {
    while (plain_.size() < packed_.size()) plain_.push_back(plain_.front());
    return Gauge(
        [this] {
          for (const auto& weights : plain_)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<blasint>(rows_),
                        static_cast<blasint>(out_), static_cast<blasint>(in_), 1, x_.data(), static_cast<blasint>(in_),
                        weights.data(), static_cast<blasint>(in_), 0, y_.data(), static_cast<blasint>(out_));
        },
        flops());
  }
#else
  Gauge sgemm() { return {}; }
#endif

 private:
  Index rows_, out_, in_;
  ls::AlignedVector<float> x_, y_;
  std::vector<ls::AlignedVector<float>> plain_;
  std::vector<ls::PackedWeights<float>> packed_;
};

// A size of the larger open models. Few rows take their weights from memory, many are bound by arithmetic.
constexpr Index wide = 4096, narrow = 2048;
Index sets_beyond_cache() { return ls::ceil_div(beyond_cache(), wide * wide * static_cast<Index>(sizeof(float))); }

Entry project_over_stream(const std::string& name, Index rows) {
  return {name, {"/stream"}, [=](Report& report, const Entry& entry) {
            Projected work(rows, wide, wide, sets_beyond_cache());
            report.check(work.right());
            report.compare(entry, Gauge([&] { work.run(); }, work.bytes()), {{"/stream", &report.stream()}});
          }};
}
Entry project_over_sgemm(const std::string& name, Index rows, Index size, bool from_memory,
                         std::vector<std::string> units) {
  return {name, std::move(units), [=](Report& report, const Entry& entry) {
            Projected work(rows, size, size, from_memory ? sets_beyond_cache() : 1);
            report.check(work.right());
            Gauge sgemm = work.sgemm();
            report.compare(entry, Gauge([&] { work.run(); }, work.flops()),
                           {{"/sgemm", &sgemm}, {"/fma", &report.fma()}});
          }};
}

/// The layer of the baseline, with the same weights, input and cache.
class ComparedLayer {
 public:
  using Layer =
      ls::Attention<float, ModelLayer::heads, ModelLayer::kv_heads, ls::Rope<ls::HalfSplit>, ls::Causal, ls::Tiled>;

  ComparedLayer(Index q_len, Index past)
      : past_(past),
        native_(q_len, past),
        default_(q_len, past),
        cache_(layer_.make_cache(ModelLayer::capacity)),
        y_(q_len, ModelLayer::hidden) {
    const std::array<Index, 3> extents{past, ModelLayer::kv_heads, ModelLayer::head_dim};
    cache_.append(ls::View<const float, 3>::contiguous(native_.keys.data(), extents),
                  ls::View<const float, 3>::contiguous(native_.values.data(), extents));
  }

  void run() {
    layer_.forward(native_.x, cache_, y_);
    cache_.truncate(past_);
  }
  void run_native() { native_.run(); }
  void run_default() { default_.run(); }
  bool right() {
    run();
    run_native();
    run_default();
    const Eigen::Map<const Matrix<float>> by_default(default_.result(), y_.rows(), y_.cols());
    const auto near = [this](const auto& other) { return (y_ - other).cwiseAbs().maxCoeff() < 1e-4F; };
    return near(native_.y) && near(by_default);
  }

 private:
  Layer make_layer() const {
    const auto& w = native_.weights;
    return Layer(
        {.hidden = ModelLayer::hidden, .head_dim = ModelLayer::head_dim},
        {.query = w.query,
         .key = w.key,
         .value = w.value,
         .output = w.output,
         .query_bias = w.query_bias,
         .key_bias = w.key_bias,
         .value_bias = w.value_bias},
        ls::RopeTable<float>(
            {.rotary_dim = ModelLayer::head_dim, .base = ModelLayer::base, .positions = ModelLayer::capacity}));
  }

  Index past_;
  ModelLayer native_;
  DefaultEigenLayer default_;
  Layer layer_ = make_layer();
  Layer::Cache cache_;
  Matrix<float> y_;
};

Entry layer(const std::string& name, Index q_len, Index past) {
  return {name, {"/eigen", "/eigen_native"}, [=](Report& report, const Entry& entry) {
            ComparedLayer compared(q_len, past);
            report.check(compared.right());
            Gauge by_default([&] { compared.run_default(); }, 1), native([&] { compared.run_native(); }, 1);
            report.compare(entry, Gauge([&] { compared.run(); }, 1),
                           {{"/eigen", &by_default}, {"/eigen_native", &native}});
          }};
}

}  // namespace

std::vector<Entry> layer_entries() {
  return {
      project_over_stream("project_m1", 1),
      project_over_sgemm("project_m8", 8, wide, true, {"/sgemm"}),
      project_over_sgemm("project_m512", 512, narrow, false, {"/sgemm", "/fma"}),
      layer("layer_t64_h896", 64, 0),
      layer("layer_t512_h896", 512, 0),
      layer("layer_decode_h896_s512", 1, 512),
      layer("layer_decode_h896_s4096", 1, 4096),
  };
}

}  // namespace bench
