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

}  // namespace

bool find_mapping(std::uint64_t address, Mapping& mapping, char* path, std::size_t path_size) noexcept {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return false;
  Bytes bytes(fd);
  bool found = false;
  for (;;) {
    // begin-end perms offset major:minor inode          path
    int c;
    mapping.begin = hex(bytes, c);
    if (c != '-') break;
    mapping.end = hex(bytes, c);
    mapping.readable = (c = bytes.next()) == 'r';
    while (c != ' ' && c >= 0) c = bytes.next();
    mapping.file_offset = hex(bytes, c);
    found = address >= mapping.begin && address < mapping.end;
    std::size_t length = 0;
    int fields = 0;  // device and inode end with a space each; then blanks, then the path
    while ((c = bytes.next()) != '\n' && c >= 0) {
      if (fields < 2) fields += c == ' ';
      else if (found && (length != 0 || c != ' ') && length + 1 < path_size) path[length++] = static_cast<char>(c);
    }
    if (found) path[length] = '\0';
    if (found || c < 0) break;
  }
  close(fd);
  return found;
}

}  // namespace heapprof::sys
