// Speculative decoding: a tree of drafts is verified in one call, the accepted path is kept, the rest rolled back.
//
// The drafts are what followed the last token earlier in the text ("prompt lookup"): free, and right where a text
// repeats itself. Tokens and logits are those of greedy decoding token by token, bit for bit.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "llama2c/checkpoint.hpp"
#include "llama2c/model.hpp"
#include "llama2c/tokenizer.hpp"

namespace {

using Model = llama2c::Model<float>;
using Index = lockstep::Index;

struct Text {
  std::vector<int> tokens;
  std::vector<float> logits;  // those that each token behind the prompt was taken from
  int calls = 0;
};

// Appends the likeliest token to the text.
int take_greedy(Text& text, const Model::Matrix& logits, Index row) {
  Index token = 0;
  logits.row(row).maxCoeff(&token);
  text.tokens.push_back(static_cast<int>(token));
  text.logits.insert(text.logits.end(), logits.row(row).data(), logits.row(row).data() + logits.cols());
  return text.tokens.back();
}

// A tree in the order in which it grew. Node 0 is the last token of the text, which the caches do not hold yet.
struct DraftTree {
  std::vector<int> tokens;
  std::vector<Index> parents;

  // The child of `parent` with that token, or -1.
  Index child(Index parent, int token) const {
    for (std::size_t i = 1; i < tokens.size(); ++i)
      if (parents[i] == parent && tokens[i] == token) return static_cast<Index>(i);
    return -1;
  }
};

// What followed the last token the latest three times it stood in the text before, four tokens each.
DraftTree draft(std::span<const int> text) {
  DraftTree tree{{text.back()}, {-1}};
  int branches = 3;
  for (std::size_t i = text.size() - 1; i-- > 0 && branches > 0;) {
    if (text[i] != text.back()) continue;
    --branches;
    Index node = 0;
    for (const int token : text.subspan(i + 1, std::min<std::size_t>(4, text.size() - i - 1))) {
      Index next = tree.child(node, token);
      if (next < 0) {
        next = static_cast<Index>(tree.tokens.size());
        tree.tokens.push_back(token);
        tree.parents.push_back(node);
      }
      node = next;
    }
  }
  return tree;
}

Text decode_greedily(const Model& model, std::vector<int> prompt, std::size_t length) {
  Text text{std::move(prompt), {}, 0};
  auto caches = model.make_caches(static_cast<Index>(length));
  take_greedy(text, model.forward(text.tokens, caches), static_cast<Index>(text.tokens.size()) - 1);
  for (; text.tokens.size() < length; ++text.calls)
    take_greedy(text, model.forward(std::span(text.tokens).last(1), caches), 0);
  return text;
}

Text decode_by_drafts(const Model& model, std::vector<int> prompt, std::size_t length) {
  Text text{std::move(prompt), {}, 0};
  auto caches = model.make_caches(static_cast<Index>(length) + 16);  // and room for a tree
  take_greedy(text, model.forward(text.tokens, caches), static_cast<Index>(text.tokens.size()) - 1);
  for (; text.tokens.size() < length; ++text.calls) {
    const Index context = caches.length();
    const DraftTree tree = draft(text.tokens);
    const Model::Matrix logits = model.forward_tree(tree.tokens, tree.parents, caches);
    std::vector<Index> path;
    for (Index node = 0; node >= 0 && text.tokens.size() < length;) {
      path.push_back(node);
      node = tree.child(node, take_greedy(text, logits, node));
    }
    model.keep(caches, context, path);
  }
  return text;
}

int run() {
  const llama2c::Checkpoint checkpoint(LOCKSTEP_EXAMPLE_MODEL "/kjv.bin");
  const llama2c::Tokenizer tokenizer(LOCKSTEP_EXAMPLE_MODEL "/kjv_tokenizer.bin", checkpoint.config().vocab);
  const Model model(checkpoint);
  const std::vector<int> prompt = tokenizer.encode("And the sons of");
  constexpr std::size_t length = 200;

  const Text greedy = decode_greedily(model, prompt, length), drafted = decode_by_drafts(model, prompt, length);
  std::cout << tokenizer.decode(drafted.tokens) << "\n\n"
            << length - prompt.size() - 1 << " tokens: " << greedy.calls << " calls token by token, " << drafted.calls
            << " with drafts\n";
  const bool same = greedy.tokens == drafted.tokens && greedy.logits.size() == drafted.logits.size() &&
                    std::memcmp(greedy.logits.data(), drafted.logits.data(), sizeof(float) * greedy.logits.size()) == 0;
  std::cout << (same ? "same tokens, same bits of all logits\n" : "the drafts changed the result\n");
  return same && drafted.calls < greedy.calls ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << "speculative: " << error.what() << '\n';
    return 2;
  }
}
