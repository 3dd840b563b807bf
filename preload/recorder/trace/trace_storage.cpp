#include "preload/recorder/trace/trace_storage.h"

#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include <cerrno>

#include "common/trace_header.h"
#include "preload/base/text.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/sys/high_descriptor.h"
#include "preload/sys/own_mappings.h"

namespace heapprof::recorder {

namespace {

// File system types that linux/magic.h lacks.
constexpr long kFuseMagic = 0x65735546, kZfsMagic = 0x2fc12fc1, kBcachefsMagic = static_cast<long>(0xca451a4e),
               kCephMagic = 0x00c36400, kCifsMagic = static_cast<long>(0xff534d42),
               kSmb2Magic = static_cast<long>(0xfe534d42);

// Negated errno values, as the kernel returns them.
constexpr int kNotFound = -ENOENT, kInputOutput = -EIO, kDenied = -EACCES, kExists = -EEXIST, kTooBig = -EFBIG,
              kNoSpace = -ENOSPC, kReadOnly = -EROFS, kNotSupported = -EOPNOTSUPP, kQuota = -EDQUOT;

// Paths are built in static buffers, because the thread that creates the trace may have a small stack. Only one
// thread at a time does that (lifecycle.cpp).
constexpr std::size_t kPathBytes = 4096;

constexpr Failure kDiskFull = "no space left on the disk for the trace";
constexpr Failure kPathTooLong = "the path of the trace is too long";

/// Creates the directories of `path` that do not exist.
void create_directories(const char* path) noexcept {
  static char directory[kPathBytes];
  Text text(directory);
  for (const char* at = path; *at != '\0'; ++at) {
    if (*at == '/' && at != path) sys::mkdir(directory, 0777);  // the host's umask applies; fails for existing ones
    text.add(*at);
  }
}

/// Disables copy-on-write for the file on btrfs, where a reserved block is otherwise copied when it is rewritten, so
/// that a full disk would still raise SIGBUS. The file must be empty (btrfs(5), "nodatacow").
void disable_copy_on_write(int fd, long file_system) noexcept {
  if (file_system != BTRFS_SUPER_MAGIC) return;
  int flags = 0;
  if (sys::failed(sys::call(SYS_ioctl, fd, FS_IOC_GETFLAGS, sys::word(&flags)))) return;
  flags |= FS_NOCOW_FL;
  sys::call(SYS_ioctl, fd, FS_IOC_SETFLAGS, sys::word(&flags));
}

/// Whether a btrfs quota limits the subvolume of `fd`. Such a quota can refuse the write of a reserved page, and for
/// a mapping this raises SIGBUS in the host (tried on Linux 6.18). Limits of quota groups above the subvolume's own
/// are not detected.
bool has_btrfs_quota(int fd) noexcept {
  static btrfs_ioctl_fs_info_args file_system;
  static btrfs_ioctl_ino_lookup_args subvolume;
  subvolume.treeid = 0;
  subvolume.objectid = BTRFS_FIRST_FREE_OBJECTID;
  if (sys::failed(sys::call(SYS_ioctl, fd, BTRFS_IOC_FS_INFO, sys::word(&file_system))) ||
      sys::failed(sys::call(SYS_ioctl, fd, BTRFS_IOC_INO_LOOKUP, sys::word(&subvolume))))
    return false;
  char path[160];
  Text text(path);
  text.add("/sys/fs/btrfs/");
  for (unsigned i = 0; i < sizeof file_system.fsid; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) text.add('-');
    text.add(kDigits[file_system.fsid[i] >> 4]).add(kDigits[file_system.fsid[i] & 15]);
  }
  text.add("/qgroups/0_").number(subvolume.treeid).add("/limit_flags");
  char flags[32];
  return sys::read_file(path, flags, sizeof flags) != 0 && flags[0] != '0';
}

bool rewrites_in_place(long file_system) noexcept {
  switch (file_system) {
    case NFS_SUPER_MAGIC:
    case V9FS_MAGIC:
    case kFuseMagic:
    case kZfsMagic:
    case kBcachefsMagic:
    case kCephMagic:
    case kCifsMagic:
    case kSmb2Magic: return false;
    default: return true;
  }
}

/// Whether RLIMIT_FSIZE limits the size of files.
bool file_size_is_limited() noexcept {
  rlimit limit{};
  sys::call(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, sys::word(&limit));
  return limit.rlim_cur != RLIM_INFINITY;
}

/// Reserves space on the disk. Returns 0 or a negated errno, which may be sys::kInterrupted.
long reserve_space(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const long result = sys::fallocate(fd, offset, bytes);
  if (result != kNotSupported) return result;
  // The file system cannot reserve space. Writing zeroes has the same effect, unless the file system copies on write.
  // All bytes are written, because an access to a mapped page beyond the end of the file raises SIGBUS in the host.
  static constexpr char kZeros[kUnitBytes] = {};
  for (const std::uint64_t end = offset + bytes; offset < end;) {
    const std::uint64_t left = end - offset;
    const long written = sys::pwrite(fd, kZeros, left < sizeof kZeros ? left : sizeof kZeros, offset);
    if (written <= 0) return written < 0 ? written : kInputOutput;
    offset += static_cast<std::uint64_t>(written);
  }
  return 0;
}

}  // namespace

