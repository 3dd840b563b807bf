// Finds a program and checks whether a preloaded library can record it.
//
// LD_PRELOAD works through the program's dynamic loader. It has no effect in a static program, and the loader ignores
// it in a program that gains privileges; both would run unrecorded without a message. So the file, or the interpreter
// of a script, is checked before anything starts.
#pragma once

#include <string>

namespace heapprof::launch {

/// The architecture of an ELF file. A program can be recorded if it has that of libheapprof.so.
struct Architecture {
  int elf_class = 0;     ///< ELFCLASS32 or ELFCLASS64
  int data = 0;          ///< ELFDATA2LSB or ELFDATA2MSB
  unsigned machine = 0;  ///< EM_...
};

/// Reads the architecture of an ELF file. False: it is not an ELF file.
bool read_architecture(const std::string& path, Architecture& architecture);

/// Why a program is not started.
struct Refusal {
  int exit_status = 0;  ///< 126 or 127, as in shells
  std::string text;     ///< one line: the reason, and what to do where something can be done
};

/// Finds `name` like execvp(3): in PATH unless it has a slash. False: `refusal` has the reason.
bool find_program(const std::string& name, std::string& path, Refusal& refusal);

/// Whether the file at `path` can be recorded. False: `refusal` has the reason. `loader` gets the file's dynamic
/// loader if the file has capabilities (plan_privileges() then decides how it is started), else it is empty.
bool check_program(const std::string& path, const Architecture& recorder, std::string& loader, Refusal& refusal);

}  // namespace heapprof::launch
