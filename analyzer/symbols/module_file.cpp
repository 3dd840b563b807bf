#include "analyzer/symbols/module_file.h"

#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "analyzer/symbols/debuginfod.h"
#include "analyzer/symbols/elf_file.h"
#include "analyzer/symbols/sysroot.h"
#include "analyzer/symbols/zstd_sections.h"

namespace heapprof::symbols {

namespace {

constexpr std::string_view kDeleted = " (deleted)";
constexpr const char* kNotNamed = "; its functions are not named";

std::string without_deleted(const std::string& path) {
  return path.ends_with(kDeleted) ? path.substr(0, path.size() - kDeleted.size()) : path;
}

/// /proc/PID/maps, the source of recorded paths, escapes a line feed as \012, but not a backslash
/// (proc_pid_maps(5)). A path with these four characters is ambiguous.
std::string with_line_feeds(std::string path) {
  constexpr std::string_view kEscaped = "\\012";
  for (std::size_t at = 0; (at = path.find(kEscaped, at)) != std::string::npos; ++at)
    path.replace(at, kEscaped.size(), "\n");
  return path;
}

}  // namespace

ModuleFile::ModuleFile(const Module& module, const Options& options, const RecordedProcess& process,
                       std::vector<std::string>& warnings)
    : options_(options), process_(process), warnings_(warnings), recorded_(module),
      path_(without_deleted(module.path)),
      debug_files_(options, path_, [this](const std::string& text) { warn(text); }) {
  const std::string& recorded_path = module.path;
  if (recorded_path.empty()) return;
  if (recorded_path == "[vdso]") {
    if (!open_vdso() && !open_by_build_id()) warn(std::string("the vDSO is that of another kernel") + kNotNamed);
    return;
  }
  if (recorded_path.front() == '[' || recorded_path.starts_with("//") || recorded_path.starts_with("/memfd:")) {
    if (!open_mapped()) warn(std::string("code without a file") + kNotNamed);
    return;
  }
  const bool deleted = recorded_path != path_;
  if (open_in_live_root()) return;
  std::string reason;
  if (open_main(path_in_sysroot(options_.sysroot, path_), deleted, &reason)) return;
  if (const std::string other = with_line_feeds(path_);
      other != path_ && open_main(path_in_sysroot(options_.sysroot, other), deleted, nullptr))
    return;
  if (open_mapped()) return;
  // A file of this system, if it has the recorded build ID.
  if (!options_.sysroot.empty() && open_main(path_, true, nullptr)) return;
  if (open_by_build_id()) return;
  warn((deleted ? "deleted while the program ran, and " + reason : reason) + kNotNamed);
}

/// All processes of the same kernel and architecture have the same vDSO, which its build ID confirms.
bool ModuleFile::open_vdso() {
  constexpr std::size_t kMaxVdsoBytes = 1 << 16;
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(getauxval(AT_SYSINFO_EHDR));
  if (header == nullptr || !options_.sysroot.empty()) return false;
  // The section headers are at its end.
  const std::size_t size = header->e_shoff + std::size_t{header->e_shnum} * header->e_shentsize;
  if (header->e_shoff == 0 || size > kMaxVdsoBytes) return false;
  FileDescriptor file(memfd_create("vdso", MFD_CLOEXEC));
  if (!file.is_open() || write(file.get(), header, size) != static_cast<ssize_t>(size)) return false;
  const bool accepted = accept_main(std::move(file), recorded_.path, true, nullptr);
  main_state_.clear();
  return accepted;
}

/// The recorded path in the running process's root, if its root or mount namespace differs from this process's.
bool ModuleFile::open_in_live_root() {
  if (process_.live_pid == 0 || !options_.sysroot.empty()) return false;
  const std::string process = "/proc/" + std::to_string(process_.live_pid);
  struct stat theirs {};
  struct stat ours {};
  struct stat their_root {};
  struct stat our_root {};
  if (stat((process + "/ns/mnt").c_str(), &theirs) != 0 || stat("/proc/self/ns/mnt", &ours) != 0) return false;
  if (stat((process + "/root").c_str(), &their_root) != 0 || stat("/", &our_root) != 0) return false;
  if (theirs.st_ino == ours.st_ino && their_root.st_ino == our_root.st_ino && their_root.st_dev == our_root.st_dev)
    return false;
  return open_main(path_in_sysroot(process + "/root", path_), path_ != recorded_.path, nullptr);
}

/// What the running process has mapped. Mappings other than that of the executable need privileges
/// (proc_pid_map_files(5)).
bool ModuleFile::open_mapped() {
  if (process_.live_pid == 0 || recorded_.build_id_hex.empty()) return false;
  const std::string process = "/proc/" + std::to_string(process_.live_pid);
  if (open_main(process + "/exe", true, nullptr)) return true;
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find('/');
    if (at == std::string::npos || line.find(" r-xp ") == std::string::npos) continue;
    const std::string_view mapped = std::string_view(line).substr(at);
    if (mapped != path_ && mapped != path_ + std::string(kDeleted)) continue;
    if (open_main(process + "/map_files/" + line.substr(0, line.find(' ')), true, nullptr)) return true;
  }
  return false;
}

