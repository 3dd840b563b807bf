// Follows a recording while it is written: each advance() reads what the program has done since the one before.
//
// Events come in the order of their times, up to the time at which the advance began; later ones wait in their
// streams for the next advance. An event can have been committed after an advance although its time is earlier. It
// then comes with the next one. An event that depends on it usually has a time after the advance, and comes later,
// too; docs/concepts/ordering.md describes the rare exception, in which a free has no allocation yet. After the last
// advance the state that is made of the events equals that of a MergedReader.
//
// When the program has ended, or had when the trace was opened, an advance reads to the end. Compacted traces have
// ended. Memory: one decoded block for each stream, and the definitions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analyzer/trace/events/damage.h"
#include "analyzer/trace/events/definitions.h"
#include "analyzer/trace/events/merged_event.h"
#include "analyzer/trace/growing_index.h"
#include "analyzer/trace/merged_reader.h"
#include "analyzer/trace/read_state.h"
#include "analyzer/trace/stream_decoder.h"
#include "analyzer/trace/trace_file.h"
#include "common/trace_format.h"

namespace heapprof::trace {

/// Consecutive events of one stream, or a batch of a compacted trace. Events of kText have positions in `texts`.
struct EventRun {
  std::span<const MergedEvent> events;
  std::vector<EventText>* texts = nullptr;
};

/// Used by one thread.
class Follower {
 public:
  /// Throws TraceError, with what is wrong, when `path` is no trace that this program can read.
  explicit Follower(const std::string& path);
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  /// Begins to read what was committed until now. Throws TraceError when the trace has too many streams.
  void advance();
  /// The next events of this advance. False: it is over.
  bool next(EventRun& run);

  /// Whether the current advance is the last one: the program writes no more, and everything is read.
  bool ended() const noexcept { return ended_; }
  /// Whether the program still writes, according to the open file: its path may name another one by now, or none.
  bool is_written();
  /// Reads how it ended, if that was not known: `heapprof record` writes it after the program is gone.
  void look_for_end();
  /// How it ended: TraceFile::ended_by(); "running" before that.
  std::string ended_by() const;

  const std::string& path() const noexcept { return path_; }
  const FileHeader& header() const noexcept { return header_; }
  std::uint64_t file_bytes() const noexcept;
  std::size_t streams() const noexcept;  ///< that were found so far; numbers of streams in events are smaller
  std::uint64_t frame_bytes_read() const noexcept;
  /// The time up to which events were read, in ticks; kNoCut: to the end.
  std::uint64_t cut_ticks() const noexcept { return cut_ticks_; }
  /// The trace, if it was opened after its program had ended; else null.
  const TraceFile* finished_file() const noexcept { return file_.get(); }

  /// Complete up to the last advance that is over.
  const Definitions& definitions() const noexcept;
  /// What is missing so far.
  Damage damage() const;

 private:
  struct Head {
    std::uint64_t time;
    std::uint32_t stream;
    friend bool operator>(const Head& a, const Head& b) noexcept {
      return a.time != b.time ? a.time > b.time : a.stream > b.stream;
    }
  };
  void follow();
  void read_end();
  void begin_streams();

  const std::string path_;
  FileHeader header_{};
  std::unique_ptr<TraceFile> file_;       // of a program that had ended
  std::unique_ptr<MergedReader> reader_;  // of file_
  Batch batch_;                           // of reader_
  std::unique_ptr<InputFile> input_;      // of a running program, like all that follows
  std::unique_ptr<GrowingIndex> index_;
  std::unique_ptr<ReadState> shared_;
  std::vector<std::unique_ptr<StreamDecoder>> decoders_;
  std::vector<Head> heads_;             // a heap of the streams that may have events, the earliest at the front
  std::vector<std::uint32_t> waiting_;  // streams with events after the cut
  std::uint64_t cut_ticks_ = kNoCut;
  RecorderState recorder_ = RecorderState::kGone;
  bool ended_ = false;
};

}  // namespace heapprof::trace
