// Layers begun, filled and decoded by two translation units with different flags in turn: the same bits, whoever does
// what.
#include <cinttypes>
#include <cstdio>
#include <initializer_list>

#include "mixed.hpp"

int main() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::printf("SKIPPED: this CPU lacks AVX2, for which one of the translation units is compiled\n");
    return 77;
  }
#endif
  constexpr int prompt = 19, decoded = 5;
  std::uint64_t first_hash = 0;
  int different = 0;
  for (const auto* begins : {&mixed::plain, &mixed::other})
    for (const auto* fills : {&mixed::plain, &mixed::other})
      for (const auto* decodes : {&mixed::plain, &mixed::other}) {
        mixed::Session* session = begins->begin();
        fills->forward(session, prompt);
        for (int i = 0; i < decoded; ++i) (i % 2 == 0 ? decodes : fills)->forward(session, 1);
        const std::uint64_t hash = decodes->end(session);
        if (first_hash == 0) first_hash = hash;
        different += hash != first_hash ? 1 : 0;
        std::printf("%s begins, %s fills, %s decodes: 0x%016" PRIx64 "\n", begins->name, fills->name, decodes->name,
                    hash);
      }
  return different == 0 ? 0 : 1;
}
