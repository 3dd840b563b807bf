#include "analyzer/launch/program.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "analyzer/launch/sanitizer.h"

namespace heapprof::launch {

namespace {

/// An interpreter may be a script again; the kernel follows at most five (fs/exec.c, exec_binprm).
constexpr int kMaxInterpreters = 5;
/// The kernel reads no more of a first line (BINPRM_BUF_SIZE).
constexpr std::size_t kMaxFirstLine = 256;

class File {
 public:
  explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  bool is_open() const { return fd_ >= 0; }
  /// Reads `size` bytes, or fewer where the file ends.
  std::string read(std::uint64_t offset, std::size_t size) const {
    std::string bytes(size, '\0');
    const ssize_t got = offset > INT64_MAX ? -1 : pread(fd_, bytes.data(), size, static_cast<off_t>(offset));
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }

 private:
  int fd_;
};

const char* architecture_name(const Architecture& architecture) {
  switch (architecture.machine) {
    case EM_386: return "i386";
    case EM_X86_64: return architecture.elf_class == ELFCLASS32 ? "x32" : "x86-64";
    case EM_AARCH64: return "aarch64";
    case EM_ARM: return "arm";
    case EM_RISCV: return "riscv";
    case EM_PPC64: return "ppc64";
    case EM_S390: return "s390";
    default: return "another architecture";
  }
}

bool read_ident(std::string_view bytes, Architecture& architecture) {
  if (bytes.size() < sizeof(Elf32_Ehdr) || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) return false;
  architecture.elf_class = static_cast<unsigned char>(bytes[EI_CLASS]);
  architecture.data = static_cast<unsigned char>(bytes[EI_DATA]);
  // e_machine has the same offset in both classes, and the file's byte order.
  const unsigned first = static_cast<unsigned char>(bytes[18]), second = static_cast<unsigned char>(bytes[19]);
  architecture.machine = architecture.data == ELFDATA2MSB ? first << 8 | second : second << 8 | first;
  return true;
}

/// The dynamic loader of an ELF file of this machine's class and byte order; empty: none; nullopt: the headers are
/// damaged.
std::optional<std::string> loader_of(const File& file) {
  Elf64_Ehdr header;
  const std::string start = file.read(0, sizeof header);
  if (start.size() != sizeof header) return std::nullopt;
  std::memcpy(&header, start.data(), sizeof header);
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return std::nullopt;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const std::string bytes = file.read(header.e_phoff + i * sizeof segment, sizeof segment);
    if (bytes.size() != sizeof segment) return std::nullopt;
    std::memcpy(&segment, bytes.data(), sizeof segment);
    if (segment.p_type != PT_INTERP) continue;
    if (segment.p_filesz == 0 || segment.p_filesz > PATH_MAX) return std::nullopt;
    const std::string name = file.read(segment.p_offset, segment.p_filesz);
    return name.substr(0, name.find('\0'));
  }
  return std::string();
}

/// Whether an ELF file of this machine's class and byte order has the note of Go's linker
/// (cmd/link/internal/ld/elf.go, ELF_NOTE_GOBUILDID_TAG), which stripping keeps.
bool is_go_program(const File& file) {
  constexpr std::uint32_t kBuildIdTag = 4;
  constexpr char kName[4] = {'G', 'o', '\0', '\0'};
  constexpr std::size_t kMaxNoteBytes = 64 << 10;
  Elf64_Ehdr header;
  const std::string start = file.read(0, sizeof header);
  if (start.size() != sizeof header) return false;
  std::memcpy(&header, start.data(), sizeof header);
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const std::string bytes = file.read(header.e_phoff + i * sizeof segment, sizeof segment);
    if (bytes.size() != sizeof segment) return false;
    std::memcpy(&segment, bytes.data(), sizeof segment);
    if (segment.p_type != PT_NOTE) continue;
    const std::string notes = file.read(segment.p_offset, std::min<std::size_t>(segment.p_filesz, kMaxNoteBytes));
    const std::size_t align = segment.p_align == 8 ? 8 : 4;
    const auto aligned = [align](std::size_t size) { return (size + align - 1) / align * align; };
    Elf64_Nhdr note;
    for (std::size_t at = 0; at + sizeof note <= notes.size();) {
      std::memcpy(&note, notes.data() + at, sizeof note);
      const std::size_t name = at + sizeof note;
      if (note.n_type == kBuildIdTag && note.n_namesz == sizeof kName && name + sizeof kName <= notes.size() &&
          std::memcmp(notes.data() + name, kName, sizeof kName) == 0)
        return true;
      at = name + aligned(note.n_namesz) + aligned(note.n_descsz);
    }
  }
  return false;
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat status_a {
  }, status_b{};
  return stat(a.c_str(), &status_a) == 0 && stat(b.c_str(), &status_b) == 0 && status_a.st_dev == status_b.st_dev &&
         status_a.st_ino == status_b.st_ino;
}