bool expand_pattern(const char* pattern, const char* program, int pid, std::uint64_t start_realtime_ns, char* result,
                    std::size_t size) noexcept {
  Text text(result, size);
  const auto add_name = [&](const char* name) noexcept {
    for (std::size_t i = 0; name[i] != '\0'; ++i)
      text.add(name[i] == '/' || (i == 0 && name[i] == '.') ? '_' : name[i]);
  };
  for (; *pattern != '\0'; ++pattern) {
    if (*pattern != '%') {
      text.add(*pattern);
      continue;
    }
    switch (*++pattern) {
      case 'e': add_name(program); break;
      case 'p': text.number(static_cast<std::uint64_t>(pid)); break;
      case 't': text.number(start_realtime_ns / 1'000'000'000); break;
      case 'h': {
        char host[66];
        sys::host_name(host);
        add_name(host);
        break;
      }
      case '%': text.add('%'); break;
      case '\0':
        text.add('%');
        --pattern;
        break;
      default: text.add('%').add(*pattern);
    }
  }
  return !text.overflowed();
}

Failure TraceStorage::create(const char* pattern, const char* program, std::uint64_t start_realtime_ns,
                             std::uint64_t max_bytes) noexcept {
  max_bytes_ = max_bytes;
  static char name[kPathBytes];
  // 8 bytes are left for a suffix ".NNNNNN".
  if (!expand_pattern(pattern, program, sys::process_id(), start_realtime_ns, name, sizeof name - 8))
    return kPathTooLong;
  // The path is made absolute, for messages, and so that the file can be reopened after the host has changed its
  // working directory. It stays relative if that directory has no path: it was removed, or it is outside the root
  // directory, where the kernel returns "(unreachable)/..." (getcwd(2)).
  static char absolute[kPathBytes];
  Text absolute_text(absolute);
  if (name[0] != '/') {
    static char directory[kPathBytes];
    if (!sys::failed(sys::call(SYS_getcwd, sys::word(directory), sizeof directory)) && directory[0] == '/')
      absolute_text.add(directory).add('/');
  }
  absolute_text.add(name);
  if (absolute_text.overflowed()) return kPathTooLong;

  int fd = -1;
  bool directories_created = false;
  for (std::uint64_t suffix = 0;;) {
    Text path(path_);
    path.add(absolute);
    if (suffix != 0) path.add('.').number(suffix);
    if (path.overflowed()) return kPathTooLong;
    fd = sys::open(path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (!sys::failed(fd)) break;
    if (fd == kExists && suffix < 1'000'000) {
      ++suffix;
    } else if (fd == kNotFound && !directories_created) {
      create_directories(absolute);
      directories_created = true;
    } else {
      return fd == kDenied || fd == kReadOnly ? "cannot create the trace: permission denied or read-only file system"
             : fd == kNoSpace                 ? kDiskFull
                                              : "cannot create the trace";
    }
  }
  const int high = sys::move_high(fd);
  fd_ = high < 0 ? fd : high;
  sys::identify(fd_, identity_);
  const Failure failure = prepare(start_realtime_ns);
  if (failure != nullptr) remove();
  return failure;
}

Failure TraceStorage::prepare(std::uint64_t start_realtime_ns) noexcept {
  struct statfs file_system {};
  sys::call(SYS_fstatfs, fd_, sys::word(&file_system));
  rewrites_in_place_ = recorder::rewrites_in_place(static_cast<long>(file_system.f_type));
  disable_copy_on_write(fd_, static_cast<long>(file_system.f_type));
  if (file_system.f_type == BTRFS_SUPER_MAGIC && has_btrfs_quota(fd_))
    return "a btrfs quota limits the directory, and exceeding it would kill the program with SIGBUS; "
           "set HEAPPROF_OUTPUT to another file system";

  const std::uint64_t page = getauxval(AT_PAGESZ);
  unit_bytes_ = page > kUnitBytes ? page : kUnitBytes;
  if (const Failure failure = reserve(0, unit_bytes_)) return failure;
  void* header = sys::map(nullptr, unit_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (sys::failed(header)) return "cannot map the trace";
  sys::add_own_mapping(header, unit_bytes_);
  header_ = static_cast<FileHeader*>(header);
  next_offset_ = unit_bytes_;
  if (!sys::random(&file_id_, sizeof file_id_)) file_id_ = start_realtime_ns * 0x9e3779b97f4a7c15 + identity_.inode;
  return nullptr;
}

void TraceStorage::remove() noexcept {
  sys::FileIdentity now;
  if (sys::identify(path_, now) && now == identity_) sys::unlink(path_);
  sys::close(fd_);
  fd_ = -1;
}

void TraceStorage::publish_header() noexcept {
  header_->header_bytes = static_cast<std::uint32_t>(unit_bytes_);
  header_->unit_bytes = static_cast<std::uint32_t>(unit_bytes_);
  header_->slot_bytes = sizeof(Slot);
  header_->version_major = kVersionMajor;
  header_->version_minor = kVersionMinor;
  header_->file_id = file_id_;
  FileHeader copy = *header_;
  for (unsigned i = 0; i < sizeof kFileMagic; ++i) copy.magic[i] = kFileMagic[i];
  header_->checksum = header_checksum(copy);
  std::uint64_t magic;
  __builtin_memcpy(&magic, kFileMagic, sizeof magic);
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(header_->magic), magic, __ATOMIC_RELEASE);
}

bool TraceStorage::descriptor_is_ours() const noexcept {
  sys::FileIdentity now;
  return fd_ >= 0 && sys::identify(fd_, now) && now == identity_;
}

bool TraceStorage::reopen_descriptor() noexcept {
  const int fd = sys::open(path_, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (sys::failed(fd)) return false;
  sys::FileIdentity now;
  if (!sys::identify(fd, now) || !(now == identity_)) {
    sys::close(fd);
    return false;
  }
  const int high = sys::move_high(fd);
  fd_ = high < 0 ? fd : high;
  return true;
}

Failure TraceStorage::reserve(std::uint64_t offset, std::uint64_t bytes) noexcept {
  // If the file size is limited, all signals but faults are blocked, not only SIGXFSZ: otherwise a handler could
  // leave by longjmp while SIGXFSZ is blocked.
  sys::BlockedSignals blocked(file_size_is_limited() ? sys::kAllButFaults : 0);
  long result = reserve_space(fd_, offset, bytes);
  blocked.restore(result == kTooBig ? sys::signal_bit(SIGXFSZ) : 0);
  // A signal may interrupt a reservation (fallocate(2), EINTR; tmpfs in older kernels). A timer of the host may do so
  // each time, so the next attempts are made with signals blocked.
  constexpr int kMaxAttempts = 100;
  for (int i = 0; i < kMaxAttempts && result == sys::kInterrupted; ++i) {
    sys::BlockedSignals all(sys::kAllButFaults);
    result = reserve_space(fd_, offset, bytes);
    all.restore(result == kTooBig ? sys::signal_bit(SIGXFSZ) : 0);
  }
  if (!sys::failed(result)) return nullptr;
  if (result == kNoSpace) return kDiskFull;
  if (result == kQuota) return "the disk quota is exceeded";
  if (result == kTooBig) return "the trace reached the file size limit (ulimit -f)";
  return "cannot extend the trace";
}

void* TraceStorage::allocate_extent(std::uint32_t bytes, ExtentKind kind, StreamId stream, std::uint32_t ordinal,
                                    Failure& failure) noexcept {
  failure = nullptr;
  if (__atomic_load_n(&sys::g_forbidden, __ATOMIC_RELAXED) != 0) {
    failure = "the program forbids system calls (seccomp), and the space that was mapped before is full";
    return nullptr;
  }
  const std::uint64_t offset = __atomic_fetch_add(&next_offset_, bytes, __ATOMIC_RELAXED);
  // A child that was forked before this check stops here. A child that is forked after it does the same as its
  // parent: it reserves the same range of the file and writes the same extent header there.
  if (in_forked_child()) {
    failure = "this is a forked child";
    return nullptr;
  }
  if (max_bytes_ != 0 && offset + bytes > max_bytes_) {
    failure = "HEAPPROF_MAX_FILE_SIZE is reached";
    return nullptr;
  }
  if (!descriptor_is_ours() && !reopen_descriptor()) {
    failure = "the program closed the trace's file descriptor, and the trace is no longer at its path";
    return nullptr;
  }
  if ((failure = reserve(offset, bytes)) != nullptr) return nullptr;
  void* memory = sys::map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, offset);
  if (sys::failed(memory)) {
    failure = "cannot map the trace: no address space, or the memory limit is reached";
    return nullptr;
  }
  if (!descriptor_is_ours()) {
    // The host reused the descriptor's number after the check, so the mapping may be of a file of the host.
    sys::unmap(memory, bytes);
    failure = "the program replaced the trace's file descriptor";
    return nullptr;
  }
  sys::add_own_mapping(memory, bytes);
  auto* header = static_cast<ExtentHeader*>(memory);
  ExtentHeader filled{kExtentMagic, file_id_, offset, bytes, kind, stream, ordinal, 0};
  filled.checksum = header_checksum(filled);
  __builtin_memcpy(reinterpret_cast<char*>(header) + sizeof header->magic,
                   reinterpret_cast<const char*>(&filled) + sizeof header->magic,
                   sizeof filled - sizeof header->magic);
  __atomic_store_n(&header->magic, kExtentMagic, __ATOMIC_RELEASE);
  std::uint64_t known = __atomic_load_n(&header_->file_bytes, __ATOMIC_RELAXED);
  while (known < offset + bytes && !__atomic_compare_exchange_n(&header_->file_bytes, &known, offset + bytes, false,
                                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return memory;
}

void TraceStorage::forget() noexcept {
  header_ = nullptr;
  if (descriptor_is_ours()) sys::close(fd_);
  fd_ = -1;
}

}  // namespace heapprof::recorder
