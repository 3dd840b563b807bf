// Is there such a program, and can a preloaded library record it?
//
// LD_PRELOAD works through the program's dynamic loader. It does nothing in a static program, and the loader
// ignores it in one that gains privileges; both would run unrecorded and the user would wonder. So the file,
// or for a script its interpreter, is looked at before anything starts.
#pragma once

#include <string>

namespace heapprof::launch {

/// What a program must be like to be recorded: that of libheapprof.so.
struct Architecture {
  int elf_class = 0;    ///< ELFCLASS32 or ELFCLASS64
  int data = 0;         ///< ELFDATA2LSB or ELFDATA2MSB
  unsigned machine = 0; ///< EM_...
};

/// Reads the architecture of an ELF file; false: it is not one.
bool read_architecture(const std::string& path, Architecture& architecture);

/// Why a program is not started.
struct Refusal {
  int exit_status = 0;  ///< 126 or 127, as shells have it
  std::string text;     ///< one line: the reason, and what to do where something can be done
};

/// Finds `name` as execvp(3) does, by PATH unless it has a slash. False: `refusal` says why.
bool find_program(const std::string& name, std::string& path, Refusal& refusal);

/// Whether the file at `path` can be recorded. False: `refusal` says why not. `loader`: the file's own dynamic loader
/// when it has file capabilities (capabilities.h has the rest), else empty.
bool check_program(const std::string& path, const Architecture& recorder, std::string& loader, Refusal& refusal);

}  // namespace heapprof::launch