bool ModuleFile::open_by_build_id() {
  if (recorded_.build_id_hex.empty()) return false;
  for (const std::string& root : debug_roots(options_))
    for (const char* suffix : {"", ".debug"})
      if (open_main(build_id_path(root, recorded_.build_id_hex, suffix), true, nullptr)) return true;
  if (!options_.debuginfod) return false;
  std::string path, reason;
  const FileDescriptor file(fetch_debug_file(recorded_.build_id_hex, path, reason));
  if (!file.is_open()) {
    warn("no debug file from debuginfod (" + reason + ")");
    return false;
  }
  return open_main(path, true, nullptr);
}

bool ModuleFile::open_main(const std::string& path, bool build_id_required, std::string* reason) {
  FileDescriptor file = open_regular_file(path);
  if (file.is_open()) return accept_main(std::move(file), path, build_id_required, reason);
  if (reason != nullptr)
    *reason =
        (path != recorded_.path ? path + " " : std::string()) + "cannot be opened (" + std::strerror(errno) + ")";
  return false;
}

bool ModuleFile::accept_main(FileDescriptor file, const std::string& path, bool build_id_required,
                             std::string* reason) {
  const auto reject = [&](std::string text) {
    if (reason != nullptr) *reason = std::move(text);
    return false;
  };
  ElfHandle elf = open_elf(file);
  GElf_Ehdr header;
  if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF || gelf_getehdr(elf.get(), &header) == nullptr)
    return reject("not an ELF file");
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
    return reject("neither an executable nor a shared library");
  const std::string build_id = build_id_of(elf.get());
  if (std::string mismatch = build_id_mismatch(build_id, build_id_required); !mismatch.empty())
    return reject(std::move(mismatch));
  if (recorded_.build_id_hex.empty()) {
    if (std::string sign = sign_of_change(file, elf.get()); !sign.empty()) return reject(std::move(sign));
    if (!build_id.empty()) warn("recorded without build ID; cannot verify that the file is the recorded one");
  }

  std::string state = file_state(file);
  build_id_ = build_id;
  main_path_ = path;
  // The debug files are located here and not in find_debuginfo(), because the fingerprint needs them too.
  debug_files_.locate(elf.get(), path, build_id);
  elf.reset();
  if (!open_dwfl(with_decompressed_sections(std::move(file)), path))
    return reject(std::string("unreadable: ") + dwfl_errmsg(-1));
  main_state_ = std::move(state);
  return true;
}

/// Why a file with this build ID is not the recorded one; empty: it may be.
std::string ModuleFile::build_id_mismatch(const std::string& build_id, bool build_id_required) const {
  const std::string& recorded = recorded_.build_id_hex;
  if (recorded.empty())
    return build_id_required ? "no build ID was recorded to verify another copy of the file" : std::string();
  if (build_id == recorded) return {};
  if (build_id.empty()) return "the file has no build ID (recorded " + recorded + ")";
  return "the file changed since the recording (build ID " + build_id + ", recorded " + recorded + ")";
}

