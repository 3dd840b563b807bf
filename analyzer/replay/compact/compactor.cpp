#include "analyzer/replay/compact/compactor.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <optional>
#include <utility>

#include "analyzer/base/atomic_file.h"
#include "analyzer/base/output_target.h"
#include "analyzer/pins/pinned_tables.h"
#include "analyzer/replay/analysis/integrity.h"
#include "analyzer/replay/batch_pump.h"
#include "analyzer/replay/compact/block_numbers.h"
#include "analyzer/replay/index/index.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/summarize.h"
#include "analyzer/trace/compact/chunk_codec.h"
#include "analyzer/trace/compact/origin.h"
#include "analyzer/trace/compact/pinned_table.h"
#include "analyzer/trace/embedded_symbols.h"
#include "analyzer/trace/events/limits.h"
#include "analyzer/trace/merged_reader.h"
#include "analyzer/trace/residency.h"
#include "common/trace_header.h"

namespace heapprof::replay {
namespace {

using trace::EventText;
using trace::MergedEvent;

class Compactor {
 public:
  Compactor(const std::string& from, const std::string& to, const CompactOptions& options, const Progress& progress)
      : options_(options), progress_(progress), file_(from), to_(to) {
    if (file_.compacted() != nullptr) throw trace::TraceError(from + ": is already compacted");
  }

  CompactResult run() {
    // Before the trace is read, so that a name that cannot be written is an error at once.
    AtomicFile out(to_, kModeOfTraces);
    summarize();
    write_header(out);
    write_summary(out, file_.file_id(), summary_);
    write_totals(out, file_.file_id(), totals_by_stack_, summary_.records);
    write_origin(out);
    write_chunks(out);
    write_padding(out);
    verify_and_write_snapshots(out);
    write_symbols(out);
    out.finish();
    return {out.bytes(), file_.bytes(), summary_.events, file_.recorder() == trace::RecorderState::kRecording,
            integrity_of(file_, summary_)};
  }

 private:
  static constexpr double kPasses = 3;

  void show(unsigned pass, const trace::Batch& batch, std::uint64_t all_bytes) const {
    if (!progress_ || all_bytes == 0) return;
    const double share = static_cast<double>(batch.frame_bytes_read) / static_cast<double>(all_bytes);
    progress_({.share = (pass + share) / kPasses, .records = pass * summary_.records + batch.records});
  }

  void summarize() {
    trace::MergedReader reader(file_);
    Replay replay(file_, Selection{});
    pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
      show(0, batch, file_.frame_bytes());
      for (const EventText& text : batch.texts)
        if (const auto begin_ns = trace::snapshot_begin_ns(file_, text)) moments_.push_back({*begin_ns, text.number});
      return replay.replay(batch);
    });
    replay.finish(end_ticks(file_, replay.clock()));
    totals_ = replay.heap();
    totals_by_stack_ = replay.totals();
    live_mapped_ = replay.mmap_costs().live_bytes();
    summary_ = summary_of(reader, replay);
    threads_ = replay.threads().size();
    // Rounding changes a time by less than a microsecond.
    const std::uint64_t rate = file_.header().ticks_per_second;
    if (!options_.exact)
      quantum_ = rate == 0 ? summary_.clock.ticks_per_us() : std::max<std::uint64_t>(rate / 1'000'000, 1);
    // Events of the compacted trace refer to stacks by dense index.
    for (std::uint32_t index = 0; index < summary_.node_ids.size(); ++index) summary_.node_ids[index] = index;
    // Its times are not rounded, so they would differ from those of the compacted trace.
    summary_.overview.reset();
  }

  void write_header(AtomicFile& out) const {
    FileHeader header = file_.header();
    header.version_major = kCompactedVersionMajor;
    header.version_minor = trace::kCompactedVersionMinor;
    header.header_bytes = header.unit_bytes;
    header.file_bytes = 0;
    std::memset(&header.mailbox, 0, sizeof header.mailbox);
    if (!options_.exact) header.flags |= kHeaderRounded;
    header.checksum = header_checksum(header);
    std::vector<std::uint8_t> page(header.unit_bytes, 0);
    std::memcpy(page.data(), &header, sizeof header);
    out.append(page);
  }

