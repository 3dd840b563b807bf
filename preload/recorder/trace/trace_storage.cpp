#include "preload/recorder/trace/trace_storage.h"

#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include "common/checksum.h"
#include "preload/base/text.h"
#include "preload/recorder/process/fork_watch.h"

namespace heapprof::recorder {

namespace {

// Kernel numbers that are not in the headers' magic.h.
constexpr long kFuseMagic = 0x65735546, kZfsMagic = 0x2fc12fc1, kBcachefsMagic = static_cast<long>(0xca451a4e),
               kCephMagic = 0x00c36400, kCifsMagic = static_cast<long>(0xff534d42),
               kSmb2Magic = static_cast<long>(0xfe534d42);

constexpr int kNotFound = -2, kInputOutput = -5, kExists = -17, kTooBig = -27, kNoSpace = -28, kQuota = -122,
              kNotSupported = -95;

// Paths are put together in static buffers: only one thread at a time opens a trace (lifecycle.cpp), and it may
// be on a small stack.
constexpr std::size_t kPathBytes = 4096;

constexpr Failure kFailureDisk = "no space left for the trace";

/// Makes every folder of `path` that is missing.
void make_folders(const char* path) noexcept {
  static char folder[kPathBytes];
  Text text(folder);
  for (const char* at = path; *at != '\0'; ++at) {
    if (*at == '/' && at != path) sys::mkdir(folder, 0777);  // the host's umask applies; existing ones fail
    text.add(*at);
  }
}

/// btrfs copies a reserved block on rewriting, and then a full disk raises SIGBUS all the same, unless the
/// file is marked not to be copied while it is empty (btrfs(5), "nodatacow").
void keep_in_place(int fd, long file_system) noexcept {
  if (file_system != BTRFS_SUPER_MAGIC) return;
  int flags = 0;
  if (sys::failed(sys::call(SYS_ioctl, fd, FS_IOC_GETFLAGS, sys::word(&flags)))) return;
  flags |= FS_NOCOW_FL;
  sys::call(SYS_ioctl, fd, FS_IOC_SETFLAGS, sys::word(&flags));
}

/// Whether a btrfs quota limits the subvolume of `fd`. Such a quota can refuse a page that was reserved when it is
/// written, and a refused page of a mapping is SIGBUS for the host (tried on Linux 6.18). Limits of quota groups
/// above the subvolume's own are not seen.
bool quota_is_limited(int fd) noexcept {
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
    case kSmb2Magic:
      return false;
    default:
      return true;
  }
}

/// Whether a file that grows may meet RLIMIT_FSIZE.
bool file_size_is_limited() noexcept {
  rlimit limit{};
  sys::call(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, sys::word(&limit));
  return limit.rlim_cur != RLIM_INFINITY;
}

/// Takes the space on the disk. Returns a negated errno, sys::kInterrupted among them, or 0.
long take_space(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const long result = sys::fallocate(fd, offset, bytes);
  if (result != kNotSupported) return result;
  // A file system without reservation: written zeros are as good where it does not copy on write. All of them: a page
  // of the mapping that lies behind the end of the file is SIGBUS for the host.
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

bool expand_pattern(const char* pattern, const char* program, int pid, std::uint64_t start_realtime_ns,
                    char* result, std::size_t size) noexcept {
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
        utsname names{};
        sys::call(SYS_uname, sys::word(&names));
        add_name(names.nodename);
        break;
      }
      case '%': text.add('%'); break;
      case '\0': text.add('%'); --pattern; break;
      default: text.add('%').add(*pattern);
    }
  }
  return !text.overflowed();
}

