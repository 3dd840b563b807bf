#include "analyzer/replay/compact/compactor.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>
#include <utility>

#include "analyzer/replay/batch_pump.h"
#include "analyzer/trace/compact/chunk_codec.h"
#include "analyzer/trace/events/limits.h"
#include "analyzer/trace/embedded_symbols.h"
#include "common/checksum.h"

namespace heapprof::replay {
namespace {

using trace::EventText;
using trace::MergedEvent;

/// Gives blocks numbers in the place of their addresses, so that whoever compares numbers finds the same ones equal
/// as who compares addresses. An address keeps its number while its block lives and while a realloc has it in hand,
/// as that may fail and bring the block back.
class BlockNumbers {
 public:
  explicit BlockNumbers(std::size_t streams) : next_ordinal_(streams, 0), in_hand_(streams) {}

  void translate(MergedEvent& event, const std::vector<EventText>& texts) {
    const std::uint32_t stream = event.stream();
    switch (event.op()) {
      case Op::kAlloc: event.address = give(stream, event.address); return;
      case Op::kReallocEnd: {
        const bool in_place =
            event.address != 0 && !in_hand_[stream].empty() && in_hand_[stream].back() == event.address;
        drop(stream, in_place);
        event.address = in_place ? entries_.find(event.address)->size : give(stream, event.address);
        return;
      }
      case Op::kReallocFailed: drop(stream, true); return;
      case Op::kFree:
      case Op::kFreeStack: event.address = take(event.address, nullptr); return;
      case Op::kReallocBegin: {
        std::uint64_t in_hand = 0;
        event.address = take(event.address, &in_hand);
        in_hand_[stream].push_back(in_hand);
        return;
      }
      case Op::kText:
        if (texts[event.node].kind == TextKind::kThread) in_hand_[stream].clear();
        return;
      default:
        if (event.op() == trace::kGap) in_hand_[stream].clear();
        return;
    }
  }

 private:
  // An entry of the table: its size is the block's number, its thread says whether it lives, its node how many
  // reallocs have it in hand.
  std::uint64_t give(std::uint32_t stream, std::uint64_t address) {
    if (address == 0) return 0;
    bool fresh;
    Block& entry = entries_.insert(address, fresh);
    if (fresh) entry = {address, trace::block_number(stream, next_ordinal_[stream]++), 0, 0, 0};
    entry.thread = 1;
    return entry.size;
  }
  std::uint64_t take(std::uint64_t address, std::uint64_t* in_hand) {
    Block* const entry = address == 0 ? nullptr : entries_.find(address);
    if (entry == nullptr || entry->thread == 0) return 0;
    const std::uint64_t number = entry->size;
    entry->thread = 0;
    if (in_hand != nullptr) {
      ++entry->node;
      *in_hand = address;
    } else if (entry->node == 0) {
      entries_.erase(entry);
    }
    return number;
  }
  void drop(std::uint32_t stream, bool lives) {
    if (in_hand_[stream].empty()) return;
    const std::uint64_t address = in_hand_[stream].back();
    in_hand_[stream].pop_back();
    Block* const entry = address == 0 ? nullptr : entries_.find(address);
    if (entry == nullptr) return;
    if (entry->node != 0) --entry->node;
    if (lives) entry->thread = 1;
    if (entry->thread == 0 && entry->node == 0) entries_.erase(entry);
  }

  BlockTable entries_;
  std::vector<std::uint64_t> next_ordinal_;
  std::vector<std::vector<std::uint64_t>> in_hand_;  // addresses; 0: the block was unknown
};

class Compactor {
 public:
  Compactor(const std::string& from, const std::string& to, const CompactOptions& options, const Progress& progress)
      : options_(options), progress_(progress), file_(from), to_(to) {
    if (file_.compacted() != nullptr) throw trace::TraceError(from + ": is compacted already");
  }

