#include "analyzer/export/heaptrack_writer.h"

#include <algorithm>
#include <utility>

namespace heapprof::exporter {
namespace {

// The oldest heaptrack with version 3 of the format. Readers use it only in messages.
constexpr std::uint64_t kToolVersion = 0x10300;
constexpr std::uint64_t kFormatVersion = 3;
constexpr std::uint64_t kTimeStepNs = 10'000'000;
constexpr std::uint64_t kMillisecondNs = 1'000'000;
constexpr std::size_t kFirstSlots = 1024;

template <typename Index>
constexpr std::uint32_t raw(Index index) noexcept {
  return static_cast<std::uint32_t>(index);
}

/// Lower case, no leading zeros. At most 16 characters.
char* put_hex(char* out, std::uint64_t value) noexcept {
  int shift = 60;
  while (shift > 0 && (value >> shift) == 0) shift -= 4;
  for (; shift >= 0; shift -= 4) *out++ = "0123456789abcdef"[value >> shift & 0xf];
  return out;
}

void append_hex(std::string& out, std::uint64_t value) {
  char digits[16];
  out.append(digits, put_hex(digits, value));
}

/// A line is a record, so text in it must not contain the end of a line.
std::string one_line(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return out;
}

constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x *= 0x9e3779b97f4a7c15;
  return x ^ x >> 32;
}

}  // namespace

HeaptrackWriter::HeaptrackWriter(Sink& output, const Header& header, std::uint64_t index_limit)
    : output_(output), index_limit_(index_limit), page_bytes_(std::max<std::uint64_t>(1, header.page_bytes)),
      class_slots_(kFirstSlots, kNoClass) {
  line_ = "v ";
  append_hex(line_, kToolVersion);
  line_ += ' ';
  append_hex(line_, kFormatVersion);
  line_ += "\nX " + one_line(header.command) + "\nI ";
  append_hex(line_, page_bytes_);
  line_ += ' ';
  append_hex(line_, header.physical_pages);
  line_ += '\n';
  output_.write(line_);
}

bool HeaptrackWriter::within_limit(std::size_t count, const char* what) {
  if (count < index_limit_) return true;
  output_.fail("more than " + std::to_string(index_limit_) + " " + what + ", which heaptrack's format cannot number");
  return false;
}

HeaptrackString HeaptrackWriter::string(std::string_view text) {
  if (text.empty()) return HeaptrackString::kNone;
  std::string clean = one_line(text);
  if (const auto found = strings_.find(clean); found != strings_.end()) return found->second;
  if (!within_limit(strings_.size(), "strings")) return HeaptrackString::kNone;
  line_ = "s ";
  append_hex(line_, clean.size());
  line_ += ' ';
  line_ += clean;
  line_ += '\n';
  output_.write(line_);
  const auto number = static_cast<HeaptrackString>(strings_.size() + 1);
  strings_.emplace(std::move(clean), number);
  return number;
}

HeaptrackIp HeaptrackWriter::instruction(std::uint64_t address, std::string_view module,
                                         std::span<const HeaptrackFrame> frames) {
  if (!within_limit(ip_count_, "instructions")) return HeaptrackIp::kNone;
  // Strings are written first: their records must not be within this one.
  struct Numbers {
    std::uint32_t function, file;
  };
  const std::uint32_t module_number = raw(string(module));
  std::vector<Numbers> numbers;
  numbers.reserve(frames.size());
  for (const HeaptrackFrame& frame : frames) {
    // An unnamed frame among named ones is kept; a single one is an address without a symbol.
    const bool nameless = frame.function.empty() && frames.size() > 1;
    numbers.push_back({raw(string(nameless ? "??" : frame.function)), raw(string(frame.file))});
  }

  std::string record = "i ";
  append_hex(record, address);
  const auto field = [&](std::uint64_t value) {
    record += ' ';
    append_hex(record, value);
  };
  field(module_number);
  if (frames.size() == 1 && numbers[0].file == 0) {
    if (numbers[0].function != 0) field(numbers[0].function);
  } else {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      field(numbers[i].function);
      field(numbers[i].file);
      // Readers parse a signed 32-bit number.
      field(numbers[i].file == 0 ? 0 : std::min<std::uint32_t>(frames[i].line, INT32_MAX));
    }
  }
  record += '\n';
  output_.write(record);
  return static_cast<HeaptrackIp>(++ip_count_);
}

HeaptrackTrace HeaptrackWriter::trace(HeaptrackIp ip, HeaptrackTrace parent) {
  const std::uint64_t key = std::uint64_t{raw(ip)} << 32 | raw(parent);
  if (const auto found = traces_.find(key); found != traces_.end()) return found->second;
  if (!within_limit(traces_.size(), "stack frames")) return HeaptrackTrace::kNone;
  const auto number = static_cast<HeaptrackTrace>(traces_.size() + 1);
  traces_.emplace(key, number);
  char* const begin = output_.reserve(Sink::kMaxDirect);
  char* out = begin;
  *out++ = 't';
  *out++ = ' ';
  out = put_hex(out, raw(ip));
  *out++ = ' ';
  out = put_hex(out, raw(parent));
  *out++ = '\n';
  output_.commit(static_cast<std::size_t>(out - begin));
  return number;
}

void HeaptrackWriter::write_event(char type, std::uint64_t number) {
  char* const begin = output_.reserve(Sink::kMaxDirect);
  char* out = begin;
  *out++ = type;
  *out++ = ' ';
  out = put_hex(out, number);
  *out++ = '\n';
  output_.commit(static_cast<std::size_t>(out - begin));
}

