#include "analyzer/symbols/module_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "analyzer/symbols/debuginfod.h"
#include "analyzer/symbols/zstd_sections.h"
#include "analyzer/symbols/sysroot.h"

namespace heapprof::symbols {

namespace {

constexpr std::string_view kDeleted = " (deleted)";

/// Opens a regular file for reading; anything else, such as a pipe that would block, fails.
FileDescriptor open_file(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!fd.is_open()) return fd;
  if (fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    errno = EINVAL;
    return FileDescriptor();
  }
  return fd;
}

struct ElfEnd {
  void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfHandle = std::unique_ptr<Elf, ElfEnd>;

ElfHandle read_elf(const FileDescriptor& fd) {
  return ElfHandle(elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr));
}

std::string hex(const void* bytes, std::size_t size) {
  std::string text;
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) {
    text += "0123456789abcdef"[at[i] >> 4];
    text += "0123456789abcdef"[at[i] & 15];
  }
  return text;
}

std::string build_id_of(Elf* elf) {
  const void* bytes = nullptr;
  const ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);
  return size > 0 ? hex(bytes, static_cast<std::size_t>(size)) : std::string();
}

/// Calls visit(section, header, name) for each section, until it returns true.
template <typename Visit>
void each_section(Elf* elf, Visit&& visit) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name != nullptr && visit(section, header, std::string_view(name))) return;
  }
}

/// Splits .gnu_debugaltlink, which is a file name, a NUL and a build id, into these two; false: there is none.
bool read_alt_link(Elf* elf, std::string& file_name, std::string& build_id) {
  std::string bytes;
  each_section(elf, [&](Elf_Scn* section, const GElf_Shdr& header, std::string_view name) {
    if (name != ".gnu_debugaltlink" || header.sh_type == SHT_NOBITS) return false;
    if (const Elf_Data* data = elf_rawdata(section, nullptr); data != nullptr && data->d_buf != nullptr)
      bytes.assign(static_cast<const char*>(data->d_buf), data->d_size);
    return true;
  });
  const std::size_t end = bytes.find('\0');
  if (end == std::string::npos) return false;
  file_name = bytes.substr(0, end);
  build_id = hex(bytes.data() + end + 1, bytes.size() - end - 1);
  return true;
}

/// The checksum that a debug link carries: CRC-32 of the whole file.
std::uint32_t checksum_of(const FileDescriptor& fd) {
  std::array<unsigned char, 65536> buffer;
  uLong sum = crc32(0, nullptr, 0);
  off_t offset = 0;
  for (ssize_t size; (size = pread(fd.get(), buffer.data(), buffer.size(), offset)) > 0; offset += size)
    sum = crc32(sum, buffer.data(), static_cast<uInt>(size));
  return static_cast<std::uint32_t>(sum);
}

/// What tells one state of a file from another.
std::string state_of(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return {};
  return std::to_string(status.st_dev) + ' ' + std::to_string(status.st_ino) + ' ' + std::to_string(status.st_size) +
         ' ' + std::to_string(status.st_mtim.tv_sec) + '.' + std::to_string(status.st_mtim.tv_nsec);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// <root>/.build-id/ab/cdef...<suffix>; empty for a build id too short to have one.
std::string build_id_path(const std::string& root, const std::string& build_id, const char* suffix) {
  if (build_id.size() < 4) return {};
  return root + "/.build-id/" + build_id.substr(0, 2) + "/" + build_id.substr(2) + suffix;
}

/// The kernel's list of mappings, from which recorded paths are, has a line feed as \012, and a backslash as itself
/// (proc_pid_maps(5)): a path with these four characters in it may mean either.
std::string with_line_feeds(std::string path) {
  constexpr std::string_view kEscaped = "\\012";
  for (std::size_t at = 0; (at = path.find(kEscaped, at)) != std::string::npos; ++at)
    path.replace(at, kEscaped.size(), "\n");
  return path;
}

}  // namespace

