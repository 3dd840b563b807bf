// A snapshot of the process's resident pages, as items in text records (TextKind::kResidency): encoder and decoder.
//
// A snapshot is a sequence of pieces, one text record each. A piece is a sequence of items and can be decoded alone,
// so that damage costs one piece. An item is a tag (ResidencyTag) and varints:
//
//   begin     reason, method, CLOCK_MONOTONIC ns, resident bytes, shared bytes, page bytes
//   mapping   first page minus the end of the piece's mapping before it, pages, flags, device, inode, file offset in
//             pages, bytes of the name; the name
//   group     number minus that of the piece's group before it, layout; 64 bytes of bits for each plane in kBits
//   recorder  address, bytes                          memory of the recorder itself
//   stack     thread id, stack pointer, end of the stack
//   end       CLOCK_MONOTONIC ns, processor time of the snapshot in ns, 1 if it is complete
//
// A page group is 512 consecutive pages, at a multiple of 512 pages (2 MiB with pages of 4 KiB), of whatever
// mappings. It has one bit for each page in each plane (ResidencyPlane); a plane of `layout` is empty, full, or 64
// bytes. Groups in which all planes are empty are left out. Mappings and groups are in the order of their addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/varint.h"

namespace heapprof {

enum class ResidencyTag : std::uint8_t {
  kBegin = 1,
  kMapping = 2,
  kGroup = 3,
  kRecorder = 4,
  kStack = 5,
  kEnd = 6,
};

/// Why a snapshot was taken.
enum class SnapshotReason : std::uint32_t {
  kMark = 1,       ///< the program or the user set a mark
  kRequest = 2,    ///< `heapprof control snapshot`
  kExit = 3,       ///< the program ended, or was about to execute another one
  kResidency = 4,  ///< resident memory was 10 % above or below that of the last snapshot
};

/// How pages were read.
enum class SnapshotMethod : std::uint32_t {
  /// The ioctl PAGEMAP_SCAN (Linux 6.7); in private anonymous memory mincore may have said which pages are present.
  kPagemapScan = 1,
  /// mincore for private anonymous memory, /proc/self/pagemap for the rest: swapped pages of the former, zero pages
  /// and huge pages are not known.
  kMincore = 2,
};

/// The planes of a group: one bit for each page.
enum ResidencyPlane : unsigned {
  kPresent,  ///< resident: mapped by the process's page tables
  kSwapped,
  kZero,  ///< present, but the kernel's page of zeros, which does not count as resident
  kHuge,  ///< present, and mapped as part of a huge page
  kResidencyPlanes
};

inline constexpr std::uint32_t kGroupPages = 512;
inline constexpr std::size_t kPlaneBytes = kGroupPages / 8;

/// Two bits for each plane in the layout of a group, the first plane lowest.
enum class PlaneLayout : std::uint32_t { kEmpty = 0, kFull = 1, kBits = 2 };

struct PageGroup {
  std::uint64_t number = 0;  ///< address of its first page / (512 pages)
  std::uint64_t planes[kResidencyPlanes][kGroupPages / 64] = {};

  bool is_empty() const noexcept {
    std::uint64_t bits = 0;
    for (const auto& plane : planes)
      for (const std::uint64_t word : plane) bits |= word;
    return bits == 0;
  }
  PlaneLayout layout(unsigned plane) const noexcept {
    bool empty = true, full = true;
    for (const std::uint64_t word : planes[plane]) {
      empty &= word == 0;
      full &= word == ~std::uint64_t{0};
    }
    return empty ? PlaneLayout::kEmpty : full ? PlaneLayout::kFull : PlaneLayout::kBits;
  }
  /// Sets the bits [first, last) of a plane. Precondition: first < last <= kGroupPages.
  void set(unsigned plane, std::uint32_t first, std::uint32_t last) noexcept {
    for_words(first, last, [&](std::uint32_t word, std::uint64_t bits) { planes[plane][word] |= bits; });
  }
  /// Clears them.
  void clear(unsigned plane, std::uint32_t first, std::uint32_t last) noexcept {
    for_words(first, last, [&](std::uint32_t word, std::uint64_t bits) { planes[plane][word] &= ~bits; });
  }

