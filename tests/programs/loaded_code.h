// The code of a loaded library, to see whether the recorder patched it.
#pragma once

#include <link.h>

#include <cstddef>
#include <vector>

/// The executable segment of a loaded library.
struct Code {
  ElfW(Addr) load_bias;
  std::vector<char> bytes;
};

/// `plugin`: what dlopen returned.
inline std::vector<char> code_of(void* plugin) {
  Code code{static_cast<const link_map*>(plugin)->l_addr, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Code*>(data);
        if (info->dlpi_addr != wanted.load_bias) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const auto* const begin = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
            wanted.bytes.assign(begin, begin + segment.p_filesz);
        }
        return 1;
      },
      &code);
  return code.bytes;
}
