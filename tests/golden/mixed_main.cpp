// Layers begun, filled and decoded by two translation units with different flags in turn, each with each of the
// instruction sets forced: the same bits, whoever does what. In one program both are linked together; with --apart, one
// of them is a shared library with hidden visibility, which then forces its own instruction set and not the program's.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "mixed.hpp"

namespace {

int failures = 0;

void expect(bool holds, const char* what, const char* a, const char* b) {
  if (holds) return;
  ++failures;
  std::printf("not so: %s (%s, %s)\n", what, a, b);
}

/// The bits of one session, to which each of three may contribute.
std::uint64_t run(const mixed::Part& begins, const mixed::Part& fills, const mixed::Part& decodes) {
  constexpr int prompt = 19, decoded = 5;
  mixed::Session* session = begins.begin();
  fills.forward(session, prompt);
  for (int i = 0; i < decoded; ++i) (i % 2 == 0 ? decodes : fills).forward(session, 1);
  char said[240];
  std::snprintf(said, sizeof said, "%s", fills.refusal(session));
  expect(std::strstr(said, "to append to 24, allowed 40 in all") != nullptr, "the cache has been filled", said, "");
  expect(std::strcmp(said, decodes.refusal(session)) == 0, "both say the same", said, decodes.refusal(session));
  return decodes.end(session);
}

}  // namespace

int main(int argc, char** argv) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::printf("SKIPPED: this CPU lacks AVX2, for which one of the translation units is compiled\n");
    return 77;
  }
#endif
  const bool apart = argc > 1 && std::strcmp(argv[1], "--apart") == 0;
  const char* const best[] = {mixed::plain.set(), mixed::other.set()};
  expect(std::strcmp(best[0], best[1]) == 0, "both begin with the best set", best[0], best[1]);
  std::uint64_t first_hash = 0;
  for (const char* plain_set : {best[0], "portable"})
    for (const char* other_set : {best[1], "portable"}) {
      mixed::other.force(other_set);
      mixed::plain.force(plain_set);
      expect(std::strcmp(mixed::plain.set(), plain_set) == 0, "what is forced is in use", mixed::plain.set(),
             plain_set);
      const char* expected = apart ? other_set : plain_set;
      expect(std::strcmp(mixed::other.set(), expected) == 0,
             apart ? "a hidden library keeps its own set" : "a program has one set", mixed::other.set(), expected);
      for (const auto* begins : {&mixed::plain, &mixed::other})
        for (const auto* fills : {&mixed::plain, &mixed::other})
          for (const auto* decodes : {&mixed::plain, &mixed::other}) {
            const std::uint64_t hash = run(*begins, *fills, *decodes);
            if (first_hash == 0) first_hash = hash;
            if (hash == first_hash) continue;
            ++failures;
            std::printf("%s begins, %s fills, %s decodes, sets %s and %s: 0x%016" PRIx64 ", before it was 0x%016" PRIx64
                        "\n",
                        begins->name, fills->name, decodes->name, plain_set, other_set, hash, first_hash);
          }
    }
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
