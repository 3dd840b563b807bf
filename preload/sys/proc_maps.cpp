#include "preload/sys/proc_maps.h"

#include "preload/sys/kernel.h"

namespace heapprof::sys {

MapsReader::MapsReader(char* buffer, std::size_t bytes) noexcept
    : MapsReader(buffer, bytes, open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}

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

template <typename Matches>
bool find(Mapping& mapping, char* path, std::size_t path_size, Matches&& matches) noexcept {
  char buffer[768];
  MapsReader reader(buffer, sizeof buffer);
  bool found = false;
  while (!found && reader.next(mapping, path, path_size)) found = matches();
  reader.close();
  return found;
}

}  // namespace

bool find_mapping(std::uint64_t address, Mapping& mapping, char* path, std::size_t path_size) noexcept {
  return find(mapping, path, path_size, [&] { return address >= mapping.begin && address < mapping.end; });
}

bool find_mapping(const char* name, Mapping& mapping) noexcept {
  char path[16];
  return find(mapping, path, sizeof path, [&] {
    std::size_t i = 0;
    while (path[i] != '\0' && path[i] == name[i]) ++i;
    return path[i] == name[i];
  });
}

}  // namespace heapprof::sys