 private:
  /// Calls change(word, bits) for the words that have bits of [first, last).
  template <typename Change>
  static void for_words(std::uint32_t first, std::uint32_t last, Change&& change) noexcept {
    const std::uint32_t first_word = first / 64, last_word = (last - 1) / 64;
    const std::uint64_t from_first = ~std::uint64_t{0} << first % 64;
    const std::uint64_t until_last = ~std::uint64_t{0} >> (63 - (last - 1) % 64);
    if (first_word == last_word) return change(first_word, from_first & until_last);
    change(first_word, from_first);
    for (std::uint32_t word = first_word + 1; word < last_word; ++word) change(word, ~std::uint64_t{0});
    change(last_word, until_last);
  }
};

/// Flags of a mapping.
inline constexpr std::uint32_t kMappingReadable = 1;
inline constexpr std::uint32_t kMappingWritable = 2;
inline constexpr std::uint32_t kMappingExecutable = 4;
inline constexpr std::uint32_t kMappingShared = 8;
inline constexpr std::uint32_t kMappingNameTruncated = 16;

struct ResidencyBegin {
  SnapshotReason reason;
  SnapshotMethod method;
  std::uint64_t monotonic_ns;
  std::uint64_t resident_bytes;  ///< by statm; 0: unknown
  std::uint64_t shared_bytes;
  std::uint64_t page_bytes;
};
struct ResidencyMapping {
  std::uint64_t first_page;  ///< address / page size
  std::uint64_t pages;
  std::uint32_t flags;   ///< kMapping...
  std::uint64_t device;  ///< major << 32 | minor
  std::uint64_t inode;   ///< 0: no file
  std::uint64_t offset_pages;
  const char* name;  ///< as in /proc/self/maps; not terminated
  std::size_t name_bytes;
};
struct ResidencyStack {
  std::uint64_t thread;
  std::uint64_t stack_pointer;  ///< at one of the thread's latest events
  std::uint64_t end;            ///< the address after the stack's highest byte; 0: unknown
};
struct ResidencyEnd {
  std::uint64_t monotonic_ns;
  std::uint64_t spent_ns;  ///< processor time
  bool complete;
};

/// Names of mappings are truncated to this, so that every item fits into the text of the smallest block.
inline constexpr std::size_t kMaxMappingNameBytes = 1024;
/// No item is larger.
inline constexpr std::size_t kMaxResidencyItemBytes = 1 + 8 * kMaxVarintBytes + kMaxMappingNameBytes;
static_assert(kMaxResidencyItemBytes >= 1 + 2 * kMaxVarintBytes + kResidencyPlanes * kPlaneBytes);

/// Encodes one piece into a buffer of the caller. Before each item, at least kMaxResidencyItemBytes must be left in
/// the buffer. Allocates nothing and cannot fail.
class ResidencyEncoder {
 public:
  constexpr explicit ResidencyEncoder(std::uint8_t* out) noexcept : begin_(out), at_(out) {}

  std::size_t bytes() const noexcept { return static_cast<std::size_t>(at_ - begin_); }
  /// The next item begins another piece, in the same buffer.
  void restart() noexcept { *this = ResidencyEncoder(begin_); }

  void begin(const ResidencyBegin& item) noexcept {
    tag(ResidencyTag::kBegin);
    number(static_cast<std::uint64_t>(item.reason));
    number(static_cast<std::uint64_t>(item.method));
    number(item.monotonic_ns);
    number(item.resident_bytes);
    number(item.shared_bytes);
    number(item.page_bytes);
  }
  /// Precondition: the mapping begins at or above the end of the piece's last one.
  void mapping(const ResidencyMapping& item) noexcept {
    tag(ResidencyTag::kMapping);
    number(item.first_page - last_page_);
    number(item.pages);
    number(item.flags);
    number(item.device);
    number(item.inode);
    number(item.offset_pages);
    const std::size_t bytes = item.name_bytes < kMaxMappingNameBytes ? item.name_bytes : kMaxMappingNameBytes;
    number(bytes);
    std::memcpy(at_, item.name, bytes);
    at_ += bytes;
    last_page_ = item.first_page + item.pages;
  }
  /// Precondition: its number is above that of the piece's last group.
  void group(const PageGroup& item) noexcept {
    tag(ResidencyTag::kGroup);
    number(item.number - last_group_);
    last_group_ = item.number;
    std::uint64_t layout = 0;
    for (unsigned plane = 0; plane < kResidencyPlanes; ++plane)
      layout |= static_cast<std::uint64_t>(item.layout(plane)) << (2 * plane);
    number(layout);
    for (unsigned plane = 0; plane < kResidencyPlanes; ++plane) {
      if (item.layout(plane) != PlaneLayout::kBits) continue;
      std::memcpy(at_, item.planes[plane], kPlaneBytes);
      at_ += kPlaneBytes;
    }
  }
  void recorder(std::uint64_t address, std::uint64_t bytes) noexcept {
    tag(ResidencyTag::kRecorder);
    number(address);
    number(bytes);
  }
  void stack(const ResidencyStack& item) noexcept {
    tag(ResidencyTag::kStack);
    number(item.thread);
    number(item.stack_pointer);
    number(item.end);
  }
  void end(const ResidencyEnd& item) noexcept {
    tag(ResidencyTag::kEnd);
    number(item.monotonic_ns);
    number(item.spent_ns);
    number(item.complete ? 1 : 0);
  }