ModuleFile::ModuleFile(const Module& module, const Options& options, const Origin& origin,
                       std::vector<std::string>& warnings)
    : options_(options), origin_(origin), warnings_(warnings), recorded_(module), name_(module.path),
      original_(module.path) {
  if (name_.empty()) return;
  if (name_ == "[vdso]") {
    if (!open_vdso() && !open_by_build_id())
      warn("the kernel's code has no file, and this is another kernel; its functions are not named");
    return;
  }
  if (name_.front() == '[' || name_.starts_with("//") || name_.starts_with("/memfd:")) {
    if (!open_mapped()) warn("code that is in no file; its functions are not named");
    return;
  }
  const bool deleted = original_.ends_with(kDeleted);
  if (deleted) original_.resize(original_.size() - kDeleted.size());

  if (open_in_live_root()) return;
  std::string reason;
  if (open_main(path_in_sysroot(options_.sysroot, original_), deleted, &reason) == Acceptance::kAccepted) return;
  if (const std::string other = with_line_feeds(original_);
      other != original_ &&
      open_main(path_in_sysroot(options_.sysroot, other), deleted, nullptr) == Acceptance::kAccepted)
    return;
  if (open_mapped()) return;
  // This machine's own file will do when it is certain to be the same.
  if (!options_.sysroot.empty() && open_main(original_, true, nullptr) == Acceptance::kAccepted) return;
  if (open_by_build_id()) return;
  warn((deleted ? "deleted while the program ran, and " + reason : reason) + "; its functions are not named");
}

/// The vdso of this process is that of all others of the same kernel and kind; its build id tells.
bool ModuleFile::open_vdso() {
  constexpr std::size_t kMaxVdso = 1 << 16;
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(getauxval(AT_SYSINFO_EHDR));
  if (header == nullptr || !options_.sysroot.empty()) return false;
  // The section headers stand last in it.
  const std::size_t size = header->e_shoff + std::size_t{header->e_shnum} * header->e_shentsize;
  if (header->e_shoff == 0 || size > kMaxVdso) return false;
  FileDescriptor fd(memfd_create("vdso", MFD_CLOEXEC));
  if (!fd.is_open() || write(fd.get(), header, size) != static_cast<ssize_t>(size)) return false;
  const bool accepted = accept_main(std::move(fd), name_, true, nullptr) == Acceptance::kAccepted;
  main_state_.clear();
  return accepted;
}

/// The recorded path as the running process sees it, when it sees another file system than this process does.
bool ModuleFile::open_in_live_root() {
  if (origin_.live_pid == 0 || !options_.sysroot.empty()) return false;
  const std::string process = "/proc/" + std::to_string(origin_.live_pid);
  struct stat theirs {}, ours {}, their_root {}, our_root {};
  if (stat((process + "/ns/mnt").c_str(), &theirs) != 0 || stat("/proc/self/ns/mnt", &ours) != 0) return false;
  if (stat((process + "/root").c_str(), &their_root) != 0 || stat("/", &our_root) != 0) return false;
  if (theirs.st_ino == ours.st_ino && their_root.st_ino == our_root.st_ino && their_root.st_dev == our_root.st_dev)
    return false;
  const std::string path = path_in_sysroot(process + "/root", original_);
  return open_main(path, original_ != name_, nullptr) == Acceptance::kAccepted;
}

/// What the running process itself has mapped: good where the file was deleted or replaced. Reading other mappings
/// than that of the program itself takes privileges (proc_pid_map_files(5)).
bool ModuleFile::open_mapped() {
  if (origin_.live_pid == 0 || recorded_.build_id_hex.empty()) return false;
  const std::string process = "/proc/" + std::to_string(origin_.live_pid);
  if (accept_main(open_file(process + "/exe"), process + "/exe", true, nullptr) == Acceptance::kAccepted) return true;
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos || line.find(" r-xp ") == std::string::npos) continue;
    const std::string_view mapped = std::string_view(line).substr(path);
    if (mapped != original_ && mapped != original_ + std::string(kDeleted)) continue;
    const std::string file = process + "/map_files/" + line.substr(0, line.find(' '));
    if (open_main(file, true, nullptr) == Acceptance::kAccepted) return true;
  }
  return false;
}

ModuleFile::Acceptance ModuleFile::open_main(const std::string& path, bool must_match, std::string* reason) {
  return accept_main(open_file(path), path, must_match, reason);
}

