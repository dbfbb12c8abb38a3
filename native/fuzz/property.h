// The properties that every target checks. If one does not hold, the process ends, and libFuzzer keeps the input.
#ifndef NVRAR_FUZZ_PROPERTY_H
#define NVRAR_FUZZ_PROPERTY_H

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace nvrar::fuzz {

inline void require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", property);
  std::abort();
}

// Checks that an error message is printable, because it goes into logs and terminals.
inline void require_sentence(const char* text) {
  const size_t length = std::strlen(text);
  require(length > 0, "a failure has a sentence");
  require(length < 2048, "a sentence is short");
  for (size_t i = 0; i < length; ++i) {
    require(std::isprint(static_cast<unsigned char>(text[i])) != 0, "a sentence has printable characters only");
  }
}

// The resources that an attempt could leak in this process.
struct Belongings {
  size_t files = 0;
  size_t segments = 0;

  static Belongings now() {
    Belongings found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // the descriptor of the directory itself
      const std::string target = std::filesystem::read_symlink(entry, gone).string();
      if (target.rfind("pipe:", 0) != 0) ++found.files;  // libFuzzer communicates with its symbolizer by pipes
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/memfd:nvrar") != std::string::npos) ++found.segments;
    }
    return found;
  }
  static void require_as(const Belongings& before) {
    const Belongings after = now();
    if (after.files != before.files || after.segments != before.segments) {
      std::fprintf(stderr, "%zu open files, %zu segments; before %zu and %zu\n", after.files, after.segments,
                   before.files, before.segments);
    }
    require(after.files == before.files && after.segments == before.segments, "nothing stays behind");
  }
};

}  // namespace nvrar::fuzz

#endif  // NVRAR_FUZZ_PROPERTY_H