  CompactResult run() {
    find_whole();
    trace::NewFile out(to_);
    write_beginning(out);
    write_chunks(out);
    add_padding(out);
    check_and_add_snapshots(out);
    add_symbols(out);
    out.finish();
    return {out.bytes(), file_.bytes(), whole_.events, file_.writer() == trace::Writer::kRecording};
  }

 private:
  static constexpr double kPasses = 3;

  void show(unsigned pass, const trace::Batch& batch, std::uint64_t all_bytes) const {
    if (!progress_ || all_bytes == 0) return;
    const double share = static_cast<double>(batch.frame_bytes_read) / static_cast<double>(all_bytes);
    progress_((pass + share) / kPasses, pass * whole_.records + batch.records);
  }

  void find_whole() {
    trace::MergedReader reader(file_);
    Replay replay(file_, Selection{});
    pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
      show(0, batch, file_.frame_bytes());
      return replay.replay(batch);
    });
    replay.finish(end_ticks(file_, replay.clock()));
    totals_ = replay.heap();
    live_mapped_ = replay.mmap_costs().live_bytes();
    whole_ = whole_of(reader, replay);
    threads_ = replay.threads().size();
    // What is lost of a time is less than a microsecond.
    const std::uint64_t rate = file_.header().ticks_per_second;
    if (!options_.exact)
      quantum_ = rate == 0 ? whole_.clock.ticks_per_us() : std::max<std::uint64_t>(rate / 1'000'000, 1);
    // Events of the new file name stacks by dense index.
    for (std::uint32_t index = 0; index < whole_.node_ids.size(); ++index) whole_.node_ids[index] = index;
  }

  void write_beginning(trace::NewFile& out) const {
    FileHeader header = file_.header();
    header.version_major = kCompactedVersionMajor;
    header.version_minor = 0;
    header.header_bytes = header.unit_bytes;
    header.file_bytes = 0;
    std::memset(&header.mailbox, 0, sizeof header.mailbox);
    if (!options_.exact) header.flags |= kHeaderRounded;
    header.checksum = checksum(&header, offsetof(FileHeader, checksum));
    std::vector<std::uint8_t> page(header.unit_bytes, 0);
    std::memcpy(page.data(), &header, sizeof header);
    out.append(page);
    write_whole(out, file_.file_id(), whole_);

    trace::Origin origin;
    origin.damage = file_.damage();
    origin.writer = file_.writer();
    origin.cut_ticks = file_.cut_ticks();
    origin.streams = static_cast<std::uint32_t>(file_.streams().size());
    origin.bytes = file_.bytes();
    origin.quantum = quantum_;
    trace::ByteWriter bytes;
    trace::save(origin, bytes);
    trace::SectionHeader section{};
    section.kind = trace::SectionKind::kOrigin;
    section.file_id = file_.file_id();
    out.append(trace::make_section(section, bytes.bytes(), options_.level));
  }