ModuleFile::Acceptance ModuleFile::accept_main(FileDescriptor fd, const std::string& path, bool must_match,
                                               std::string* reason) {
  const auto refuse = [&](Acceptance acceptance, std::string text) {
    if (reason != nullptr) *reason = std::move(text);
    return acceptance;
  };
  if (!fd.is_open()) {
    const bool other_place = path != recorded_.path;
    return refuse(Acceptance::kMissing, (other_place ? path + " " : std::string()) + "can't be opened (" +
                                            std::strerror(errno) + ")");
  }
  ElfHandle elf = read_elf(fd);
  GElf_Ehdr header;
  if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF || gelf_getehdr(elf.get(), &header) == nullptr)
    return refuse(Acceptance::kRefused, "not an ELF file");
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
    return refuse(Acceptance::kRefused, "neither a program nor a shared library");

  const std::string build_id = build_id_of(elf.get());
  const std::string& wanted = recorded_.build_id_hex;
  if (wanted.empty() ? must_match : build_id != wanted) {
    if (wanted.empty())
      return refuse(Acceptance::kRefused, "no build id was recorded by which another copy could be known");
    return refuse(Acceptance::kRefused, build_id.empty()
                                            ? "the file now has no build id, the recorded one had " + wanted
                                            : "the file changed since the recording (build id " + build_id +
                                                  ", recorded " + wanted + ")");
  }
  if (wanted.empty()) {
    if (std::string sign = sign_of_change(fd, elf.get()); !sign.empty()) return refuse(Acceptance::kRefused, sign);
    if (!build_id.empty())
      warn("recorded without build id, so it can't be known whether the file is still the same");
  }

  std::string state = state_of(fd.get());
  build_id_ = build_id;
  main_path_ = path;
  locate_debug_file(elf.get());
  elf.reset();
  if (!report(with_decompressed_sections(std::move(fd)), path))
    return refuse(Acceptance::kRefused, std::string("unreadable: ") + dwfl_errmsg(-1));
  main_state_ = std::move(state);
  return Acceptance::kAccepted;
}

std::string ModuleFile::sign_of_change(const FileDescriptor& fd, Elf* elf) const {
  struct stat status {};
  if (origin_.recorded_at_ns != 0 && fstat(fd.get(), &status) == 0 && options_.sysroot.empty()) {
    const auto written = static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000u +
                         static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
    if (written > origin_.recorded_at_ns)
      return "the file was written after the recording began, and has no build id";
  }
  constexpr std::uint64_t kPage = 1 << 16;  // the largest of all machines
  std::uint64_t begin = UINT64_MAX, end = 0;
  std::size_t segments = 0;
  if (elf_getphdrnum(elf, &segments) != 0) segments = 0;
  for (std::size_t i = 0; i < segments; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) break;
    if (segment.p_type != PT_LOAD) continue;
    begin = std::min<std::uint64_t>(begin, segment.p_vaddr);
    end = std::max<std::uint64_t>(end, segment.p_vaddr + segment.p_memsz);
  }
  const std::uint64_t span = end > begin ? end - begin : 0;
  const std::uint64_t recorded = recorded_.map_bytes;
  if (recorded != 0 && (span > recorded + kPage || recorded > span + kPage))
    return "the file changed since the recording (it takes " + std::to_string(span) + " bytes of memory, took " +
           std::to_string(recorded) + "), and has no build id";
  return {};
}

/// Finds the separate debug file before anybody asks for it: it belongs to the fingerprint.
void ModuleFile::locate_debug_file(Elf* elf) {
  has_symbols_ = has_debug_information_ = false;
  each_section(elf, [&](Elf_Scn*, const GElf_Shdr& header, std::string_view name) {
    if (header.sh_type == SHT_NOBITS) return false;
    has_symbols_ |= header.sh_type == SHT_SYMTAB;
    has_debug_information_ |= name == ".debug_info" || name == ".zdebug_info";
    return false;
  });
  debug_file_ = FileDescriptor();
  if (has_debug_information_ && has_symbols_) return;
  GElf_Word link_crc = 0;
  const char* const link = dwelf_elf_gnu_debuglink(elf, &link_crc);
  debug_file_ = FileDescriptor(find_debug_file(link, link_crc, debug_path_));
}