/// By its name, which is the same on every system (musl, Makefile, LDSO_PATHNAME).
bool is_musl_loader(const std::string& path) { return path.substr(path.rfind('/') + 1).starts_with("ld-musl-"); }

/// A dynamic loader is itself static, but executed as a program, it loads another program, with LD_PRELOAD.
bool is_loader(const std::string& path) {
  if (is_musl_loader(path)) return true;
  const File self("/proc/self/exe");
  if (!self.is_open()) return false;
  const std::optional<std::string> loader = loader_of(self);
  return loader && !loader->empty() && same_file(path, *loader);
}

bool refuse(Refusal& refusal, int exit_status, std::string text) {
  refusal = {exit_status, std::move(text)};
  return false;
}

bool check_elf(const std::string& path, const File& file, const Architecture& own, const Architecture& recorder,
               std::string& loader_to_use, Refusal& refusal) {
  if (own.elf_class != recorder.elf_class || own.data != recorder.data || own.machine != recorder.machine)
    return refuse(refusal, 126,
                  path + " is a program for " + architecture_name(own) + ", and this heapprof is for " +
                      architecture_name(recorder) + "; use a heapprof built for it");

  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    const bool setuid = (status.st_mode & S_ISUID) != 0;
    const bool setgid = (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0;
    if (setuid || setgid)
      return refuse(refusal, 126,
                    path + " is " + (setuid ? "setuid" : "setgid") +
                        ": its loader ignores LD_PRELOAD; record a copy without that bit, as the user "
                        "that it should run as, or see heapprof install-secure --help");
  }
  const std::optional<std::string> loader = loader_of(file);
  if (!loader) return refuse(refusal, 126, path + " cannot be executed: its ELF headers are damaged");
  if (loader->empty()) {
    if (is_loader(path)) return true;
    if (is_go_program(file))
      return refuse(refusal, 126,
                    path +
                        " is a statically linked Go program: it allocates from the heap of Go's runtime, which "
                        "heapprof cannot record; profile it with pprof (package runtime/pprof, or net/http/pprof "
                        "in a server)");
    return refuse(refusal, 126,
                  path +
                      " is statically linked: no library can be preloaded into it; link it "
                      "dynamically (without -static) to record it");
  }
  if (const std::string sanitizer = sanitizer_of(path); !sanitizer.empty())
    return refuse(refusal, 126,
                  path + " is built with " + sanitizer +
                      ", which replaces malloc and excludes any other "
                      "replacement; build it without -fsanitize to record it");
  if (access(loader->c_str(), F_OK) != 0)
    return refuse(refusal, 127,
                  path + " needs the loader " + *loader + ", which does not exist" +
                      (is_musl_loader(*loader) ? "; install musl" : ""));
  if (getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) loader_to_use = *loader;
  return true;
}

