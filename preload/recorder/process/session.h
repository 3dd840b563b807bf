// HEAPPROF_SESSION: which process a recording session belongs to, passed on through the environment, so that a
// process knows whether it was started to be recorded, executed by the recorded program, or forked from it.
//
//   HEAPPROF_SESSION=PID.START[.FILE-ID:TRACE]
//
// PID and START (the process's start time, as pids are reused) name the process that the session belongs to.
// `heapprof record` sets them. The recorder adds the variable where it is missing, and appends its trace's id and
// path, so that the same process can mark that trace as ended after an exec.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

constexpr const char* kSessionVariable = "HEAPPROF_SESSION";

struct Session {
  int process = 0;
  std::uint64_t process_start = 0;  ///< field 22 of /proc/PID/stat, in clock ticks since boot; 0: unknown
  bool operator==(const Session&) const = default;
};

/// The session that this process would begin.
Session this_session() noexcept;

struct SessionEntry {
  Session session;
  std::uint64_t file_id = 0;
  const char* trace = nullptr;  ///< the path; null when no trace is named
};

/// Parses the variable's value. False: malformed.
bool parse_session(const char* text, SessionEntry& entry) noexcept;

/// Sets the value that is passed on to what this process executes. `trace`: the path of its trace; null: none.
void write_session_entry(std::uint64_t file_id, const char* trace) noexcept;

/// Replaces `environ` by a copy with the value of write_session_entry(), and with this library in LD_PRELOAD if it is
/// not there, because it was loaded by the loader's --preload. While there is one thread. False: nothing was changed.
bool add_session_to_environment() noexcept;

}  // namespace heapprof::recorder
