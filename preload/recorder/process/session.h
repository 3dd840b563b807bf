// HEAPPROF_SESSION: an environment variable that names the process of a recording session. A process determines by
// this variable whether it was started to be recorded, executed by the recorded process, or forked from that process.
//
//   HEAPPROF_SESSION=PID.START[.FILE-ID:TRACE]
//
// PID and START (the start time, because pids are reused) identify the process of the session. `heapprof record` sets
// them. The recorder adds the variable if it is missing, and appends the id and path of its trace, so that the same
// process can mark that trace as ended after an exec.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

constexpr const char* kSessionVariable = "HEAPPROF_SESSION";

struct Session {
  int process = 0;
  std::uint64_t process_start = 0;  ///< field 22 of /proc/PID/stat, in clock ticks since boot; 0: unknown
  bool operator==(const Session&) const = default;
};

/// The session of this process: its pid and start time. One thread at a time calls this.
Session this_session() noexcept;
/// For a forked child, which may have its parent's pid, in another pid namespace.
void forget_session() noexcept;

struct SessionEntry {
  Session session;
  std::uint64_t file_id = 0;
  const char* trace = nullptr;  ///< the path; null if the variable has no FILE-ID:TRACE
};

/// Parses the variable's value. Returns false if it is malformed.
bool parse_session(const char* text, SessionEntry& entry) noexcept;

/// Sets the value that executed programs inherit. `trace`: the path of this process's trace, or null.
void write_session_entry(std::uint64_t file_id, const char* trace) noexcept;

/// Replaces `environ` by a copy with the value of write_session_entry(). The copy also has this library in
/// LD_PRELOAD, in case it was loaded by the loader's --preload instead. Call it while there is one thread. Returns
/// false, and changes nothing, if there is no memory.
bool add_session_to_environment() noexcept;

}  // namespace heapprof::recorder