std::string ModuleFile::fingerprint() {
  if (main_state_.empty() || build_id_.empty()) return {};
  static const std::string program = [] {
    const FileDescriptor fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    return fd.is_open() ? state_of(fd.get()) : std::string();
  }();
  if (program.empty()) return {};
  std::string text = program + ';' + main_state_;
  if (debug_file_.is_open()) text += ";debug " + debug_state_;
  std::string path;
  if (alt_link_) {
    const FileDescriptor fd(find_alt_file(debug_file_.is_open() ? debug_path_ : main_path_, path));
    text += ";alt " + (fd.is_open() ? state_of(fd.get()) : "none");
  }
  for (const std::string& package : packages())
    if (const FileDescriptor fd = open_file(package); fd.is_open()) text += ";dwp " + state_of(fd.get());
  return text;
}

std::vector<std::string> ModuleFile::packages() const {
  std::vector<std::string> paths = {main_path_ + ".dwp"};
  if (debug_file_.is_open()) paths.push_back(debug_path_ + ".dwp");
  for (const std::string& root : debug_roots()) {
    paths.push_back(root + original_ + ".dwp");
    if (!build_id_.empty()) paths.push_back(build_id_path(root, build_id_, ".dwp"));
  }
  return paths;
}

bool ModuleFile::open_by_build_id() {
  if (recorded_.build_id_hex.empty()) return false;
  for (const std::string& root : debug_roots())
    for (const char* suffix : {"", ".debug"})
      if (open_main(build_id_path(root, recorded_.build_id_hex, suffix), true, nullptr) == Acceptance::kAccepted)
        return true;
  if (!options_.debuginfod) return false;
  std::string path, reason;
  FileDescriptor fd(fetch_debug_file(recorded_.build_id_hex, path, reason));
  if (!fd.is_open()) {
    warn("debuginfod has no debug file (" + reason + ")");
    return false;
  }
  return open_main(path, true, nullptr) == Acceptance::kAccepted;
}

bool ModuleFile::report(FileDescriptor owned, const std::string& path) {
  callbacks_.find_elf = [](Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) { return -1; };
  callbacks_.find_debuginfo = find_debuginfo;
  callbacks_.section_address = dwfl_offline_section_address;
  callbacks_.debuginfo_path = &debuginfo_path_;
  std::unique_ptr<Dwfl, DwflEnd> dwfl(dwfl_begin(&callbacks_));
  if (dwfl == nullptr) return false;
  dwfl_report_begin(dwfl.get());
  // Base 0 added to the file's own addresses: addresses in the module are those of the ELF file.
  Dwfl_Module* module = dwfl_report_elf(dwfl.get(), path.c_str(), path.c_str(), owned.get(), 0, true);
  if (module == nullptr) return false;
  owned.release();
  dwfl_report_end(dwfl.get(), nullptr, nullptr);
  void** userdata = nullptr;
  dwfl_module_info(module, &userdata, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (userdata == nullptr) return false;
  *userdata = this;

  GElf_Addr bias = 0;
  Elf* elf = dwfl_module_getelf(module, &bias);
  if (elf == nullptr) return false;
  std::size_t segments = 0;
  if (elf_getphdrnum(elf, &segments) != 0) segments = 0;
  for (std::size_t i = 0; i < segments; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) break;
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
      code_.push_back({segment.p_vaddr + bias, segment.p_vaddr + bias + segment.p_memsz});
  }
  // Files whose debug information was moved elsewhere may have kept the reference of what is gone.
  if (AltLink alt; has_debug_information_ && read_alt_link(elf, alt.name, alt.build_id)) alt_link_ = std::move(alt);
  dwfl_ = std::move(dwfl);
  module_ = module;
  return true;
}

Dwarf* ModuleFile::dwarf(Dwarf_Addr& bias) {
  bias = 0;
  return module_ == nullptr ? nullptr : dwfl_module_getdwarf(module_, &bias);
}

bool ModuleFile::is_code(std::uint64_t address) const {
  return std::any_of(code_.begin(), code_.end(), [&](const Segment& segment) {
    return address >= segment.begin && address < segment.end;
  });
}

std::vector<std::string> ModuleFile::debug_roots() const {
  std::vector<std::string> roots = options_.debug_dirs;
  roots.push_back(path_in_sysroot(options_.sysroot, "/usr/lib/debug"));
  return roots;
}

