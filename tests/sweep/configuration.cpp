#include "configuration.hpp"

#include <algorithm>
#include <sstream>

namespace sweep {

namespace {

// Around the register tiles (up to 14 rows), the 16 lanes, 64-wide tiles, the row block of 84, blocks of 256 and splits
// of 1024 keys; and primes, which divide nothing. Queries and scores lie 256 numbers at a time: wider heads, too.
constexpr Index lengths[] = {0,   1,   2,   3,   5,    7,    8,    9,    13,   14,   15,   16,   17,   31,
                             32,  33,  48,  49,  63,   64,   65,   79,   83,   84,   85,   127,  128,  129,
                             191, 192, 193, 255, 256,  257,  271,  273,  383,  511,  512,  513,  521,  767,
                             769, 800, 997, 999, 1021, 1023, 1024, 1025, 1039, 1041, 1279, 1281, 1536, 1789};
constexpr Index long_lengths[] = {1023, 1024, 1025, 1280, 1537, 2047, 2048, 2049,
                                  2303, 2305, 3001, 3072, 3073, 4096, 4099};
constexpr Index head_dims[] = {1,  2,  3,  4,  5,  7,  8,   15,  16,  17,  20,  31,  32,  33,  48,
                               63, 64, 64, 65, 80, 96, 100, 112, 128, 128, 144, 160, 256, 257, 320};
constexpr Index groups[] = {1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 7, 8, 8, 9, 12, 16};

/// Above this, a configuration is made smaller.
constexpr double most_cost = 30;

template <class E>
int number_of(E e) {
  return static_cast<int>(e);
}

}  // namespace

Configuration::Configuration(std::uint64_t n) : number(n) {
  Integers random(n * 0x2545F4914F6CDD1Du + 11);
  layer = random.one_in(5);
  storage = static_cast<Storage>(random.below(layer ? 4 : 5));
  draw_heads(random);
  draw_mask(random);
  // Codes are made of finite numbers only.
  numbers = random.one_in(8) && storage != Storage::of_int8 ? Numbers::wild
            : random.one_in(6)                              ? Numbers::large
                                                            : Numbers::plain;
  garbage = random.one_in(3) ? Garbage::infinity : Garbage::nan;
  concurrency = random.pick({Index{1}, Index{1}, Index{2}, Index{3}, Index{7}, Index{16}});
  threads = concurrency == 1 ? Threads::caller : random.one_in(2) ? Threads::real : Threads::reversed;
  if (random.one_in(4)) dropout = random.pick({0.1, 0.5, 0.9});
  layer ? draw_layer(random) : draw_call(random);
}

void Configuration::draw_heads(Integers& random) {
  kv_heads = random.pick({Index{1}, Index{1}, Index{2}, Index{3}});
  heads = kv_heads * random.pick(groups);
  head_dim = random.pick(head_dims);
  v_head_dim = random.one_in(3) ? random.pick(head_dims) : head_dim;
}

void Configuration::draw_mask(Integers& random) {
  // Masks beside these two are compiled with float only: what they change in a kernel does not depend on the storage.
  mask = static_cast<MaskKind>(storage == Storage::of_float && !layer ? random.below(7) : random.below(2));
  irregular.pattern = static_cast<Irregular::Pattern>(random.below(6));
  irregular.size =
      random.pick({Index{1}, Index{2}, Index{3}, Index{15}, Index{16}, Index{100}, Index{256}, Index{300}});
  irregular.seed = random.next();
  irregular.causal = layer || !random.one_in(3);
  irregular.by_head = random.one_in(3);
  irregular.tight = random.one_in(2);
  irregular.telling = !random.one_in(3);
}

void Configuration::draw_call(Integers& random) {
  const Index sequences = random.one_in(4) ? random.pick({Index{2}, Index{3}, Index{5}}) : 1;
  const Index group = heads / kv_heads;
  switch (random.below(6)) {
    case 0:
    case 1:
      q_len = 1;
      break;
    case 2:
      q_len = 2 + random.below(8);
      break;
    case 3:
      q_len = std::max<Index>(0, random.pick({Index{84}, Index{168}}) / group + random.below(3) - 1);
      break;
    default:
      q_len = random.pick(lengths);
      break;
  }
  kv_len.clear();
  for (Index b = 0; b < sequences; ++b)
    kv_len.push_back(q_len <= 16 && random.one_in(2) ? random.pick(long_lengths) : random.pick(lengths));
  // Mostly the chunk at the end of its sequence, as a cache has it.
  if (q_len > longest() && !random.one_in(6)) kv_len[0] = q_len + random.below(40);
  if (random.one_in(4)) offset = random.below(longest() + q_len + 8) - q_len - 3;
  while (cost() > most_cost && q_len > 1) q_len = q_len * 2 / 3;
  while (cost() > most_cost && batch() > 1) kv_len.pop_back();
  while (cost() > most_cost && kv_heads > 1) heads /= kv_heads, kv_heads = 1;
  if (random.one_in(3)) q_gap = 1 + random.below(20);
  if (random.one_in(3)) context_gap = 1 + random.below(20);
  if (random.one_in(6)) q_step = 2;
  if (random.one_in(6)) context_step = 3;
  lse = !random.one_in(3);
  weights = random.one_in(4) && static_cast<Index>(kv_len.size()) * heads * q_len * longest() < 1'000'000;
}

void Configuration::draw_layer(Integers& random) {
  head_dim = std::max<Index>(head_dim, 2);
  hidden = random.pick(
      {Index{1}, Index{7}, Index{16}, Index{33}, Index{64}, Index{65}, Index{96}, Index{200}, Index{257}, Index{530}});
  rotary_dim = random.one_in(3) ? 2 : head_dim / 2 * 2;
  biased = random.one_in(2);
  // NaN among the weights would only fill everything.
  if (numbers == Numbers::wild) numbers = Numbers::plain;
  q_len = random.one_in(4) ? random.pick(lengths) : random.below(60);
  kv_len.assign(random.one_in(3) ? at(random.pick({Index{2}, Index{3}})) : 1, q_len);
  while (cost() > most_cost && batch() > 1) kv_len.pop_back();
  while (cost() > most_cost && q_len > 1) q_len = q_len * 2 / 3;
  while (cost() > most_cost && hidden > 1) hidden /= 2;
  kv_len.assign(kv_len.size(), q_len);
  const Index chunk = random.pick({Index{1}, Index{2}, Index{5}, Index{17}, Index{64}, Index{100000}});
  for (Index left = q_len; left > 0; left -= plan.back()) plan.push_back(std::min(left, 1 + random.below(chunk)));
}

Index Configuration::longest() const { return *std::max_element(kv_len.begin(), kv_len.end()); }

double Configuration::cost() const {
  const double width = static_cast<double>(heads * (head_dim + v_head_dim));
  double sum = 0;
  for (const Index keys : kv_len) {
    sum += 2 * static_cast<double>(q_len * keys) * width;
    if (layer)
      sum +=
          4 * static_cast<double>(q_len * hidden) * (width + static_cast<double>(kv_heads * (head_dim + v_head_dim)));
  }
  return sum * 1e-6;
}

std::string Configuration::describe() const {
  static const char* const storages[] = {"float", "double", "half", "bfloat16", "int8"};
  static const char* const masks[] = {"causal", "irregular", "none", "offset", "padding", "either", "window"};
  static const char* const patterns[] = {"all", "window", "scattered", "striped", "spans", "single"};
  static const char* const sizes[] = {"plain", "large", "wild"};
  static const char* const orders[] = {"caller", "reversed", "real"};
  std::ostringstream text;
  text << (layer ? "layer " : "attend ") << storages[number_of(storage)] << " h" << heads << "_kvh" << kv_heads << "_d"
       << head_dim << "_v" << v_head_dim << "_q" << q_len << "_kv";
  for (std::size_t b = 0; b < kv_len.size(); ++b) text << (b == 0 ? "" : "+") << kv_len[b];
  if (offset) text << " offset " << *offset;
  text << " mask " << masks[number_of(mask)];
  if (mask != MaskKind::causal && mask != MaskKind::none)
    text << "(" << patterns[number_of(irregular.pattern)] << " " << irregular.size
         << (irregular.causal ? " causal" : "") << (irregular.by_head ? " by-head" : "")
         << (irregular.tight ? " tight" : "") << (irregular.telling ? " telling" : "") << ")";
  text << " dropout " << dropout << " numbers " << sizes[number_of(numbers)] << " garbage "
       << (garbage == Garbage::nan ? "nan" : "inf") << " threads " << concurrency << " " << orders[number_of(threads)];
  if (layer) {
    text << " hidden " << hidden << " rotary " << rotary_dim << (biased ? " biased" : "") << " plan";
    for (std::size_t i = 0; i < plan.size() && i < 8; ++i) text << " " << plan[i];
    if (plan.size() > 8) text << " ... (" << plan.size() << ")";
  } else {
    text << " q " << q_gap << "/" << q_step << " context " << context_gap << "/" << context_step << (lse ? " lse" : "")
         << (weights ? " weights" : "");
  }
  return text.str();
}

}  // namespace sweep
