// Saved caches with anything changed in them: an error that changes nothing, or a cache that is whole.
#include <lockstep/cache/contiguous.hpp>
#include <lockstep/cache/paged.hpp>
#include <lockstep/cache/ring.hpp>
#include <lockstep/cache/save.hpp>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "fuzz.hpp"

namespace fuzz {
namespace {

namespace ls = lockstep;
using ls::Index;

constexpr std::size_t header_bytes = 80, checksum_bytes = 8;

template <class Cache>
std::string saved(const Cache& cache) {
  std::ostringstream out;
  ls::save_cache(cache, out);
  return out.str();
}

/// FNV-1a with 64 bits over all but the checksum, which it becomes.
void repair(std::string& stream) {
  if (stream.size() < checksum_bytes) return;
  std::uint64_t hash = 0xcbf29ce484222325u;
  const std::size_t end = stream.size() - checksum_bytes;
  for (std::size_t i = 0; i < end; ++i) hash = (hash ^ static_cast<unsigned char>(stream[i])) * 0x100000001b3u;
  for (std::size_t i = 0; i < checksum_bytes; ++i) stream[end + i] = static_cast<char>(hash >> (8 * i));
}

template <class Cache>
void append(Cache& cache, Index tokens) {
  const ls::CacheShape shape = cache.shape();
  std::vector<float> numbers;
  for (Index i = 0; i < tokens * shape.kv_heads * std::max(shape.head_dim, shape.v_head_dim); ++i)
    numbers.push_back(static_cast<float>(i % 251) - 125);
  cache.append(ls::View<const float, 3>::contiguous(numbers.data(), {tokens, shape.kv_heads, shape.head_dim}),
               ls::View<const float, 3>::contiguous(numbers.data(), {tokens, shape.kv_heads, shape.v_head_dim}));
}

/// One change of a stream.
void change(Bytes& in, std::string& stream) {
  constexpr std::uint64_t numbers[] = {0,
                                       1,
                                       255,
                                       256,
                                       257,
                                       300,
                                       511,
                                       512,
                                       1000,
                                       std::uint64_t{1} << 31,
                                       std::uint64_t{1} << 62,
                                       (std::uint64_t{1} << 63) - 1,
                                       (std::uint64_t{1} << 63) - 300,
                                       std::uint64_t{1} << 63,
                                       ~std::uint64_t{0},
                                       ~std::uint64_t{0} - 255};
  const auto place = [&] { return static_cast<std::size_t>(in.below(static_cast<Index>(stream.size()) + 1)); };
  switch (in.below(6)) {
    case 0:  // a bit
      if (const std::size_t at = place(); at < stream.size())
        stream[at] = static_cast<char>(stream[at] ^ (1 << in.below(8)));
      break;
    case 1:
      stream.resize(place());
      break;
    case 2:
      stream.insert(place(), 1 + in.byte() % 16, static_cast<char>(in.byte()));
      break;
    case 3:
      if (const std::size_t at = place(); at < stream.size()) stream.erase(at, 1 + in.byte());
      break;
    default:  // a number of the header
      const std::size_t at = 8 * static_cast<std::size_t>(in.below(header_bytes / 8));
      const std::uint64_t number = in.pick(numbers) + static_cast<std::uint64_t>(in.below(3)) - 1;
      for (std::size_t i = 0; i < 8 && at + i < stream.size(); ++i)
        stream[at + i] = static_cast<char>(number >> (8 * i));
  }
}

template <class Cache>
void restore(Bytes& in, Cache cache) {
  using S = typename Cache::Storage;
  const ls::CacheShape shape = cache.shape();
  append(cache, 5);
  cache.set_table(77);
  const std::string before = saved(cache);
  const ls::CacheShape other_shape = in.one_in(8) ? ls::CacheShape{1, 1, 1} : shape;
  std::string original, stream;
  bool repaired = true;
  if (in.one_in(4)) {
    stream = in.rest();
    original = stream;
  } else {
    constexpr Index lengths[] = {1, 0, 3, 255, 256, 257, 300, 600};
    const Index length = in.pick(lengths);
    if (in.one_in(2)) {
      ls::ContiguousCache<S> source(other_shape, length);
      append(source, length);
      original = saved(source);
    } else {
      ls::RingCache<S> source(other_shape, {.window = 1 + in.below(300), .slack = 600, .sink_tokens = in.below(2)});
      for (Index i = 0; i < 3; ++i) append(source, length);
      original = saved(source);
    }
    stream = original;
    repaired = in.one_in(2);
    while (!in.empty()) change(in, stream);
  }
  if (repaired) repair(stream);
  const bool whole = stream.size() >= original.size() && stream.compare(0, original.size(), original) == 0;
  std::istringstream source(stream);
  bool taken = true;
  try {
    ls::restore_cache(cache, source);
  } catch (const std::logic_error& error) {
    note(error.what());
    taken = false;
  }
  if (!taken) return require(saved(cache) == before, "a stream that is refused changes nothing");
  require(repaired || whole, "a stream with a byte changed is refused");
  const std::string after = saved(cache);
  if constexpr (!std::same_as<Cache, ls::RingCache<S>>)
    require(stream.compare(0, after.size(), after) == 0, "a cache holds what was in its stream");
  // It is of use.
  Cache copy = cache.empty_like();
  std::istringstream again(after);
  try {
    ls::restore_cache(copy, again);
    require(saved(copy) == after, "what was restored is restored again");
  } catch (const std::length_error&) {
    require(std::same_as<Cache, ls::PagedCache<S>>, "what was restored is restored again, if there are pages");
  }
  if (cache.check_append(3).ok()) {
    const Index length = cache.length();
    append(cache, 3);
    require(cache.length() == length + 3, "a restored cache goes on");
  }
  if (cache.check_truncate(cache.length() - 1).ok()) cache.truncate(cache.length() - 1);
  cache.clear();
  require(cache.length() == 0 && cache.missing_after(0).empty(), "a restored cache is cleared");
}

}  // namespace

void target(const std::uint8_t* data, std::size_t size) {
  Bytes in(data, size);
  const ls::CacheShape shape{1 + in.below(2), 1 + in.below(3), 1 + in.below(3)};
  switch (in.below(3)) {
    case 0:
      return restore(in, ls::ContiguousCache<std::int8_t>(shape, 900, {.initial = in.one_in(2) ? 0 : -1}));
    case 1:
      return restore(in, ls::RingCache<float>(shape, {.window = 1 + in.below(300), .sink_tokens = in.below(2)}));
    default:
      const ls::PagePool<float> pool(shape, 1 + in.below(6));
      restore(in, ls::PagedCache<float>(pool));
      require(pool.free_pages() == pool.pages(), "all pages come back");
  }
}

}  // namespace fuzz
