#include "preload/recorder/lifecycle.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>

#include "preload/arch/arch.h"
#include "preload/base/text.h"
#include "preload/python/code_objects.h"
#include "preload/python/left_out.h"
#include "preload/recorder/call_tree/call_tree.h"
#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/page_owners.h"
#include "preload/recorder/clock/tick.h"
#include "preload/recorder/control/control.h"
#include "preload/recorder/control/sampler.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/process/loader_start.h"
#include "preload/recorder/process/log.h"
#include "preload/recorder/process/program.h"
#include "preload/recorder/process/session.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/residency/snapshots.h"
#include "preload/recorder/thread/thread_state.h"
#include "preload/sys/difference.h"
#include "preload/sys/kernel.h"
#include "preload/unwind/checks.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::recorder {

namespace {

// Static, because the thread that starts the recorder may have a small stack. Only one thread at a time does that.
constinit char g_scratch[kMaxTextBytes] = "";
constinit bool g_environment_prepared = false;
/// Whether programs that this process executes are recorded.
constinit bool g_session_is_ours = false;

/// Marks the trace of the program that this process ran before execve as ended by exec.
void mark_executed(const SessionEntry& entry) noexcept {
  const int fd = sys::open(entry.trace, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (sys::failed(fd)) return;
  alignas(FileHeader) static FileHeader header;
  if (sys::pread(fd, &header, sizeof header, 0) == sizeof header && header.file_id == entry.file_id &&
      header.pid == static_cast<std::uint32_t>(sys::process_id()) && header.end_kind == EndKind::kNone) {
    const EndKind kind = EndKind::kExec;
    // RLIMIT_FSIZE may be below this offset: the kernel then sends SIGXFSZ, which would end the program.
    sys::BlockedSignals blocked(sys::kAllButFaults);
    const long result = sys::pwrite(fd, &kind, sizeof kind, offsetof(FileHeader, end_kind));
    blocked.restore(result == -EFBIG ? sys::signal_bit(SIGXFSZ) : 0);
  }
  sys::close(fd);
}

void read_boot_id(unsigned char (&boot_id)[16]) noexcept {
  char text[64];
  sys::read_file("/proc/sys/kernel/random/boot_id", text, sizeof text);
  unsigned digits = 0;
  for (const char* at = text; *at != '\0' && digits < 2 * sizeof boot_id; ++at) {
    const int digit = hex_digit(*at);
    if (digit < 0) continue;
    boot_id[digits / 2] = static_cast<unsigned char>(boot_id[digits / 2] << 4 | digit);
    ++digits;
  }
}

void fill_header(FileHeader& header) noexcept {
  header.machine = arch::kElfMachine;
  header.clock = g_clock.kind();
  header.start_ticks = g_clock.origin();
  header.start_monotonic_ns = g_clock.origin_monotonic_ns();
  header.ticks_per_second = g_clock.kind() == Clock::kMonotonic ? 1'000'000'000 : arch::cycle_clock_rate();
  header.start_realtime_ns = sys::clock_ns(CLOCK_REALTIME);
  header.pid = static_cast<std::uint32_t>(sys::process_id());
  header.parent_pid = static_cast<std::uint32_t>(sys::parent_process_id());
  header.process_start = this_session().process_start;
  sys::FileIdentity name_space;
  if (sys::identify("/proc/self/ns/pid", name_space)) header.pid_namespace = name_space.inode;
  read_boot_id(header.boot_id);
  g_settings.echo(header.settings, sizeof header.settings);
}

void commit_text(Stream& stream, TextKind kind, const char* text) noexcept {
  stream.append_text(kind, 0, 0, text, text_length(text));
}

void describe_process(Stream& stream) noexcept {
  commit_text(stream, TextKind::kProgram, program_path());
  const std::size_t length = sys::read_file("/proc/self/cmdline", g_scratch, sizeof g_scratch);
  const bool truncated = length == sizeof g_scratch - 1;
  if (program_started_by_loader() == nullptr) {
    stream.append_text(TextKind::kCommandLine, 0, truncated, g_scratch, length);
  } else {
    const CommandLine line = command_line_without_loader(g_scratch, length);
    stream.append_text(TextKind::kCommandLine, 0, truncated, line.name, line.name_bytes, line.rest, line.rest_bytes);
  }
  if (!sys::failed(sys::call(SYS_getcwd, sys::word(g_scratch), sizeof g_scratch)))
    commit_text(stream, TextKind::kWorkingDirectory, g_scratch);
  char host[66];
  sys::host_name(host);
  if (host[0] != '\0') commit_text(stream, TextKind::kHost, host);
}

/// Writes this process's session and trace to the variable that executed programs inherit.
void update_session_entry() noexcept {
  const bool recording = state() == State::kOn;
  write_session_entry(g_trace.file_id(), recording ? g_trace.path() : nullptr);
}

/// In one line, as the header of the trace has them.
void log_settings() noexcept {
  if (g_settings.log < LogLevel::kDebug) return;
  g_settings.echo(g_scratch, sizeof g_scratch);
  for (char* at = g_scratch; *at != '\0'; ++at)
    if (*at == '\n') *at = at[1] != '\0' ? ' ' : '\0';
  log(LogLevel::kDebug, "settings: ", g_scratch);
}

void begin(bool forked_child, bool begins_paused) noexcept {
  g_clock.start();
  start_page_stamps();
  find_tick_word();
  detect_loader_start();
  find_program();
  if (program_path()[0] == '/') unwind::set_program_path(program_path());
  const char* program = base_name(program_path());
  // Signals are blocked until the trace has its header, its first stream and the description of the process, because
  // a signal may end the process, or its handler may leave by longjmp. SIGKILL cannot be blocked. SIGXFSZ and SIGPIPE
  // are not blocked here: the calls that may raise them block them, and consume a raised signal only if it was not
  // blocked before the call.
  sys::BlockedSignals blocked(sys::kAllButFaults & ~(sys::signal_bit(SIGXFSZ) | sys::signal_bit(SIGPIPE)));
  if (const Failure failure = g_trace.create(g_settings.output, program[0] != '\0' ? program : "unknown",
                                             sys::clock_ns(CLOCK_REALTIME), g_settings.max_file_bytes)) {
    char message[256];
    log(LogLevel::kError, Text(message).add("not recording: ").add(failure).add(": ").c_str(), g_trace.path());
    set_state(State::kOff);
    blocked.restore(0);
    return;
  }
  FileHeader& header = *g_trace.header();
  fill_header(header);
  header.flags = (forked_child ? kHeaderForkedChild : 0) | (g_settings.free_stacks ? kHeaderFreeStacks : 0) |
                 (g_trace.rewrites_in_place() ? 0 : kHeaderTailNotKillSafe);
  g_trace.publish_header();
  if (!start_fork_watch())
    log(LogLevel::kWarn,
        "this kernel lacks MADV_WIPEONFORK (Linux 4.14 has it): "
        "a forked child would write into this trace");
  if (!forked_child) detach_at_fork();
  reset_mailbox();
  start_sampler();
  start_snapshots();
  g_pause = 0;
  // As soon as the state is kOn, other threads of a forked child may have events, and this one in a signal handler.
  const Ticks first_time = g_clock.now();
  if (begins_paused) begin_paused(first_time);
  set_state(State::kOn);

  ThreadState* thread = attach_thread();
  if (thread == nullptr) {
    blocked.restore(0);
    return;
  }
  thread->busy = arch::stack_pointer();
  if (begins_paused) thread->stream.append(Op::kPause, first_time, 0, 0, 0, 0);
  describe_process(thread->stream);
  take_sample(*thread);
  open_fast_path(g_process_generation, g_settings.free_stacks ? kGuardFreeStacks : 0);
  thread->busy = StackPointer::kNone;
  blocked.restore(0);

  if (g_environment_prepared) update_session_entry();
  log(LogLevel::kInfo, "recording to ", g_trace.path());
  log_settings();
}

void start_unwinder_and_begin() noexcept {
  unwind::start({g_settings.max_depth, g_settings.shadow_stack});
  begin(false, g_settings.paused);
}

/// In a privileged program nothing is used that the caller controls: no environment variable is read, so there is no
/// session, and the environment is not changed for executed programs.
void start_privileged() noexcept {
  const char* const reason = g_settings.read_trusted();
  if (reason == nullptr) return start_unwinder_and_begin();
  static char message[384];
  log(LogLevel::kWarn, Text(message)
                           .add("not recording: the program is privileged (AT_SECURE), so settings come only from ")
                           .add(kTrustedSettings)
                           .add(", ")
                           .add(reason)
                           .c_str());
  set_state(State::kOff);
}

}  // namespace

void start() noexcept {
  if (environ == nullptr) return;  // libc has not started
  if (!change_state(State::kNew, State::kStarting)) return;
  remember_standard_error();
  if (getauxval(AT_SECURE) != 0) return start_privileged();
  const char* session = environment_value(environ, kSessionVariable);
  g_settings.read(environ);
  if constexpr (unwind::kCheckStacks) sys::append_differences_to(g_settings.log_file);
  g_session_is_ours = true;
  SessionEntry entry;
  if (session != nullptr && parse_session(session, entry)) {
    const bool same_process = entry.session == this_session();
    g_session_is_ours = same_process || g_settings.children;
    if (!g_session_is_ours) {
      log(LogLevel::kDebug, "not recording: a recorded program started this one, and HEAPPROF_CHILDREN is off");
      set_state(State::kOff);
      return;
    }
    if (same_process && entry.trace != nullptr) mark_executed(entry);
  }
  start_unwinder_and_begin();
}

void prepare_environment() noexcept {
  if (!g_session_is_ours || g_environment_prepared || environ == nullptr) return;
  update_session_entry();
  g_environment_prepared = add_session_to_environment();
}

void forked() noexcept {
  if (!change_state(State::kOn, State::kStarting)) return;
  // As the parent was at the fork: whoever pauses a program means its children, too.
  const bool begins_paused = paused();
  g_trace.forget();
  close_sampler();
  close_snapshots();
  forget_threads();
  forget_session();
  t_local.state = nullptr;
  stop_fork_watch();
  // The child inherits the restrictions of its parent on system calls, and perhaps on the clock.
  if (!g_settings.children || sys::forbidden()) {
    set_state(State::kOff);
    return;
  }
  g_call_tree.reset();
  python::forget_code_objects();
  python::forget_left_out();
  unwind::restart_in_child();
  begin(true, begins_paused);
}

}  // namespace heapprof::recorder