/// Why the file is not the recorded one, although no build ID contradicts; empty: nothing indicates that.
std::string ModuleFile::sign_of_change(const FileDescriptor& file, Elf* elf) const {
  struct stat status {};
  if (process_.recorded_at_ns != 0 && fstat(file.get(), &status) == 0 && options_.sysroot.empty()) {
    const auto written_at_ns = static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000u +
                               static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
    if (written_at_ns > process_.recorded_at_ns)
      return "the file was modified after the recording started, and has no build ID";
  }
  constexpr std::uint64_t kPageBytes = 1 << 16;  // the largest page size of all machines
  const std::uint64_t bytes = mapped_bytes_of(elf), recorded = recorded_.map_bytes;
  if (recorded != 0 && (bytes > recorded + kPageBytes || recorded > bytes + kPageBytes))
    return "the file changed since the recording (it maps " + std::to_string(bytes) + " bytes, recorded " +
           std::to_string(recorded) + "), and has no build ID";
  return {};
}

std::string ModuleFile::fingerprint() const {
  if (main_state_.empty() || build_id_.empty()) return {};
  static const std::string program = file_state(FileDescriptor(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
  if (program.empty()) return {};
  return program + ';' + main_state_ + debug_files_.fingerprint();
}

bool ModuleFile::open_dwfl(FileDescriptor file, const std::string& path) {
  callbacks_.find_elf = [](Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) { return -1; };
  callbacks_.find_debuginfo = find_debuginfo;
  callbacks_.section_address = dwfl_offline_section_address;
  callbacks_.debuginfo_path = &debuginfo_path_;
  std::unique_ptr<Dwfl, DwflEnd> dwfl(dwfl_begin(&callbacks_));
  if (dwfl == nullptr) return false;
  dwfl_report_begin(dwfl.get());
  // A base of 0, added to the addresses in the file: addresses in the module are those of the ELF file.
  Dwfl_Module* module = dwfl_report_elf(dwfl.get(), path.c_str(), path.c_str(), file.get(), 0, true);
  if (module == nullptr) return false;
  file.release();  // libdwfl closes it
  dwfl_report_end(dwfl.get(), nullptr, nullptr);
  void** userdata = nullptr;
  dwfl_module_info(module, &userdata, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (userdata == nullptr) return false;
  *userdata = this;

  GElf_Addr bias = 0;
  Elf* elf = dwfl_module_getelf(module, &bias);
  if (elf == nullptr) return false;
  for_each_load_segment(elf, [&](const GElf_Phdr& segment) {
    if ((segment.p_flags & PF_X) != 0)
      code_.push_back({segment.p_vaddr + bias, segment.p_vaddr + bias + segment.p_memsz});
  });
  dwfl_ = std::move(dwfl);
  module_ = module;
  return true;
}

Dwarf* ModuleFile::dwarf(Dwarf_Addr& bias) {
  bias = 0;
  return module_ == nullptr ? nullptr : dwfl_module_getdwarf(module_, &bias);
}

bool ModuleFile::is_code(std::uint64_t address) const {
  return std::any_of(code_.begin(), code_.end(),
                     [&](const Segment& segment) { return address >= segment.begin && address < segment.end; });
}

int ModuleFile::find_debuginfo(Dwfl_Module*, void** userdata, const char*, Dwarf_Addr, const char* file_name,
                               const char* link, GElf_Word, char** found_name) {
  auto* self = userdata == nullptr ? nullptr : static_cast<ModuleFile*>(*userdata);
  if (self == nullptr) return -1;
  const DebugFiles& files = self->debug_files_;
  std::string path;
  int fd = -1;
  if (files.is_alt_link(link)) {  // libdwfl calls this for the supplementary file of dwz, too
    const std::string referring_file = file_name != nullptr ? file_name : self->main_path_;
    fd = with_decompressed_sections(files.open_alt_file(referring_file, path)).release();
  } else {
    fd = files.duplicate_debug_file(path);
  }
  if (fd < 0) {
    errno = 0;  // "not found" is not an error
    return -1;
  }
  *found_name = strdup(path.c_str());
  return fd;
}

}  // namespace heapprof::symbols