int ModuleFile::find_debug_file(const char* link, std::uint32_t link_crc, std::string& path) {
  const auto accept = [&](const std::string& candidate, bool linked) {
    FileDescriptor fd = candidate.empty() ? FileDescriptor() : open_file(candidate);
    if (!fd.is_open()) return -1;
    const ElfHandle elf = read_elf(fd);
    if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF) return -1;
    // The build id decides; a debug link's checksum only where there is none.
    const bool right =
        build_id_.empty() ? linked && checksum_of(fd) == link_crc : build_id_of(elf.get()) == build_id_;
    if (!right) {
      warn("the debug file " + candidate + " belongs to another build and is not used");
      return -1;
    }
    if (AltLink alt; read_alt_link(elf.get(), alt.name, alt.build_id)) alt_link_ = std::move(alt);
    path = candidate;
    debug_state_ = state_of(fd.get());
    return with_decompressed_sections(std::move(fd)).release();
  };

  for (const std::string& root : debug_roots())
    if (const int fd = accept(build_id_path(root, build_id_, ".debug"), false); fd >= 0) return fd;
  if (link != nullptr && *link != '\0') {
    std::vector<std::string> folders = {folder_of(main_path_)};
    // A program goes by the name it was called by, which may be a link from elsewhere.
    std::error_code error;
    const std::string real = folder_of(std::filesystem::canonical(main_path_, error).string());
    if (!error && real != folders.front()) folders.push_back(real);
    // A deleted program that still runs was opened through /proc; its debug file may have stayed.
    if (const std::string own = folder_of(original_); options_.sysroot.empty() && own != folders.front())
      folders.push_back(own);
    std::vector<std::string> candidates;
    for (const std::string& folder : folders)
      candidates.insert(candidates.end(), {folder + "/" + link, folder + "/.debug/" + link});
    for (const std::string& root : debug_roots()) {
      candidates.push_back(root + folder_of(original_) + "/" + link);
      if (options_.sysroot.empty() && !error) candidates.push_back(root + real + "/" + link);
    }
    for (const std::string& candidate : candidates)
      // Some debug links name the file itself.
      if (candidate != main_path_)
        if (const int fd = accept(candidate, true); fd >= 0) return fd;
  }
  if (options_.debuginfod && !build_id_.empty()) {
    std::string reason;
    FileDescriptor fd(fetch_debug_file(build_id_, path, reason));
    if (!fd.is_open()) {
      warn("debuginfod has no debug file (" + reason + ")");
    } else if (!path.empty()) {
      return accept(path, false);
    }
  }
  return -1;
}

int ModuleFile::find_alt_file(const std::string& referring_file, std::string& path) {
  const std::string& name = alt_link_->name;
  std::vector<std::string> candidates = {
      name.starts_with('/') ? path_in_sysroot(options_.sysroot, name) : folder_of(referring_file) + "/" + name};
  for (const std::string& root : debug_roots()) {
    candidates.push_back(build_id_path(root, alt_link_->build_id, ".debug"));
    candidates.push_back(root + "/.dwz/" + name.substr(name.rfind('/') + 1));
  }
  for (const std::string& candidate : candidates) {
    FileDescriptor fd = candidate.empty() ? FileDescriptor() : open_file(candidate);
    if (!fd.is_open()) continue;
    const ElfHandle elf = read_elf(fd);
    if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF || build_id_of(elf.get()) != alt_link_->build_id) continue;
    path = candidate;
    return fd.release();
  }
  warn("its debug information refers to " + name + ", which was not found; some functions may lack names");
  return -1;
}

int ModuleFile::debug_file(std::string& path) const {
  if (!debug_file_.is_open()) return -1;
  path = debug_path_;
  return fcntl(debug_file_.get(), F_DUPFD_CLOEXEC, 0);
}

int ModuleFile::find_debuginfo(Dwfl_Module*, void** userdata, const char*, Dwarf_Addr, const char* file_name,
                               const char* link, GElf_Word, char** found_name) {
  auto* self = userdata == nullptr ? nullptr : static_cast<ModuleFile*>(*userdata);
  if (self == nullptr) return -1;
  std::string path;
  // libdwfl asks for the supplementary file of dwz through the same callback.
  const bool alt = self->alt_link_ && link != nullptr && self->alt_link_->name == link;
  const int fd = alt ? with_decompressed_sections(
                           FileDescriptor(self->find_alt_file(file_name != nullptr ? file_name : self->main_path_, path)))
                           .release()
                     : self->debug_file(path);
  if (fd < 0) {
    errno = 0;  // not found, which is no error
    return -1;
  }
  *found_name = strdup(path.c_str());
  return fd;
}

}  // namespace heapprof::symbols
