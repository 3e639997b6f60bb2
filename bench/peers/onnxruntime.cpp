// ONNX Runtime's GroupQueryAttention on its CPU provider, as its own text generation calls it: the node appends the
// call's keys and values to a cache that is its input and its output at once.
#include <onnxruntime_c_api.h>

#include <array>
#include <stdexcept>

#include "adapters.hpp"
#include "onnx_model.hpp"

namespace bench {

namespace {

const OrtApi& api() {
  static const OrtApi* const found = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (found == nullptr) throw std::runtime_error("ONNX Runtime: the library is older than the header");
  return *found;
}

void need(OrtStatus* status) {
  if (status == nullptr) return;
  const std::string message = api().GetErrorMessage(status);
  api().ReleaseStatus(status);
  throw std::runtime_error("ONNX Runtime: " + message);
}

struct Release {
  void operator()(OrtEnv* p) const noexcept { api().ReleaseEnv(p); }
  void operator()(OrtSessionOptions* p) const noexcept { api().ReleaseSessionOptions(p); }
  void operator()(OrtSession* p) const noexcept { api().ReleaseSession(p); }
  void operator()(OrtMemoryInfo* p) const noexcept { api().ReleaseMemoryInfo(p); }
  void operator()(OrtValue* p) const noexcept { api().ReleaseValue(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Release>;

/// What a function of the interface makes through its last argument.
template <class T, class Make>
Owned<T> made(Make&& make) {
  T* result = nullptr;
  need(make(&result));
  return Owned<T>(result);
}

class OnnxRuntime : public Peer {
 public:
  explicit OnnxRuntime(const PeerInput& input)
      : query_(input.query),
        keys_(input.keys.bottomRows(input.shape.q_len)),
        values_(input.values.bottomRows(input.shape.q_len)),
        past_keys_(by_heads(input.keys, input.shape.kv_heads)),
        past_values_(by_heads(input.values, input.shape.kv_heads)),
        context_(input.query.rows(), input.query.cols()),
        last_key_(static_cast<std::int32_t>(input.shape.kv_len() - 1)),
        kv_len_(static_cast<std::int32_t>(input.shape.kv_len())),
        node_(node_of(input.shape)) {
    static const Owned<OrtEnv> environment =
        made<OrtEnv>([](OrtEnv** out) { return api().CreateEnv(ORT_LOGGING_LEVEL_ERROR, "bench", out); });
    const auto options =
        made<OrtSessionOptions>([](OrtSessionOptions** out) { return api().CreateSessionOptions(out); });
    need(api().SetIntraOpNumThreads(options.get(), 1));
    const std::string model = onnx::model(node_);
    session_ = made<OrtSession>([&](OrtSession** out) {
      return api().CreateSessionFromArray(environment.get(), model.data(), model.size(), options.get(), out);
    });
    memory_ = made<OrtMemoryInfo>(
        [](OrtMemoryInfo** out) { return api().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, out); });
    const std::array<void*, 7> inputs{query_.data(),       keys_.data(), values_.data(), past_keys_.data(),
                                      past_values_.data(), &last_key_,   &kv_len_};
    for (std::size_t i = 0; i < inputs.size(); ++i) bind(node_.inputs[i], inputs[i], input_names_, inputs_);
    const std::array<void*, 3> outputs{context_.data(), past_keys_.data(), past_values_.data()};
    for (std::size_t i = 0; i < outputs.size(); ++i) bind(node_.outputs[i], outputs[i], output_names_, outputs_);
  }
  void run() override {
    need(api().Run(session_.get(), nullptr, input_names_.data(), inputs_.data(), inputs_.size(), output_names_.data(),
                   output_names_.size(), outputs_.data()));
  }
  void read(Matrix<float>& context) const override { context = context_; }

 private:
  static onnx::Node node_of(const Shape& s) {
    using onnx::Element;
    const std::vector<std::int64_t> rows{1, s.q_len, s.heads * s.head_dim},
        kv_rows{1, s.q_len, s.kv_heads * s.head_dim}, cache{1, s.kv_heads, s.kv_len(), s.head_dim};
    return {.op_type = "GroupQueryAttention",
            .domain = "com.microsoft",
            .attributes = {{"num_heads", s.heads}, {"kv_num_heads", s.kv_heads}},
            .inputs = {{"query", Element::float32, rows},
                       {"key", Element::float32, kv_rows},
                       {"value", Element::float32, kv_rows},
                       {"past_key", Element::float32, cache},
                       {"past_value", Element::float32, cache},
                       {"seqlens_k", Element::int32, {1}},
                       {"total_sequence_length", Element::int32, {}}},
            .outputs = {{"output", Element::float32, rows},
                        {"present_key", Element::float32, cache},
                        {"present_value", Element::float32, cache}}};
  }

  template <class Values>
  void bind(const onnx::Tensor& tensor, void* data, std::vector<const char*>& names, Values& values) {
    std::size_t bytes = 4;
    for (const std::int64_t d : tensor.shape) bytes *= at(d);
    const auto type = tensor.element == onnx::Element::float32 ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
                                                               : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    owned_.push_back(made<OrtValue>([&](OrtValue** out) {
      return api().CreateTensorWithDataAsOrtValue(memory_.get(), data, bytes, tensor.shape.data(), tensor.shape.size(),
                                                  type, out);
    }));
    names.push_back(tensor.name);
    values.push_back(owned_.back().get());
  }

  Matrix<float> query_, keys_, values_;
  std::vector<float> past_keys_, past_values_;
  Matrix<float> context_;
  std::int32_t last_key_, kv_len_;
  onnx::Node node_;
  Owned<OrtSession> session_;
  Owned<OrtMemoryInfo> memory_;
  std::vector<Owned<OrtValue>> owned_;
  std::vector<const char*> input_names_, output_names_;
  std::vector<const OrtValue*> inputs_;
  std::vector<OrtValue*> outputs_;
};

}  // namespace

std::string onnxruntime_version() { return OrtGetApiBase()->GetVersionString(); }
std::unique_ptr<Peer> make_onnxruntime(const PeerInput& input) { return std::make_unique<OnnxRuntime>(input); }

}  // namespace bench