  void write_origin(AtomicFile& out) const {
    trace::Origin origin;
    origin.damage = file_.damage();
    origin.recorder = file_.recorder();
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

  void write_chunks(AtomicFile& out) {
    trace::MergedReader reader(file_);
    Replay replay(file_, Selection{});
    std::vector<MergedEvent> ordered;
    replay.record_order(ordered);
    BlockNumbers numbers(file_.streams().size());
    trace::ChunkEncoder encoder({static_cast<std::uint32_t>(file_.streams().size()), summary_.definitions.node_count,
                                 quantum_, options_.exact});
    std::uint64_t events = 0;
    // A chunk is compressed while the next one is encoded.
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
    // With --exact, addresses are kept, and pinned memory follows from them at every moment.
    std::optional<pins::PinnedTableMaker> pinned;
    if (!options_.exact) pinned.emplace(summary_, file_.file_id(), moments_);
    std::vector<ResolvedEvent> unused;
    std::vector<EventText> texts;
    const auto encode = [&](trace::Batch& batch) {
      if (pinned) pinned->add(batch.events());
      texts = batch.texts;  // the replay moves them out of the batch
      replay.replay(batch, unused);
      unused.clear();
      for (MergedEvent& event : ordered) {
        if (!options_.exact) numbers.translate(event, texts);
        events += is_event({event.time, event.address, event.op_size, 0, 0});
        encoder.add(event, event.op() == Op::kText ? &texts[event.node] : nullptr);
        if (encoder.events() == options_.chunk_records) end_chunk();
      }
      ordered.clear();
    };
    pump(reader, file_.frame_bytes(), [&](trace::Batch& batch) {
      trace::Batch part;
      while (pinned && split(batch, pinned->next_ticks(), part)) {
        encode(part);
        pinned->make(replay, batch.records - batch.count, out.bytes());
        batch.texts = std::move(part.texts);
      }
      encode(batch);
      show(1, batch, file_.frame_bytes());
      return true;
    });
    end_chunk();
    if (compressing.valid()) out.append(compressing.get());
    if (!pinned) return;
    for (const std::vector<std::uint8_t>& section : pinned->finish(replay, summary_.records, out.bytes())) {
      out.append(section);
      ++pinned_tables_;
    }
  }

  /// If the batch has events of `ticks` or later, moves those before it, and the texts, to `part`. False: it has
  /// none.
  static bool split(trace::Batch& batch, std::uint64_t ticks, trace::Batch& part) {
    const std::span<MergedEvent> events = batch.events();
    if (events.empty() || events.back().time < ticks) return false;
    const auto end =
        std::ranges::partition_point(events, [=](const MergedEvent& event) { return event.time < ticks; });
    part.storage.assign(events.begin(), end);
    part.count = part.storage.size();
    part.texts = std::move(batch.texts);
    std::copy(end, events.end(), events.begin());
    batch.count -= part.count;
    return true;
  }

  /// The numbers of threads and nodes that readers accept depend on the file size, which compaction may have made too
  /// small.
  void write_padding(AtomicFile& out) const {
    const std::uint64_t wanted =
        std::max(trace::min_bytes_for_threads(threads_), trace::min_bytes_for_nodes(summary_.definitions.node_count));
    trace::SectionHeader section{};
    section.file_id = file_.file_id();
    while (out.bytes() < wanted) out.append(trace::make_padding(section, wanted - out.bytes()));
  }

  void verify_and_write_snapshots(AtomicFile& out) const {
    const trace::TraceFile file(out.temporary_path());
    trace::MergedReader reader(file);
    Replay replay(file, Selection{});
    SnapshotWriter snapshots(out, file.file_id());
    reader.give_positions(options_.snapshot_interval);
    pump(reader, file.frame_bytes(), [&](trace::Batch& batch) {
      const bool more_needed = replay.replay(batch);
      snapshots.after(batch, replay);
      show(2, batch, file.frame_bytes());
      return more_needed;
    });
    replay.finish(end_ticks(file, replay.clock()));
    const model::HeapTotals& compacted = replay.heap();
    const model::HeapTotals& original = totals_;
    const bool same =
        compacted.allocations == original.allocations && compacted.allocated_bytes == original.allocated_bytes &&
        compacted.frees == original.frees && compacted.failed == original.failed &&
        compacted.peak_bytes == original.peak_bytes && compacted.peak_blocks == original.peak_blocks &&
        compacted.leaked_bytes == original.leaked_bytes && compacted.leaked_blocks == original.leaked_blocks &&
        compacted.temporary_allocations == original.temporary_allocations &&
        compacted.unmatched_frees == original.unmatched_frees && compacted.implied_frees == original.implied_frees &&
        replay.mmap_costs().live_bytes() == live_mapped_ && reader.records() == summary_.records;
    if (!same || readable_pinned_tables(file) != pinned_tables_)
      throw trace::TraceError(to_ + ": the compacted trace has other figures than " + file_.input().path() +
                              "; it was removed; please report this");
  }

  /// Reads the tables of pinned memory. Throws trace::FormatError when one is malformed.
  static std::size_t readable_pinned_tables(const trace::TraceFile& file) {
    const trace::Compacted& compacted = *file.compacted();
    for (const trace::Section& section : compacted.sections.pinned) {
      const std::vector<std::uint8_t> contents = trace::read_contents(file.input(), section);
      trace::ByteReader in(contents);
      trace::load_pinned_table(in, compacted.summary->definitions.node_count, section.header.payload_bytes);
    }
    return compacted.sections.pinned.size();
  }

  /// Copies the embedded symbols of the original.
  void write_symbols(AtomicFile& out) const {
    const std::optional<trace::EmbeddedSymbols>& embedded = file_.symbols();
    if (!embedded) return;
    const std::optional<std::string> symbols = trace::read_symbols(file_.input(), file_.file_id(), *embedded);
    const std::optional<std::string> sources = trace::read_sources(file_.input(), file_.file_id(), *embedded);
    if (!symbols || !sources) throw trace::TraceError(file_.input().path() + ": its embedded symbols are damaged");
    const std::uint32_t unit = file_.header().unit_bytes;
    const std::vector<std::uint8_t> padding((unit - out.bytes() % unit) % unit, 0);
    out.append(padding);
    const std::string extents = trace::symbol_extents(*symbols, *sources, file_.file_id(), out.bytes(), unit);
    out.append(extents);
  }

  const CompactOptions options_;
  const Progress& progress_;
  const trace::TraceFile file_;
  const std::string to_;
  std::uint64_t quantum_ = 1;
  trace::TraceSummary summary_;
  model::HeapTotals totals_;
  RecordingTotals totals_by_stack_;
  std::uint64_t live_mapped_ = 0;
  std::uint64_t threads_ = 0;
  std::vector<pins::PinnedMoment> moments_;  // of the snapshots of resident pages
  std::size_t pinned_tables_ = 0;
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
