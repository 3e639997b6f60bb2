// Continuous batching: sequences join and leave between calls, and each call takes the new ones' prompts together with
// one token of each that is under way. Every answer has the bits that it has alone.
//
// What all prompts begin with is run once: a new sequence is a fork of it, whose pages are shared until they are
// written.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <iterator>
#include <list>
#include <span>
#include <string>
#include <vector>

#include "llama2c/bit_check.hpp"
#include "llama2c/checkpoint.hpp"
#include "llama2c/model.hpp"
#include "llama2c/tokenizer.hpp"
#include "lockstep/cache/paged.hpp"

namespace {

using Model = llama2c::Model<float, lockstep::PagedCache<>>;
using Index = lockstep::Index;

constexpr const char* common_prompt = "And the LORD said unto";

struct Request {
  const char* prompt;
  int arrives;         // before this call
  std::size_t answer;  // tokens
};
constexpr Request requests[]{{"And the LORD said unto Moses, Speak unto the children of Israel", 0, 24},
                             {"And the LORD said unto Noah", 0, 12},
                             {"And the LORD said unto David, Arise, go down", 4, 16},
                             {"And the LORD said unto Jonah", 9, 30},
                             {"And the LORD said unto Abraham, I will bless", 20, 20}};

struct Sequence {
  Model::Caches caches;
  std::vector<int> tokens;
  std::size_t length;  // after which it leaves
  llama2c::BitCheck<Model> bits;

  std::span<const int> unseen() const { return std::span(tokens).subspan(static_cast<std::size_t>(caches.length())); }
};

class Server {
 public:
  Server(const Model& model, const llama2c::Tokenizer& tokenizer)
      : model_(model),
        tokenizer_(tokenizer),
        pool_({model.config().kv_heads, model.config().head_dim(), model.config().head_dim()}, 64),
        prefix_(model.make_caches([this](const auto& layer) { return layer.make_cache(256, pool_); })) {
    prefix_tokens_ = tokenizer.encode(common_prompt);
    static_cast<void>(model_.forward(prefix_tokens_, prefix_));
  }

  bool idle() const { return sequences_.empty(); }

  void join(const Request& request) {
    std::vector<int> tokens = tokenizer_.encode(request.prompt);
    // At least one token is left to run: its logits say how the text goes on.
    const auto common = std::mismatch(tokens.begin(), tokens.end() - 1, prefix_tokens_.begin(), prefix_tokens_.end());
    Model::Caches fork = prefix_;
    fork.truncate(common.first - tokens.begin());
    const std::size_t length = tokens.size() + request.answer;
    sequences_.push_back({std::move(fork), std::move(tokens), length, llama2c::BitCheck(model_)});
  }

  // One call of all sequences; returns how many that left have the bits of being alone.
  int step() {
    std::vector<int> tokens;
    std::vector<Index> lengths;
    std::vector<Model::Caches*> caches;
    for (Sequence& sequence : sequences_) {
      const auto unseen = sequence.unseen();
      tokens.insert(tokens.end(), unseen.begin(), unseen.end());
      lengths.push_back(static_cast<Index>(unseen.size()));
      caches.push_back(&sequence.caches);
    }
    const Model::Matrix logits = model_.forward(tokens, lengths, caches);
    ++calls_;
    if (*std::max_element(lengths.begin(), lengths.end()) > 1) {
      std::cout << "call " << calls_ << " takes";
      for (const Index length : lengths) std::cout << ' ' << length;
      std::cout << " tokens, " << pool_.pages() - pool_.free_pages() << " pages in use\n";
    }

    Index first = 0;
    std::size_t b = 0;
    for (Sequence& sequence : sequences_) {
      const Index rows = lengths[b++];
      sequence.bits.compare(logits.middleRows(first, rows), sequence.tokens);
      first += rows;
      Index next = 0;
      logits.row(first - 1).maxCoeff(&next);
      sequence.tokens.push_back(static_cast<int>(next));
    }
    int good = 0;
    sequences_.remove_if([&](const Sequence& sequence) {
      if (sequence.tokens.size() < sequence.length) return false;
      std::cout << "  \"" << tokenizer_.decode(sequence.tokens) << "\"\n  " << sequence.bits << '\n';
      good += sequence.bits.passed();
      return true;
    });
    return good;
  }

 private:
  const Model& model_;
  const llama2c::Tokenizer& tokenizer_;
  lockstep::PagePool<float> pool_;
  Model::Caches prefix_;
  std::vector<int> prefix_tokens_;
  std::list<Sequence> sequences_;
  int calls_ = 0;
};

int run() {
  const llama2c::Checkpoint checkpoint(LOCKSTEP_EXAMPLE_MODEL "/kjv.bin");
  const llama2c::Tokenizer tokenizer(LOCKSTEP_EXAMPLE_MODEL "/kjv_tokenizer.bin", checkpoint.config().vocab);
  const Model model(checkpoint);
  Server server(model, tokenizer);
  int good = 0;
  auto next = std::begin(requests);
  for (int call = 0; next != std::end(requests) || !server.idle(); ++call) {
    for (; next != std::end(requests) && next->arrives <= call; ++next) server.join(*next);
    if (!server.idle()) good += server.step();
  }
  std::cout << good << " of " << std::size(requests) << " answers have the bits that they have alone\n";
  return good == std::ssize(requests) ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << "batch_server: " << error.what() << '\n';
    return 2;
  }
}