 private:
  void tag(ResidencyTag value) noexcept { *at_++ = static_cast<std::uint8_t>(value); }
  void number(std::uint64_t value) noexcept { at_ = put_varint(at_, value); }

  std::uint8_t* begin_;
  std::uint8_t* at_;
  std::uint64_t last_page_ = 0;
  std::uint64_t last_group_ = 0;
};

/// Decodes one piece and calls visitor.begin(ResidencyBegin), mapping(ResidencyMapping), group(PageGroup),
/// recorder(address, bytes), stack(ResidencyStack), end(ResidencyEnd) for its items. A visitor's function returns
/// false to stop. Returns false when the piece is malformed or a function has returned false; what was visited before
/// is valid: no mapping or group wraps around the end of the address space, mappings do not overlap, groups ascend.
template <typename Visitor>
bool decode_residency(const std::uint8_t* at, std::size_t bytes, Visitor&& visitor) {
  const std::uint8_t* const end = at + bytes;
  std::uint64_t last_page = 0, last_group = 0;
  bool first_group = true, ok = true;
  const auto number = [&]() noexcept {
    std::uint64_t value = 0;
    const std::uint8_t* const after = ok ? get_varint(at, end, value) : nullptr;
    if (after == nullptr) return ok = false, std::uint64_t{0};
    at = after;
    return value;
  };
  /// Adds without overflow.
  const auto add = [&](std::uint64_t a, std::uint64_t b) noexcept {
    if (a + b < a) ok = false;
    return a + b;
  };
  while (at != end) {
    switch (static_cast<ResidencyTag>(*at++)) {
      case ResidencyTag::kBegin: {
        ResidencyBegin item{};
        item.reason = static_cast<SnapshotReason>(number());
        item.method = static_cast<SnapshotMethod>(number());
        item.monotonic_ns = number();
        item.resident_bytes = number();
        item.shared_bytes = number();
        item.page_bytes = number();
        if (!ok || !visitor.begin(item)) return false;
        break;
      }
      case ResidencyTag::kMapping: {
        ResidencyMapping item{};
        item.first_page = add(last_page, number());
        item.pages = number();
        last_page = add(item.first_page, item.pages);
        item.flags = static_cast<std::uint32_t>(number());
        item.device = number();
        item.inode = number();
        item.offset_pages = number();
        const std::uint64_t name_bytes = number();
        if (!ok || name_bytes > kMaxMappingNameBytes || name_bytes > static_cast<std::size_t>(end - at)) return false;
        item.name = reinterpret_cast<const char*>(at);
        item.name_bytes = static_cast<std::size_t>(name_bytes);
        at += item.name_bytes;
        if (!visitor.mapping(item)) return false;
        break;
      }
      case ResidencyTag::kGroup: {
        PageGroup item;
        const std::uint64_t distance = number();
        item.number = add(last_group, distance);
        const std::uint64_t layout = number();
        if (!ok || layout >> (2 * kResidencyPlanes) != 0 || (distance == 0 && !first_group)) return false;
        first_group = false;
        last_group = item.number;
        for (unsigned plane = 0; plane < kResidencyPlanes; ++plane) {
          switch (static_cast<PlaneLayout>(layout >> (2 * plane) & 3)) {
            case PlaneLayout::kEmpty: break;
            case PlaneLayout::kFull: std::memset(item.planes[plane], 0xff, kPlaneBytes); break;
            case PlaneLayout::kBits:
              if (static_cast<std::size_t>(end - at) < kPlaneBytes) return false;
              std::memcpy(item.planes[plane], at, kPlaneBytes);
              at += kPlaneBytes;
              break;
            default: return false;
          }
        }
        if (!visitor.group(item)) return false;
        break;
      }
      case ResidencyTag::kRecorder: {
        const std::uint64_t address = number();
        const std::uint64_t size = number();
        add(address, size);
        if (!ok || !visitor.recorder(address, size)) return false;
        break;
      }
      case ResidencyTag::kStack: {
        ResidencyStack item{};
        item.thread = number();
        item.stack_pointer = number();
        item.end = number();
        if (!ok || !visitor.stack(item)) return false;
        break;
      }
      case ResidencyTag::kEnd: {
        ResidencyEnd item{};
        item.monotonic_ns = number();
        item.spent_ns = number();
        const std::uint64_t complete = number();
        item.complete = complete == 1;
        if (!ok || complete > 1 || !visitor.end(item)) return false;
        break;
      }
      default: return false;
    }
  }
  return true;
}

}  // namespace heapprof
