// Measures how long it takes to resolve COUNT addresses, spread evenly over the code of an ELF file, to functions,
// inlined functions, files and lines.
//
//   symbols_bench FILE COUNT [CACHE_DIRECTORY]
//
// Prints seconds, number of frames and peak memory: without a cache, and with CACHE_DIRECTORY while filling the cache
// and from the filled cache.
#include <fcntl.h>
#include <gelf.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <elfutils/libdwelf.h>
#include <string>
#include <vector>

#include "analyzer/symbols/symbolizer.h"

namespace {

struct Code {
  std::uint64_t begin = 0, bytes = 0;
  std::string build_id;
};

Code code_of(const char* path) {
  Code code;
  elf_version(EV_CURRENT);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  Elf* const elf = fd < 0 ? nullptr : elf_begin(fd, ELF_C_READ_MMAP, nullptr);
  if (elf == nullptr) return code;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || (header.sh_flags & SHF_EXECINSTR) == 0) continue;
    if (header.sh_size > code.bytes) code.begin = header.sh_addr, code.bytes = header.sh_size;
  }
  const void* id = nullptr;
  const ssize_t size = dwelf_elf_gnu_build_id(elf, &id);
  for (ssize_t i = 0; i < size; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<const unsigned char*>(id)[i]);
    code.build_id += digits;
  }
  elf_end(elf);
  close(fd);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace heapprof::symbols;
  if (argc < 3) return 2;
  const Code code = code_of(argv[1]);
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  if (code.bytes == 0 || count == 0) return 1;
  std::vector<CodeAddress> addresses;
  for (std::uint64_t i = 0; i < count; ++i) addresses.push_back({0, code.begin + i * code.bytes / count});
  const auto run = [&](const char* what, const std::string& cache) {
    Options options;
    options.cache_directory = cache;
    const auto start = std::chrono::steady_clock::now();
    Symbolizer symbolizer({{argv[1], code.build_id}}, options);
    std::uint64_t frames = 0, named = 0, lines = 0;
    for (const auto& of_address : symbolizer.resolve(addresses)) {
      frames += of_address.size();
      named += !of_address.back().function.empty();
      lines += of_address.front().line != 0;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%-22s %7.2f s  %llu addresses, %llu named, %llu with a line, %llu frames  %ld MB\n", what,
                seconds.count(), static_cast<unsigned long long>(count), static_cast<unsigned long long>(named),
                static_cast<unsigned long long>(lines), static_cast<unsigned long long>(frames),
                usage.ru_maxrss / 1024);
    std::fflush(stdout);
    for (const std::string& warning : symbolizer.warnings()) std::printf("  %s\n", warning.c_str());
  };
  run("from the file", "");
  if (argc > 3) {
    run("filling the cache", argv[3]);
    run("from the cache", argv[3]);
  }
}
