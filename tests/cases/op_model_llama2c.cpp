// model_llama2c: a whole model from its checkpoint, in one pass, with caches in pieces, and writing on greedily.
#include <algorithm>
#include <span>

#include "llama2c/model.hpp"

#include "operations.hpp"
#include "tensors.hpp"

namespace cases {
namespace {

template <class T>
class Run {
 public:
  using Model = llama2c::Model<T>;
  using Logits = typename Model::Matrix;

  explicit Run(const Case& test) : model_(llama2c::Checkpoint(test.root / test.text("model_file"))) {
    for (const double token : test.input("tokens").values) {
      if (!(token >= 0 && token < static_cast<double>(vocab())))
        throw BadCase("tokens: given " + std::to_string(token) + ", allowed 0 to " + std::to_string(vocab() - 1));
      tokens_.push_back(static_cast<int>(token));
    }
  }

  Index vocab() const { return model_.config().vocab; }
  Index tokens() const { return static_cast<Index>(tokens_.size()); }

  /// Logits of every position without a cache.
  std::vector<T> in_one_pass() const {
    const Logits logits = model_.forward(tokens_);
    return {logits.data(), logits.data() + logits.size()};
  }

  /// The same through caches, this many tokens at a time.
  std::vector<T> in_pieces(Index piece) const {
    auto caches = model_.make_caches(tokens());
    std::vector<T> all;
    for (Index first = 0; first < tokens(); first += piece) {
      const Index count = std::min(piece, tokens() - first);
      const Logits logits = model_.forward(std::span<const int>(tokens_).subspan(at(first), at(count)), caches);
      all.insert(all.end(), logits.data(), logits.data() + logits.size());
    }
    return all;
  }

  /// What follows the first `prompt_len` tokens if the next one is always that of the largest logit.
  std::vector<T> greedy(Index prompt_len, Index count) const {
    if (prompt_len < 1 || prompt_len > tokens())
      throw BadCase("prompt_len: given " + std::to_string(prompt_len) + ", allowed 1 to " + std::to_string(tokens()));
    if (prompt_len + count > model_.config().positions)
      throw BadCase("greedy_tokens: given more tokens than the model has positions");
    auto caches = model_.make_caches(prompt_len + count);
    std::vector<int> next(tokens_.begin(), tokens_.begin() + prompt_len);
    std::vector<T> written;
    while (static_cast<Index>(written.size()) < count) {
      const Logits logits = model_.forward(next, caches);
      Eigen::Index largest = 0;
      logits.row(logits.rows() - 1).maxCoeff(&largest);
      next.assign(1, static_cast<int>(largest));
      written.push_back(static_cast<T>(largest));
    }
    return written;
  }

 private:
  Model model_;
  std::vector<int> tokens_;
};

template <class T>
void run(const Case& test, Report& report) {
  const Run<T> model(test);
  const std::vector<T> whole = model.in_one_pass();
  report.require_same_bits("token by token against one pass: logits", model.in_pieces(1), whole);
  report.require_same_bits("chunks of 7 against one pass: logits", model.in_pieces(7), whole);
  report.compare(test, "logits", whole);
  const Tensor& greedy = test.output("greedy_tokens");
  report.compare(test, "greedy_tokens",
                 model.greedy(test.integer("prompt_len"), static_cast<Index>(greedy.values.size())));
}

std::string no_limits(const Case&) { return {}; }

}  // namespace

const Operation model_llama2c{"model_llama2c", no_limits, run<float>, run<double>};

}  // namespace cases