  void write_chunks(trace::NewFile& out) {
    trace::MergedReader reader(file_);
    Replay replay(file_, Selection{});
    std::vector<MergedEvent> ordered;
    replay.tell_order(ordered);
    BlockNumbers numbers(file_.streams().size());
    trace::ChunkEncoder encoder({static_cast<std::uint32_t>(file_.streams().size()), whole_.definitions.node_count,
                                 quantum_, options_.exact});
    std::uint64_t events = 0;
    // A chunk is compressed while the next one is made.
    std::future<std::vector<std::uint8_t>> compressing;
    const auto end_chunk = [&] {
      if (encoder.events() == 0) return;
      trace::SectionHeader section{};
      section.kind = trace::SectionKind::kChunk;
      section.file_id = file_.file_id();
      section.number = encoder.events();
      section.events = std::exchange(events, 0);
      section.last_time = encoder.last_time();
      if (compressing.valid()) out.append(compressing.get());
      compressing = std::async(std::launch::async, [section, level = options_.level, contents = encoder.take()] {
        return trace::make_section(section, contents, level);
      });
    };
    std::vector<ResolvedEvent> unused;
    std::vector<EventText> texts;
    pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
      texts = batch.texts;  // the replay takes them
      replay.replay(batch, unused);
      unused.clear();
      for (MergedEvent& event : ordered) {
        if (!options_.exact) numbers.translate(event, texts);
        events += is_event({event.time, event.address, event.op_size, 0, 0});
        encoder.add(event, event.op() == Op::kText ? &texts[event.node] : nullptr);
        if (encoder.events() == options_.chunk_records) end_chunk();
      }
      ordered.clear();
      show(1, batch, file_.frame_bytes());
      return true;
    });
    end_chunk();
    if (compressing.valid()) out.append(compressing.get());
  }

  /// Threads are believed only up to what the file's size allows, and a compacted trace may pack them better.
  void add_padding(trace::NewFile& out) const {
    const std::uint64_t wanted = trace::min_bytes_for_threads(threads_);
    trace::SectionHeader section{};
    section.file_id = file_.file_id();
    while (out.bytes() < wanted) out.append(trace::make_padding(section, wanted - out.bytes()));
  }

  void check_and_add_snapshots(trace::NewFile& out) const {
    const trace::TraceFile file(out.temporary_path());
    trace::MergedReader reader(file);
    Replay replay(file, Selection{});
    SnapshotWriter snapshots(out, file.file_id());
    reader.give_positions(options_.snapshot_interval);
    pump(reader, file.frame_bytes(), [&](trace::Batch& batch) {
      const bool goes_on = replay.replay(batch);
      snapshots.after(batch, replay);
      show(2, batch, file.frame_bytes());
      return goes_on;
    });
    replay.finish(end_ticks(file, replay.clock()));
    const model::HeapTotals& is = replay.heap();
    const model::HeapTotals& was = totals_;
    const bool same = is.allocations == was.allocations && is.allocated_bytes == was.allocated_bytes &&
                      is.frees == was.frees && is.failed == was.failed && is.peak_bytes == was.peak_bytes &&
                      is.peak_blocks == was.peak_blocks && is.leaked_bytes == was.leaked_bytes &&
                      is.leaked_blocks == was.leaked_blocks &&
                      is.temporary_allocations == was.temporary_allocations &&
                      is.unmatched_frees == was.unmatched_frees && is.implied_frees == was.implied_frees &&
                      replay.mmap_costs().live_bytes() == live_mapped_ && reader.records() == whole_.records;
    if (!same)
      throw trace::TraceError(to_ + ": what was written does not read as " + file_.input().path() +
                              " does, and was thrown away; please report this");
  }

  /// The names that a bundled trace carries go with it.
  void add_symbols(trace::NewFile& out) const {
    if (!file_.symbols()) return;
    const std::optional<std::string> symbols = trace::read_symbols(file_.input(), file_.file_id(), *file_.symbols());
    if (!symbols) throw trace::TraceError(file_.input().path() + ": the names that it carries are damaged");
    const std::uint32_t unit = file_.header().unit_bytes;
    const std::vector<std::uint8_t> padding((unit - out.bytes() % unit) % unit, 0);
    out.append(padding);
    const std::string extents = trace::symbol_extents(*symbols, file_.file_id(), out.bytes(), unit);
    out.append({reinterpret_cast<const std::uint8_t*>(extents.data()), extents.size()});
  }

  const CompactOptions options_;
  const Progress& progress_;
  const trace::TraceFile file_;
  const std::string to_;
  std::uint64_t quantum_ = 1;
  trace::Whole whole_;
  model::HeapTotals totals_;
  std::uint64_t live_mapped_ = 0;
  std::uint64_t threads_ = 0;
};

}  // namespace

CompactResult compact(const std::string& from, const std::string& to, const CompactOptions& options,
                      const Progress& progress) {
  try {
    return Compactor(from, to, options, progress).run();
  } catch (const trace::FormatError& error) {
    throw trace::TraceError(to + ": " + error.what());
  }
}

}  // namespace heapprof::replay
