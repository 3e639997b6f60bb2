// ggml's fused attention, as llama.cpp calls it, on keys and values in float.
#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <limits>
#include <stdexcept>

#include "adapters.hpp"

namespace bench {

namespace {

struct Free {
  void operator()(ggml_context* c) const noexcept { ggml_free(c); }
  void operator()(ggml_backend_buffer* b) const noexcept { ggml_backend_buffer_free(b); }
  void operator()(ggml_backend* b) const noexcept { ggml_backend_free(b); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

template <class T>
T* given(T* pointer, const char* what) {
  if (pointer == nullptr) throw std::runtime_error(std::string("ggml: ") + what + " failed");
  return pointer;
}

class Ggml : public Peer {
 public:
  explicit Ggml(const PeerInput& input) : shape_(input.shape) {
    const Shape& s = input.shape;
    constexpr std::size_t tensors = 16;
    context_.reset(given(ggml_init({.mem_size = tensors * ggml_tensor_overhead() + ggml_graph_overhead(),
                                    .mem_buffer = nullptr,
                                    .no_alloc = true}),
                         "ggml_init"));
    ggml_context* c = context_.get();
    // Sizes go from the inside out. Some versions want the rows of a mask to be a multiple of 64.
    constexpr Index mask_rows_unit = 64;
    const Index mask_rows = (s.q_len + mask_rows_unit - 1) / mask_rows_unit * mask_rows_unit;
    ggml_tensor* q = ggml_new_tensor_3d(c, GGML_TYPE_F32, s.head_dim, s.q_len, s.heads);
    ggml_tensor* k = ggml_new_tensor_3d(c, GGML_TYPE_F32, s.head_dim, s.kv_len(), s.kv_heads);
    ggml_tensor* v = ggml_new_tensor_3d(c, GGML_TYPE_F32, s.head_dim, s.kv_len(), s.kv_heads);
    ggml_tensor* mask = ggml_new_tensor_2d(c, GGML_TYPE_F16, s.kv_len(), mask_rows);
    result_ = ggml_flash_attn_ext(c, q, k, v, mask, 1 / std::sqrt(static_cast<float>(s.head_dim)), 0, 0);
    graph_ = ggml_new_graph(c);
    ggml_build_forward_expand(graph_, result_);

    ggml_backend_load_all();
    backend_.reset(given(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr), "making a CPU backend"));
    use_one_thread();
    buffer_.reset(given(ggml_backend_alloc_ctx_tensors(c, backend_.get()), "allocating tensors"));
    set(q, by_heads(input.query, s.heads));
    set(k, by_heads(input.keys, s.kv_heads));
    set(v, by_heads(input.values, s.kv_heads));
    std::vector<ggml_fp16_t> hidden(at(mask_rows * s.kv_len()),
                                    ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity()));
    for (Index i = 0; i < s.q_len; ++i)
      std::fill_n(hidden.begin() + i * s.kv_len(), s.past + i + 1, ggml_fp32_to_fp16(0));
    set(mask, hidden);
  }
  void run() override {
    if (ggml_backend_graph_compute(backend_.get(), graph_) != GGML_STATUS_SUCCESS)
      throw std::runtime_error("ggml: computing failed");
  }
  void read(Matrix<float>& context) const override {
    context.resize(shape_.q_len, shape_.heads * shape_.head_dim);
    ggml_backend_tensor_get(result_, context.data(), 0, at(context.size()) * sizeof(float));
  }

 private:
  void use_one_thread() {
    ggml_backend_reg_t library = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend_.get()));
    void* function = given(ggml_backend_reg_get_proc_address(library, "ggml_backend_set_n_threads"),
                           "finding ggml_backend_set_n_threads");
    reinterpret_cast<ggml_backend_set_n_threads_t>(function)(backend_.get(), 1);
  }
  template <class T>
  static void set(ggml_tensor* tensor, const std::vector<T>& numbers) {
    ggml_backend_tensor_set(tensor, numbers.data(), 0, numbers.size() * sizeof(T));
  }

  Shape shape_;
  Owned<ggml_context> context_;
  Owned<ggml_backend> backend_;
  Owned<ggml_backend_buffer> buffer_;
  ggml_cgraph* graph_ = nullptr;
  ggml_tensor* result_ = nullptr;
};

}  // namespace

std::string ggml_library_version() { return ggml_version(); }
std::unique_ptr<Peer> make_ggml(const PeerInput& input) { return std::make_unique<Ggml>(input); }

}  // namespace bench
