#include "preload/sys/proc_maps.h"

#include <sys/ioctl.h>

#include "common/c_string.h"
#include "preload/sys/kernel.h"

namespace heapprof::sys {

int open_maps() noexcept { return open("/proc/self/maps", O_RDONLY | O_CLOEXEC); }

MapsReader::MapsReader(char* buffer, std::size_t bytes) noexcept : MapsReader(buffer, bytes, open_maps()) {}

void MapsReader::close() noexcept {
  if (!failed(fd_)) sys::close(fd_);
}

/// Returns the next byte, or -1 at the end.
int MapsReader::next_byte() noexcept {
  if (at_ == length_) {
    length_ = failed(fd_) ? 0 : pread(fd_, buffer_, bytes_, position_);
    at_ = 0;
    if (failed(fd_) || length_ < 0) read_failed_ = true;
    if (length_ <= 0) return length_ = 0, -1;
    position_ += static_cast<std::uint64_t>(length_);
  }
  return static_cast<unsigned char>(buffer_[at_++]);
}

/// Reads a number of base 10 or 16. `after` receives the first byte after it.
std::uint64_t MapsReader::number(unsigned base, int& after) noexcept {
  std::uint64_t value = 0;
  for (;;) {
    after = next_byte();
    unsigned digit;
    if (after >= '0' && after <= '9') digit = static_cast<unsigned>(after - '0');
    else if (base == 16 && after >= 'a' && after <= 'f') digit = static_cast<unsigned>(after - 'a') + 10;
    else return value;
    value = value * base + digit;
  }
}

bool MapsReader::next(Mapping& mapping, char* path, std::size_t path_size) noexcept {
  // begin-end perms offset major:minor inode          path
  int c;
  mapping.begin = number(16, c);
  if (c != '-') return false;
  mapping.end = number(16, c);
  mapping.readable = next_byte() == 'r';
  mapping.writable = next_byte() == 'w';
  mapping.executable = next_byte() == 'x';
  mapping.shared = next_byte() == 's';
  do c = next_byte();
  while (c != ' ' && c >= 0);
  mapping.file_offset = number(16, c);
  mapping.device = number(16, c) << 32;
  mapping.device |= number(16, c);
  mapping.inode = number(10, c);
  while (c == ' ') c = next_byte();
  std::size_t length = 0;
  mapping.path_truncated = false;
  for (; c != '\n' && c >= 0; c = next_byte()) {
    if (length + 1 < path_size) path[length++] = static_cast<char>(c);
    else mapping.path_truncated = true;
  }
  path[length] = '\0';
  return true;
}

namespace {

/// struct procmap_query of linux/fs.h (Linux 6.11), which the headers of Debian 12 lack.
struct MappingQuery {
  std::uint64_t size;
  std::uint64_t flags;
  std::uint64_t address;
  // The kernel's answer
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t protection;
  std::uint64_t page_bytes;
  std::uint64_t file_offset;
  std::uint64_t inode;
  std::uint32_t device_major;
  std::uint32_t device_minor;
  // Of the caller's buffers; the kernel replaces them with the bytes that it stored there.
  std::uint32_t path_bytes;
  std::uint32_t build_id_bytes;
  std::uint64_t path;
  std::uint64_t build_id;
};
static_assert(sizeof(MappingQuery) == 104);
constexpr unsigned long kMappingQuery = _IOWR('f', 17, MappingQuery);
constexpr std::uint64_t kReadable = 1, kWritable = 2, kExecutable = 4, kShared = 8;

/// Reads the lines of a descriptor of /proc/self/maps up to the first one for which matches() is true.
template <typename Matches>
bool read_up_to(int descriptor, Mapping& mapping, char* path, std::size_t path_size, Matches&& matches) noexcept {
  char buffer[768];
  MapsReader reader(buffer, sizeof buffer, descriptor);
  bool found = false;
  while (!found && reader.next(mapping, path, path_size)) found = matches();
  return found;
}

}  // namespace

bool query_mapping(int descriptor, std::uint64_t address, Mapping& mapping, char* path,
                   std::size_t path_size) noexcept {
  MappingQuery query{};
  query.size = sizeof query;
  query.address = address;
  path[0] = '\0';
  if (path_size > 1) {
    constexpr std::size_t kMaxPathBytes = 4096;  // the kernel's PATH_MAX
    query.path = reinterpret_cast<std::uint64_t>(path);
    query.path_bytes = static_cast<std::uint32_t>(path_size < kMaxPathBytes ? path_size : kMaxPathBytes);
  }
  bool found = !failed(call(SYS_ioctl, descriptor, static_cast<long>(kMappingQuery), word(&query)));
  // The lines have `\012` for a line break in a path.
  for (const char* at = path; found && *at != '\0'; ++at) found = *at != '\n';
  if (!found) {
    path[0] = '\0';
    return false;
  }
  mapping.begin = query.begin;
  mapping.end = query.end;
  mapping.file_offset = query.file_offset;
  mapping.device = std::uint64_t{query.device_major} << 32 | query.device_minor;
  mapping.inode = query.inode;
  mapping.readable = (query.protection & kReadable) != 0;
  mapping.writable = (query.protection & kWritable) != 0;
  mapping.executable = (query.protection & kExecutable) != 0;
  mapping.shared = (query.protection & kShared) != 0;
  mapping.path_truncated = path_size <= 1 && query.inode != 0;
  return true;
}

bool find_mapping(std::uint64_t address, Mapping& mapping, char* path, std::size_t path_size) noexcept {
  const int descriptor = open_maps();
  if (failed(descriptor)) return false;
  const bool found = query_mapping(descriptor, address, mapping, path, path_size) ||
                     read_up_to(descriptor, mapping, path, path_size,
                                [&]() noexcept { return address >= mapping.begin && address < mapping.end; });
  close(descriptor);
  return found;
}

bool find_mapping(const char* name, Mapping& mapping, std::uint64_t next) noexcept {
  constexpr int kNeighbours = 3;
  const int descriptor = open_maps();
  if (failed(descriptor)) return false;
  char path[16];
  bool found = false;
  for (int i = 0; i < kNeighbours && !found && next != 0; ++i) {
    if (!query_mapping(descriptor, next - 1, mapping, path, sizeof path)) break;
    found = text_equal(path, name);
    next = mapping.begin;
  }
  if (!found)
    found = read_up_to(descriptor, mapping, path, sizeof path, [&]() noexcept { return text_equal(path, name); });
  close(descriptor);
  return found;
}

}  // namespace heapprof::sys
