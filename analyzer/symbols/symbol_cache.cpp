#include "analyzer/symbols/symbol_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "analyzer/base/atomic_file.h"
#include "common/checksum.h"

namespace heapprof::symbols {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".names";

std::optional<std::string> read_file(const std::string& path, std::uint64_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return std::nullopt;
  std::optional<std::string> text;
  struct stat status {};
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) <= max_bytes) {
    text.emplace(static_cast<std::size_t>(status.st_size), '\0');
    std::size_t done = 0;
    for (ssize_t size; done < text->size() && (size = read(fd, text->data() + done, text->size() - done)) > 0;)
      done += static_cast<std::size_t>(size);
    if (done != text->size()) text.reset();
    futimens(fd, nullptr);  // the modification time is that of the last use
  }
  close(fd);
  return text;
}

std::string environment(const char* name) {
  const char* value = secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// Whether the cache must be compared with its limit after an entry of this size was stored: looking at every file
/// takes 10 ms for a thousand of them, so this process does it at first, and whenever it has stored a sixteenth of
/// the limit.
bool must_check_limit(const std::string& directory, std::uint64_t stored_bytes, std::uint64_t max_bytes) {
  static std::mutex mutex;
  static std::map<std::string, std::uint64_t> unchecked_bytes;  // by directory
  const std::lock_guard lock(mutex);
  const auto [entry, is_first] = unchecked_bytes.try_emplace(directory, 0);
  entry->second += stored_bytes;
  if (!is_first && entry->second <= max_bytes / 16) return false;
  entry->second = 0;
  return true;
}

}  // namespace

std::string SymbolCache::default_directory() {
  const std::string setting = environment("HEAPPROF_SYMBOL_CACHE");
  if (setting == "0" || setting == "off" || setting == "no") return {};
  if (const std::string cache = environment("XDG_CACHE_HOME"); cache.starts_with('/'))
    return cache + "/heapprof/symbols";
  if (const std::string home = environment("HOME"); home.starts_with('/')) return home + "/.cache/heapprof/symbols";
  return {};
}

bool SymbolCache::directory_is_private() const {
  struct stat status {};
  return lstat(directory_.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Path of the entry; empty: the module cannot be cached.
std::string SymbolCache::path_of(const std::string& build_id_hex, const std::string& fingerprint) const {
  const bool valid = build_id_hex.size() >= 8 && build_id_hex.size() <= 128 &&
                     build_id_hex.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (directory_.empty() || fingerprint.empty() || !valid) return {};
  char state[17];
  std::snprintf(state, sizeof state, "%016llx",
                static_cast<unsigned long long>(checksum(fingerprint.data(), fingerprint.size())));
  return directory_ + "/" + build_id_hex + "-" + state + std::string(kSuffix);
}

std::optional<ModuleSymbols> SymbolCache::load(const std::string& build_id_hex,
                                               const std::string& fingerprint) const {
  const std::string path = path_of(build_id_hex, fingerprint);
  if (path.empty() || !directory_is_private()) return std::nullopt;
  const std::optional<std::string> bytes = read_file(path, max_bytes_);
  if (!bytes) return std::nullopt;
  std::optional<std::vector<ModuleSymbols>> modules = decode_symbols(*bytes);
  // An entry has the fingerprint in place of the module's path.
  if (!modules || modules->size() != 1 || modules->front().path != fingerprint ||
      modules->front().build_id_hex != build_id_hex) {
    unlink(path.c_str());
    return std::nullopt;
  }
  return std::move(modules->front());
}

void SymbolCache::store(const std::string& build_id_hex, const std::string& fingerprint,
                        ModuleSymbols symbols) const {
  const std::string path = path_of(build_id_hex, fingerprint);
  if (path.empty()) return;
  std::error_code error;
  if (!fs::exists(directory_, error)) {
    fs::create_directories(fs::path(directory_).parent_path(), error);
    mkdir(directory_.c_str(), 0700);
  }
  if (!directory_is_private()) return;
  symbols.path = fingerprint;
  symbols.build_id_hex = build_id_hex;
  try {
    AtomicFile file(path);
    const std::string bytes = encode_symbols({std::move(symbols)});
    file.append(bytes);
    file.finish();
    if (must_check_limit(directory_, bytes.size(), max_bytes_)) remove_least_recently_used();
  } catch (const std::exception&) {  // cannot be written, out of memory, or too large for an entry: not cached
  }
}

void SymbolCache::remove_least_recently_used() const {
  struct Entry {
    fs::path path;
    timespec used;
    std::uint64_t bytes;
  };
  std::vector<Entry> entries;
  std::uint64_t sum = 0;
  std::error_code error;
  const std::time_t an_hour_ago = std::time(nullptr) - 3600;
  for (const fs::directory_entry& file : fs::directory_iterator(directory_, error)) {
    const std::string name = file.path().filename().string();
    const bool is_temporary = AtomicFile::is_temporary(name);
    if (!is_temporary && !name.ends_with(kSuffix)) continue;
    struct stat status {};
    if (lstat(file.path().c_str(), &status) != 0) continue;
    if (is_temporary) {  // of a process that was killed, unless it is new
      std::error_code gone;
      if (status.st_mtim.tv_sec < an_hour_ago) fs::remove(file.path(), gone);
      continue;
    }
    const Entry entry{file.path(), status.st_mtim, static_cast<std::uint64_t>(status.st_size)};
    sum += entry.bytes;
    entries.push_back(entry);
  }
  if (sum <= max_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  // More than necessary, so that not every run has to remove entries.
  for (const Entry& entry : entries) {
    if (sum <= max_bytes_ / 4 * 3) break;
    std::error_code gone;
    if (fs::remove(entry.path, gone)) sum -= entry.bytes;
  }
}

}  // namespace heapprof::symbols
