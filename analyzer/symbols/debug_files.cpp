#include "analyzer/symbols/debug_files.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>

#include <filesystem>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/symbols/debuginfod.h"
#include "analyzer/symbols/sysroot.h"
#include "analyzer/symbols/zstd_sections.h"

namespace heapprof::symbols {

namespace {

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace

std::string build_id_path(const std::string& root, const std::string& build_id, const char* suffix) {
  if (build_id.size() < 4) return {};
  return root + "/.build-id/" + build_id.substr(0, 2) + "/" + build_id.substr(2) + suffix;
}

std::vector<std::string> debug_roots(const Options& options) {
  std::vector<std::string> roots = options.debug_dirs;
  roots.push_back(path_in_sysroot(options.sysroot, "/usr/lib/debug"));
  return roots;
}

DebugFiles::DebugFiles(const Options& options, std::string recorded_path, Warn warn)
    : options_(options), recorded_path_(std::move(recorded_path)), warn_(std::move(warn)) {}

void DebugFiles::locate(Elf* elf, const std::string& path, const std::string& build_id) {
  main_path_ = path;
  build_id_ = build_id;
  has_symbols_ = has_debug_information_ = false;
  debug_file_ = FileDescriptor();
  alt_link_.reset();
  for_each_section(elf, [&](Elf_Scn*, const GElf_Shdr& header, std::string_view name) {
    if (header.sh_type == SHT_NOBITS) return false;
    has_symbols_ |= header.sh_type == SHT_SYMTAB;
    has_debug_information_ |= name == ".debug_info" || name == ".zdebug_info";
    return false;
  });
  if (!has_debug_information_ || !has_symbols_) {
    GElf_Word link_crc = 0;
    const char* const link = dwelf_elf_gnu_debuglink(elf, &link_crc);
    debug_file_ = find_debug_file(link, link_crc);
  }
  // A file whose debug information was moved to a separate file may still have the link of the debug information.
  if (has_debug_information_)
    if (std::optional<AltLink> link = read_alt_link(elf)) alt_link_ = std::move(link);
}

FileDescriptor DebugFiles::find_debug_file(const char* link, std::uint32_t link_crc) {
  for (const std::string& root : debug_roots(options_))
    if (FileDescriptor file = open_debug_file(build_id_path(root, build_id_, ".debug"), std::nullopt); file.is_open())
      return file;
  if (link != nullptr && *link != '\0')
    for (const std::string& path : linked_paths(link))
      if (path != main_path_)  // some debug links name the file itself
        if (FileDescriptor file = open_debug_file(path, link_crc); file.is_open()) return file;
  if (!options_.debuginfod || build_id_.empty()) return {};
  std::string path, reason;
  const FileDescriptor file(fetch_debug_file(build_id_, path, reason));
  if (!file.is_open()) {
    warn_("no debug file from debuginfod (" + reason + ")");
    return {};
  }
  return path.empty() ? FileDescriptor() : open_debug_file(path, std::nullopt);
}

/// Opens the file if it belongs to this build, by build ID, or by `link_crc` if the main file has no build ID.
FileDescriptor DebugFiles::open_debug_file(const std::string& path, std::optional<std::uint32_t> link_crc) {
  FileDescriptor file = path.empty() ? FileDescriptor() : open_regular_file(path);
  if (!file.is_open()) return {};
  const ElfHandle elf = open_elf(file);
  if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF) return {};
  const bool matches =
      build_id_.empty() ? link_crc && crc32_of(file) == *link_crc : build_id_of(elf.get()) == build_id_;
  if (!matches) {
    warn_("debug file " + path + " is of another build and was ignored");
    return {};
  }
  if (std::optional<AltLink> link = read_alt_link(elf.get())) alt_link_ = std::move(link);
  debug_path_ = path;
  debug_state_ = file_state(file);
  return with_decompressed_sections(std::move(file));
}

/// Where the file that .gnu_debuglink names may be.
std::vector<std::string> DebugFiles::linked_paths(const std::string& link) const {
  std::vector<std::string> directories = {directory_of(main_path_)};
  // The recorded path of a program may be a symbolic link, with the debug file beside its target.
  std::error_code error;
  const std::string real = directory_of(std::filesystem::canonical(main_path_, error).string());
  if (!error && real != directories.front()) directories.push_back(real);
  // A deleted program that still runs is opened in /proc; its debug file may still exist at the recorded path.
  const std::string recorded = directory_of(recorded_path_);
  if (options_.sysroot.empty() && recorded != directories.front()) directories.push_back(recorded);
  std::vector<std::string> paths;
  for (const std::string& directory : directories)
    paths.insert(paths.end(), {directory + "/" + link, directory + "/.debug/" + link});
  for (const std::string& root : debug_roots(options_)) {
    paths.push_back(root + recorded + "/" + link);
    if (options_.sysroot.empty() && !error) paths.push_back(root + real + "/" + link);
  }
  return paths;
}

int DebugFiles::duplicate_debug_file(std::string& path) const {
  if (!debug_file_.is_open()) return -1;
  path = debug_path_;
  return fcntl(debug_file_.get(), F_DUPFD_CLOEXEC, 0);
}

FileDescriptor DebugFiles::open_alt_file(const std::string& referring_file, std::string& path) const {
  const std::string& name = alt_link_->file_name;
  std::vector<std::string> candidates = {name.starts_with('/') ? path_in_sysroot(options_.sysroot, name)
                                                               : directory_of(referring_file) + "/" + name};
  for (const std::string& root : debug_roots(options_)) {
    candidates.push_back(build_id_path(root, alt_link_->build_id, ".debug"));
    candidates.push_back(root + "/.dwz/" + base_name(name));
  }
  for (const std::string& candidate : candidates) {
    FileDescriptor file = candidate.empty() ? FileDescriptor() : open_regular_file(candidate);
    if (!file.is_open()) continue;
    const ElfHandle elf = open_elf(file);
    if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF || build_id_of(elf.get()) != alt_link_->build_id) continue;
    path = candidate;
    return file;
  }
  warn_("supplementary debug file " + name + " was not found; some functions may not be named");
  return {};
}

std::vector<std::string> DebugFiles::package_paths() const {
  std::vector<std::string> paths = {main_path_ + ".dwp"};
  if (debug_file_.is_open()) paths.push_back(debug_path_ + ".dwp");
  for (const std::string& root : debug_roots(options_)) {
    paths.push_back(root + recorded_path_ + ".dwp");
    if (!build_id_.empty()) paths.push_back(build_id_path(root, build_id_, ".dwp"));
  }
  return paths;
}

std::string DebugFiles::fingerprint() const {
  std::string text;
  if (debug_file_.is_open()) text += ";debug " + debug_state_;
  if (alt_link_) {
    std::string path;
    const FileDescriptor file = open_alt_file(debug_file_.is_open() ? debug_path_ : main_path_, path);
    text += ";alt " + (file.is_open() ? file_state(file) : "none");
  }
  for (const std::string& package : package_paths())
    if (const FileDescriptor file = open_regular_file(package); file.is_open()) text += ";dwp " + file_state(file);
  return text;
}

}  // namespace heapprof::symbols