/// "#! interpreter argument": the interpreter.
std::string interpreter_of(std::string_view first_line) {
  first_line = first_line.substr(2, first_line.find('\n') - 2);
  const std::size_t begin = first_line.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  const std::size_t end = first_line.find_first_of(" \t\r", begin);
  return std::string(first_line.substr(begin, end - begin));
}

}  // namespace

bool read_architecture(const std::string& path, Architecture& architecture) {
  const File file(path);
  return file.is_open() && read_ident(file.read(0, sizeof(Elf64_Ehdr)), architecture);
}

bool find_program(const std::string& name, std::string& path, Refusal& refusal) {
  /// 0, or errno: why the file cannot be executed.
  const auto problem_of = [](const std::string& candidate) {
    struct stat status {};
    if (stat(candidate.c_str(), &status) != 0) return errno;
    if (S_ISDIR(status.st_mode)) return EISDIR;
    if (!S_ISREG(status.st_mode)) return EACCES;
    return faccessat(AT_FDCWD, candidate.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
  };
  if (name.find('/') != std::string::npos) {
    path = name;
    const int problem = problem_of(name);
    if (problem == 0) return true;
    const bool missing = problem == ENOENT || problem == ENOTDIR;
    return refuse(refusal, missing ? 127 : 126,
                  name + " cannot be executed: " + std::strerror(problem) +
                      (problem == EACCES ? "; is it executable (chmod +x)?" : ""));
  }
  const char* variable = std::getenv("PATH");
  const std::string directories = variable != nullptr ? variable : "/bin:/usr/bin";
  std::string denied;
  for (std::size_t at = 0; at <= directories.size();) {
    const std::size_t end = std::min(directories.find(':', at), directories.size());
    const std::string directory = directories.substr(at, end - at);
    at = end + 1;
    const std::string candidate = directory.empty() ? "./" + name : directory + "/" + name;
    const int problem = problem_of(candidate);
    if (problem == 0) {
      path = candidate;
      return true;
    }
    if (problem == EACCES && denied.empty()) denied = candidate;
  }
  if (!denied.empty()) return refuse(refusal, 126, denied + " cannot be executed: permission denied");
  return refuse(refusal, 127,
                "unknown program '" + name + "': not found in PATH" +
                    (problem_of("./" + name) == 0 ? "; did you mean './" + name + "'?" : ""));
}

bool check_program(const std::string& path, const Architecture& recorder, std::string& loader, Refusal& refusal) {
  loader.clear();
  std::string current = path;
  for (int depth = 0; depth <= kMaxInterpreters; ++depth) {
    const File file(current);
    if (!file.is_open()) {
      if (errno == EACCES)
        return refuse(refusal, 126,
                      current +
                          " can be executed but not read, and its loader and heapprof need to read it; record a "
                          "copy that you can read, or record it as a user who can read it");
      if (current == path || errno != ENOENT) return true;
      return refuse(refusal, 127, path + " names an interpreter that does not exist: " + current);
    }
    const std::string start = file.read(0, kMaxFirstLine);
    Architecture own;
    if (read_ident(start, own)) {
      if (!check_elf(current, file, own, recorder, loader, refusal)) return false;
      if (loader.empty() || depth == 0) return true;
      return refuse(refusal, 126,
                    path + " is a script, and its interpreter " + current +
                        " has file capabilities; record the interpreter, "
                        "with the script as its argument");
    }
    if (!start.starts_with("#!")) {
      // execvp(3) and shells run a text without "#!" with sh.
      if (start.substr(0, start.find('\n')).find('\0') != std::string::npos)
        return refuse(refusal, 126, current + " is not a program");
      current = "/bin/sh";
      continue;
    }
    current = interpreter_of(start);
    if (current.empty()) return refuse(refusal, 126, path + " names no interpreter after #!");
  }
  return refuse(refusal, 126, path + ": too many interpreters, each a script");
}

}  // namespace heapprof::launch