void HeaptrackWriter::write_time(std::uint64_t time_ns) {
  const std::uint64_t time_ms = time_ns / kMillisecondNs;
  write_event('c', time_ms);
  totals_.last_time_ms = time_ms;
  next_time_ns_ = time_ns > UINT64_MAX - kTimeStepNs ? UINT64_MAX : time_ns - time_ns % kTimeStepNs + kTimeStepNs;
}

void HeaptrackWriter::resident(std::uint64_t bytes) {
  const std::uint64_t pages = bytes / page_bytes_;
  write_event('R', pages);
  totals_.peak_rss_bytes = std::max(totals_.peak_rss_bytes, pages * page_bytes_);
}

std::size_t HeaptrackWriter::slot_of(std::uint64_t size_bytes, HeaptrackTrace trace) const noexcept {
  const std::size_t mask = class_slots_.size() - 1;
  std::size_t slot = mix(size_bytes + mix(raw(trace))) & mask;
  while (class_slots_[slot] != kNoClass) {
    const ClassFigures& figures = classes_[class_slots_[slot]];
    if (figures.size_bytes == size_bytes && figures.trace == trace) break;
    slot = (slot + 1) & mask;
  }
  return slot;
}

std::uint32_t HeaptrackWriter::find_class(std::uint64_t size_bytes, HeaptrackTrace trace) const noexcept {
  return class_slots_[slot_of(size_bytes, trace)];
}

void HeaptrackWriter::grow_classes() {
  class_slots_.assign(class_slots_.size() * 2, kNoClass);
  for (std::uint32_t number = 0; number < classes_.size(); ++number)
    class_slots_[slot_of(classes_[number].size_bytes, classes_[number].trace)] = number;
}

std::uint32_t HeaptrackWriter::new_class(std::uint64_t size_bytes, HeaptrackTrace trace) {
  if (!within_limit(classes_.size(), "pairs of size and stack")) return kNoClass;
  if ((classes_.size() + 1) * 2 > class_slots_.size()) grow_classes();
  const auto number = static_cast<std::uint32_t>(classes_.size());
  class_slots_[slot_of(size_bytes, trace)] = number;
  classes_.push_back({.size_bytes = size_bytes, .trace = trace});
  char* const begin = output_.reserve(Sink::kMaxDirect);
  char* out = begin;
  *out++ = 'a';
  *out++ = ' ';
  out = put_hex(out, size_bytes);
  *out++ = ' ';
  out = put_hex(out, raw(trace));
  *out++ = '\n';
  output_.commit(static_cast<std::size_t>(out - begin));
  return number;
}

HeaptrackClass HeaptrackWriter::allocation(std::uint64_t size_bytes, HeaptrackTrace trace) {
  std::uint32_t number = find_class(size_bytes, trace);
  if (number == kNoClass) {
    number = new_class(size_bytes, trace);
    if (number == kNoClass) return HeaptrackClass{kNoClass};
  }
  write_event('+', number);
  ClassFigures& figures = classes_[number];
  ++figures.calls;
  ++figures.live;
  ++totals_.calls;
  latest_ = number;
  live_bytes_ += size_bytes;
  totals_.leaked_bytes = live_bytes_;
  if (live_bytes_ > totals_.peak_bytes) {
    totals_.peak_bytes = live_bytes_;
    totals_.peak_time_ms = totals_.last_time_ms;
  }
  return HeaptrackClass{number};
}

bool HeaptrackWriter::deallocation(HeaptrackClass of) {
  const std::uint32_t number = raw(of);
  if (number >= classes_.size() || classes_[number].live == 0) return false;
  write_event('-', number);
  ClassFigures& figures = classes_[number];
  --figures.live;
  live_bytes_ -= figures.size_bytes;
  totals_.leaked_bytes = live_bytes_;
  if (latest_ == number) {
    ++figures.temporary;
    ++totals_.temporary;
  }
  latest_ = 0;
  return true;
}

bool HeaptrackWriter::deallocation(std::uint64_t size_bytes, HeaptrackTrace trace) {
  return deallocation(HeaptrackClass{find_class(size_bytes, trace)});
}

void HeaptrackWriter::finish(std::uint64_t time_ns, std::uint64_t resident_bytes) {
  write_time(std::max(time_ns, totals_.last_time_ms * kMillisecondNs));
  resident(resident_bytes);
}

HeaptrackStacks::HeaptrackStacks(HeaptrackWriter& writer, std::span<const Node> tree, Resolve resolve)
    : writer_(writer), tree_(tree), resolve_(std::move(resolve)), traces_(tree.size()), known_(tree.size()) {}

HeaptrackTrace HeaptrackStacks::write(std::uint32_t node) {
  // Parents are written before children: go up to the first frame that was written, then down again.
  path_.clear();
  while (node != kNoParent && !known_[node]) {
    path_.push_back(node);
    node = tree_[node].parent;
  }
  HeaptrackTrace trace = node == kNoParent ? HeaptrackTrace::kNone : traces_[node];
  while (!path_.empty()) {
    node = path_.back();
    path_.pop_back();
    const std::uint32_t ip = tree_[node].ip;
    if (ip != kNoIp) {
      auto [found, is_new] = ips_.try_emplace(ip, HeaptrackIp::kNone);
      if (is_new) {
        const Instruction instruction = resolve_(ip);
        found->second = writer_.instruction(instruction.address, instruction.module, instruction.frames);
      }
      trace = writer_.trace(found->second, trace);
    }
    traces_[node] = trace;
    known_[node] = true;
  }
  return trace;
}

}  // namespace heapprof::exporter
