#include "preload/sys/proc_maps.h"

#include "preload/sys/kernel.h"

namespace heapprof::sys {

namespace {

/// Bytes of a descriptor one at a time, read in pieces.
class Bytes {
 public:
  explicit Bytes(int fd) noexcept : fd_(fd) {}
  /// The next byte, or -1 at the end.
  int next() noexcept {
    if (at_ == length_) {
      length_ = read(fd_, buffer_, sizeof buffer_);
      at_ = 0;
      if (length_ <= 0) return length_ = 0, -1;
    }
    return static_cast<unsigned char>(buffer_[at_++]);
  }

 private:
  int fd_;
  long at_ = 0;
  long length_ = 0;
  char buffer_[768];
};

/// Reads a hexadecimal number; `after` is the first byte that is not of it.
std::uint64_t hex(Bytes& bytes, int& after) noexcept {
  std::uint64_t value = 0;
  for (;;) {
    after = bytes.next();
    if (after >= '0' && after <= '9') value = value << 4 | static_cast<unsigned>(after - '0');
    else if (after >= 'a' && after <= 'f') value = value << 4 | static_cast<unsigned>(after - 'a' + 10);
    else return value;
  }
}

/// One line. False at the end.
bool next_line(Bytes& bytes, Mapping& mapping, char* path, std::size_t path_size) noexcept {
  // begin-end perms offset major:minor inode          path
  int c;
  mapping.begin = hex(bytes, c);
  if (c != '-') return false;
  mapping.end = hex(bytes, c);
  mapping.readable = (c = bytes.next()) == 'r';
  while (c != ' ' && c >= 0) c = bytes.next();
  mapping.file_offset = hex(bytes, c);
  std::size_t length = 0;
  int fields = 0;  // device and inode end with a space each; then blanks, then the path
  while ((c = bytes.next()) != '\n' && c >= 0) {
    if (fields < 2) fields += c == ' ';
    else if ((length != 0 || c != ' ') && length + 1 < path_size) path[length++] = static_cast<char>(c);
  }
  path[length] = '\0';
  return true;
}

template <typename Fits>
bool find(Mapping& mapping, char* path, std::size_t path_size, Fits&& fits) noexcept {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return false;
  Bytes bytes(fd);
  bool found = false;
  while (!found && next_line(bytes, mapping, path, path_size)) found = fits();
  close(fd);
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