Failure TraceFile::create(const char* pattern, const char* program, std::uint64_t start_realtime_ns,
                          std::uint64_t max_bytes) noexcept {
  max_bytes_ = max_bytes;
  static char name[kPathBytes];
  // Room for a suffix ".NNNNNN" is kept.
  if (!expand_pattern(pattern, program, sys::process_id(), start_realtime_ns, name, sizeof name - 8))
    return "the trace's path is too long";
  // Absolute, so that it can be reopened after the host changed its folder, and named in messages.
  static char absolute[kPathBytes];
  Text whole(absolute);
  if (name[0] != '/') {
    static char folder[kPathBytes];
    if (sys::failed(sys::call(SYS_getcwd, sys::word(folder), sizeof folder))) folder[0] = '\0';
    whole.add(folder).add('/');
  }
  whole.add(name);
  if (whole.overflowed()) return "the trace's path is too long";

  int fd = -1;
  bool folders_made = false;
  for (std::uint64_t suffix = 0;;) {
    Text path(path_);
    path.add(absolute);
    if (suffix != 0) path.add('.').number(suffix);
    if (path.overflowed()) return "the trace's path is too long";
    fd = sys::open(path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (!sys::failed(fd)) break;
    if (fd == kExists && suffix < 1'000'000) {
      ++suffix;
    } else if (fd == kNotFound && !folders_made) {
      make_folders(absolute);
      folders_made = true;
    } else {
      return fd == -13 || fd == -30 ? "the trace can't be written there: permission denied or read-only"
             : fd == kNoSpace       ? kFailureDisk
                                    : "the trace can't be created";
    }
  }
  // As high as the limit allows, but where a small table of descriptors need not grow by much.
  const int high = sys::duplicate_high(fd, 1000);
  const int higher = sys::failed(high) ? sys::duplicate_high(fd, 100) : high;
  if (!sys::failed(higher)) {
    sys::close(fd);
    fd = higher;
  }
  fd_ = fd;
  sys::identify(fd_, identity_);
  const Failure failure = prepare(start_realtime_ns);
  if (failure != nullptr) remove();
  return failure;
}

Failure TraceFile::prepare(std::uint64_t start_realtime_ns) noexcept {
  struct statfs file_system {};
  sys::call(SYS_fstatfs, fd_, sys::word(&file_system));
  rewrites_in_place_ = recorder::rewrites_in_place(static_cast<long>(file_system.f_type));
  keep_in_place(fd_, static_cast<long>(file_system.f_type));
  if (file_system.f_type == BTRFS_SUPER_MAGIC && quota_is_limited(fd_))
    return "a btrfs quota limits the folder, which could end the program; "
           "choose another file system (HEAPPROF_OUTPUT)";

  const std::uint64_t page = getauxval(AT_PAGESZ);
  unit_bytes_ = page > kUnitBytes ? page : kUnitBytes;
  if (const Failure failure = reserve(0, unit_bytes_)) return failure;
  void* header = sys::map(nullptr, unit_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (sys::failed(header)) return "the trace can't be mapped";
  header_ = static_cast<FileHeader*>(header);
  next_offset_ = unit_bytes_;
  if (!sys::random(&file_id_, sizeof file_id_)) file_id_ = start_realtime_ns * 0x9e3779b97f4a7c15 + identity_.inode;
  return nullptr;
}

void TraceFile::remove() noexcept {
  sys::FileIdentity now;
  if (sys::identify(path_, now) && now == identity_) sys::unlink(path_);
  sys::close(fd_);
  fd_ = -1;
}

void TraceFile::publish_header() noexcept {
  header_->header_bytes = static_cast<std::uint32_t>(unit_bytes_);
  header_->unit_bytes = static_cast<std::uint32_t>(unit_bytes_);
  header_->slot_bytes = sizeof(Slot);
  header_->version_major = kVersionMajor;
  header_->version_minor = kVersionMinor;
  header_->file_id = file_id_;
  FileHeader copy = *header_;
  for (unsigned i = 0; i < sizeof kFileMagic; ++i) copy.magic[i] = kFileMagic[i];
  header_->checksum = checksum(&copy, offsetof(FileHeader, checksum));
  std::uint64_t magic;
  __builtin_memcpy(&magic, kFileMagic, sizeof magic);
  __atomic_store_n(reinterpret_cast<std::uint64_t*>(header_->magic), magic, __ATOMIC_RELEASE);
}

bool TraceFile::descriptor_is_ours() const noexcept {
  sys::FileIdentity now;
  return fd_ >= 0 && sys::identify(fd_, now) && now == identity_;
}

bool TraceFile::recover_descriptor() noexcept {
  const int fd = sys::open(path_, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (sys::failed(fd)) return false;
  sys::FileIdentity now;
  const bool ours = sys::identify(fd, now) && now == identity_;
  const int high = ours ? sys::duplicate_high(fd, 1000) : -1;
  if (ours && sys::failed(high)) {
    fd_ = fd;
    return true;
  }
  sys::close(fd);
  if (!ours) return false;
  fd_ = high;
  return true;
}

Failure TraceFile::reserve(std::uint64_t offset, std::uint64_t bytes) noexcept {
  // All signals, so that no handler leaves by longjmp while SIGXFSZ is held.
  sys::SignalsHeld held(file_size_is_limited() ? sys::kAllButFaults : 0);
  long result = take_space(fd_, offset, bytes);
  held.finish(result == kTooBig ? sys::signal_bit(SIGXFSZ) : 0);
  // A signal may end a reservation (fallocate(2), EINTR; tmpfs in older kernels). The host may have a timer that
  // always comes first, so the next attempts are made without its signals.
  constexpr int kMaxAttempts = 100;
  for (int i = 0; i < kMaxAttempts && result == sys::kInterrupted; ++i) {
    sys::SignalsHeld all(sys::kAllButFaults);
    result = take_space(fd_, offset, bytes);
    all.finish(result == kTooBig ? sys::signal_bit(SIGXFSZ) : 0);
  }
  if (!sys::failed(result)) return nullptr;
  if (result == kNoSpace) return kFailureDisk;
  if (result == kQuota) return "the disk quota for the trace is used up";
  if (result == kTooBig) return "the trace reached the limit on file sizes (ulimit -f)";
  return "the trace can't be extended";
}

void* TraceFile::allocate_extent(std::uint32_t bytes, ExtentKind kind, StreamId stream, std::uint32_t ordinal,
                                 Failure& failure) noexcept {
  failure = nullptr;
  if (__atomic_load_n(&sys::g_forbidden, __ATOMIC_RELAXED) != 0) {
    failure = "the program forbade system calls (seccomp), and the space mapped before is used up";
    return nullptr;
  }
  const std::uint64_t offset = __atomic_fetch_add(&next_offset_, bytes, __ATOMIC_RELAXED);
  // What a child still does behind this, forked in the middle of it, is what its parent did there.
  if (in_forked_child()) {
    failure = "this is a forked child";
    return nullptr;
  }
  if (max_bytes_ != 0 && offset + bytes > max_bytes_) {
    failure = "HEAPPROF_MAX_FILE_SIZE is reached";
    return nullptr;
  }
  if (!descriptor_is_ours() && !recover_descriptor()) {
    failure = "the program closed the trace's descriptor, and its path no longer leads to it";
    return nullptr;
  }
  if ((failure = reserve(offset, bytes)) != nullptr) return nullptr;
  void* memory = sys::map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, offset);
  if (sys::failed(memory)) {
    failure = "the trace can't be mapped: address space or memory limit";
    return nullptr;
  }
  if (!descriptor_is_ours()) {
    // The host took the number between the check and the mapping: the mapping may be of its file.
    sys::unmap(memory, bytes);
    failure = "the program replaced the trace's descriptor";
    return nullptr;
  }
  auto* header = static_cast<ExtentHeader*>(memory);
  ExtentHeader filled{kExtentMagic, file_id_, offset, bytes, kind, stream, ordinal, 0};
  filled.checksum = checksum(&filled, offsetof(ExtentHeader, checksum));
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

void TraceFile::abandon() noexcept {
  header_ = nullptr;
  if (descriptor_is_ours()) sys::close(fd_);
  fd_ = -1;
}

}  // namespace heapprof::recorder
