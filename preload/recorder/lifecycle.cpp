#include "preload/recorder/lifecycle.h"

#include <elf.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "preload/base/text.h"
#include "preload/recorder/call_tree/call_tree.h"
#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/tick.h"
#include "preload/recorder/control/control.h"
#include "preload/recorder/control/sampler.h"
#include "preload/recorder/process/loader_start.h"
#include "preload/recorder/process/log.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/thread/thread_state.h"
#include "preload/sys/kernel.h"
#include "preload/sys/proc_maps.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::recorder {

constinit State g_state = State::kNew;
constinit TraceFile g_trace_file;
constinit std::uint64_t g_pause = 0;

namespace {

constexpr const char* kSession = "HEAPPROF_SESSION";
constexpr const char* kPreload = "LD_PRELOAD";

// Static: only one thread at a time starts, and it may be on a small stack.
constinit char g_program[4096] = "";
constinit char g_scratch[kMaxTextBytes] = "";
constinit char g_session_entry[4200] = "";  ///< "HEAPPROF_SESSION=...", in the environment
constinit bool g_environment_prepared = false;
constinit bool g_session_is_ours = false;

struct Session {
  int process = 0;
  std::uint64_t process_start = 0;
  bool operator==(const Session&) const = default;
};

/// Field 22 of /proc/self/stat: fields are counted after the last ')', as a program's name may hold anything.
std::uint64_t process_start() noexcept {
  char stat[1024];
  const std::size_t length = sys::read_file("/proc/self/stat", stat, sizeof stat);
  const char* at = nullptr;
  for (std::size_t i = 0; i < length; ++i)
    if (stat[i] == ')') at = stat + i + 1;
  if (at == nullptr) return 0;
  for (int field = 2; field < 22; ++field) {
    while (*at != '\0' && *at != ' ') ++at;
    while (*at == ' ') ++at;
  }
  std::uint64_t start = 0;
  parse_number(at, start);
  return start;
}

Session this_session() noexcept { return {sys::process_id(), process_start()}; }

/// Reads "PID.START", and ".FILE-ID:TRACE" where it follows.
bool parse_session(const char* text, Session& session, std::uint64_t& file_id, const char*& trace) noexcept {
  std::uint64_t process;
  trace = nullptr;
  file_id = 0;
  if (!parse_number(text, process) || *text++ != '.' || !parse_number(text, session.process_start)) return false;
  session.process = static_cast<int>(process);
  if (*text != '.') return *text == '\0';
  for (++text; *text != ':'; ++text) {
    const int digit = *text >= '0' && *text <= '9'   ? *text - '0'
                      : *text >= 'a' && *text <= 'f' ? *text - 'a' + 10
                                                     : -1;
    if (digit < 0) return false;
    file_id = file_id << 4 | static_cast<unsigned>(digit);
  }
  trace = text + 1;
  return true;
}

/// The program this process ran before it executed this one left its trace without an end.
void mark_executed(const char* path, std::uint64_t file_id) noexcept {
  const int fd = sys::open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (sys::failed(fd)) return;
  alignas(FileHeader) static FileHeader header;
  if (sys::pread(fd, &header, sizeof header, 0) == sizeof header && header.file_id == file_id &&
      header.pid == static_cast<std::uint32_t>(sys::process_id()) && header.end_kind == EndKind::kNone) {
    const EndKind kind = EndKind::kExec;
    sys::pwrite(fd, &kind, sizeof kind, offsetof(FileHeader, end_kind));
  }
  sys::close(fd);
}

/// The name that execve was given, as an absolute path; null: none that would be known afterwards. Uses g_scratch.
const char* called_path() noexcept {
  const auto* called = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (called == nullptr || *called == '\0') return nullptr;
  // execveat of a descriptor is told as "/dev/fd/3" (execveat(2)).
  if (after_prefix(called, "/proc/") != nullptr || after_prefix(called, "/dev/fd/") != nullptr) return nullptr;
  if (*called == '/') return called;
  const long length = sys::call(SYS_getcwd, sys::word(g_scratch), sizeof g_scratch);
  if (sys::failed(length) || g_scratch[0] != '/') return nullptr;
  if (const char* rest = after_prefix(called, "./"); rest != nullptr) called = rest;
  const std::size_t folder_bytes = text_length(g_scratch);
  Text path(g_scratch + folder_bytes, sizeof g_scratch - folder_bytes);
  if (folder_bytes > 1) path.add('/');
  path.add(called);
  return path.overflowed() ? nullptr : g_scratch;
}

/// The executable: /proc/self/exe names the loader when that was executed, but the loader makes AT_PHDR
/// the program's (glibc, elf/rtld.c). Where the program was called by another name, a link to the same file
/// (redis-server), that is what its user knows it by; but not under AT_SECURE, where that name is the caller's
/// choice.
void find_program() noexcept {
  if (g_program[0] == '/') return;  // a forked child: the same program, perhaps in another folder
  sys::Mapping mapping;
  if (!sys::find_mapping(getauxval(AT_PHDR), mapping, g_program, sizeof g_program) || g_program[0] != '/') {
    const long length = sys::readlink("/proc/self/exe", g_program, sizeof g_program - 1);
    g_program[length > 0 ? length : 0] = '\0';
  }
  const char* called = getauxval(AT_SECURE) == 0 ? called_path() : nullptr;
  sys::FileIdentity file, link;
  if (called != nullptr && text_length(called) < sizeof g_program && sys::identify(g_program, file) &&
      sys::identify(called, link) && file == link)
    Text(g_program).add(called);
}

const char* base_name(const char* path) noexcept {
  const char* base = path;
  for (; *path != '\0'; ++path)
    if (*path == '/') base = path + 1;
  return base;
}

/// Whether an LD_PRELOAD list has this library in it, by its file name.
bool names_this_library(const char* list) noexcept {
  for (; *list != '\0'; ++list)
    if (after_prefix(list, "libheapprof.so") != nullptr) return true;
  return false;
}

void fill_header(FileHeader& header) noexcept {
  header.machine =
#if defined(__x86_64__)
      EM_X86_64;
#else
      EM_AARCH64;
#endif
  header.clock = g_clock.kind();
  header.start_ticks = g_clock.origin();
  header.start_monotonic_ns = g_clock.origin_monotonic_ns();
  header.ticks_per_second = g_clock.kind() == Clock::kMonotonic ? 1'000'000'000 : arch::cycle_clock_rate();
  header.start_realtime_ns = sys::clock_ns(CLOCK_REALTIME);
  header.pid = static_cast<std::uint32_t>(sys::process_id());
  header.parent_pid = static_cast<std::uint32_t>(sys::parent_process_id());
  header.process_start = process_start();
  sys::FileIdentity name_space;
  if (sys::identify("/proc/self/ns/pid", name_space)) header.pid_namespace = name_space.inode;
  char boot_id[64];
  sys::read_file("/proc/sys/kernel/random/boot_id", boot_id, sizeof boot_id);
  unsigned digits = 0;
  for (const char* at = boot_id; *at != '\0' && digits < 32; ++at) {
    const int digit = *at >= '0' && *at <= '9' ? *at - '0' : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10 : -1;
    if (digit < 0) continue;
    header.boot_id[digits / 2] = static_cast<unsigned char>(header.boot_id[digits / 2] << 4 | digit);
    ++digits;
  }
  g_settings.echo(header.settings, sizeof header.settings);
}

void write_session_entry() noexcept {
  const Session session = this_session();
  Text entry(g_session_entry);
  entry.add(kSession)
      .add('=')
      .number(static_cast<std::uint64_t>(session.process))
      .add('.')
      .number(session.process_start);
  if (state() == State::kOn) entry.add('.').hex(g_trace_file.file_id()).add(':').add(g_trace_file.path());
}

void commit_text(Stream& stream, TextKind kind, const char* text, std::uint64_t cut = 0) noexcept {
  stream.append_text(kind, 0, cut, text, text_length(text));
}

void describe_process(Stream& stream) noexcept {
  commit_text(stream, TextKind::kProgram, g_program);
  const std::size_t length = sys::read_file("/proc/self/cmdline", g_scratch, sizeof g_scratch);
  if (program_started_by_loader() == nullptr) {
    stream.append_text(TextKind::kCommandLine, 0, length == sizeof g_scratch - 1, g_scratch, length);
  } else {
    const CommandLine line = command_line_without_loader(g_scratch, length);
    stream.append_text(TextKind::kCommandLine, 0, length == sizeof g_scratch - 1, line.name, line.name_bytes,
                       line.rest, line.rest_bytes);
  }
  if (!sys::failed(sys::call(SYS_getcwd, sys::word(g_scratch), sizeof g_scratch)))
    commit_text(stream, TextKind::kWorkingDirectory, g_scratch);
  if (sys::read_file("/proc/sys/kernel/hostname", g_scratch, sizeof g_scratch) != 0)
    commit_text(stream, TextKind::kHost, g_scratch);
}

void begin(bool forked_child) noexcept {
  g_clock.start();
  find_tick();
  detect_loader_start();
  find_program();
  const char* program = base_name(g_program);
  // A signal that ends the process, or whose handler leaves by longjmp, comes when the trace has its header, its first
  // stream and what describes the process. SIGKILL cannot be held. The two that calls in here may raise are not: those
  // calls hold them, and take away what they raised unless it was held before.
  sys::SignalsHeld held(sys::kAllButFaults & ~(sys::signal_bit(SIGXFSZ) | sys::signal_bit(SIGPIPE)));
  if (const Failure failure = g_trace_file.create(g_settings.output, program[0] != '\0' ? program : "unknown",
                                                  sys::clock_ns(CLOCK_REALTIME), g_settings.max_file_bytes)) {
    char message[256];
    log(LogLevel::kError, Text(message).add("not recording: ").add(failure).add(": ").c_str(), g_trace_file.path());
    __atomic_store_n(&g_state, State::kOff, __ATOMIC_RELEASE);
    held.finish(0);
    return;
  }
  FileHeader& header = *g_trace_file.header();
  fill_header(header);
  header.flags = (forked_child ? kHeaderForkedChild : 0) | (g_settings.free_stacks ? kHeaderFreeStacks : 0) |
                 (g_trace_file.rewrites_in_place() ? 0 : kHeaderTailNotKillSafe);
  g_trace_file.publish_header();
  if (!watch_for_fork())
    log(LogLevel::kWarn,
        "this kernel does not tell forked children apart (before 4.14): they would write into this trace");
  if (!forked_child) part_at_fork();
  forget_mailbox();
  start_sampler();
  g_pause = 0;
  __atomic_store_n(&g_state, State::kOn, __ATOMIC_RELEASE);

  ThreadState* state = attach_thread();
  if (state == nullptr) {
    held.finish(0);
    return;
  }
  state->busy = arch::stack_pointer();
  describe_process(state->stream);
  take_sample(*state);
  set_paused(*state, g_settings.paused);
  open_gate(g_process_generation | (g_settings.free_stacks ? kGateFreeStacks : 0));
  state->busy = 0;
  held.finish(0);

  if (g_environment_prepared) write_session_entry();
  log(LogLevel::kInfo, "recording to ", g_trace_file.path());
}

}  // namespace

const char* program_path() noexcept { return g_program; }

void start() noexcept {
  if (environ == nullptr) return;  // before libc's own start
  State expected = State::kNew;
  if (!__atomic_compare_exchange_n(&g_state, &expected, State::kStarting, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return;
  remember_standard_error();
  if (getauxval(AT_SECURE) != 0) {
    // Nothing that the caller decides has a say: no session either, and nothing is prepared for what is executed.
    if (const char* reason = g_settings.read_trusted()) {
      static char message[256];
      log(LogLevel::kWarn,
          Text(message)
              .add("not recording: the program runs with privileges of its own, so settings come only from ")
              .add(kTrustedSettings)
              .add(", ")
              .add(reason)
              .c_str());
      __atomic_store_n(&g_state, State::kOff, __ATOMIC_RELEASE);
      return;
    }
    unwind::start({g_settings.max_depth, g_settings.shadow_stack});
    begin(false);
    return;
  }
  Session owner;
  std::uint64_t file_id;
  const char* trace;
  const char* session = environment_value(environ, kSession);
  g_settings.read(environ);
  g_session_is_ours = true;
  if (session != nullptr && parse_session(session, owner, file_id, trace)) {
    const bool ours = owner == this_session();
    g_session_is_ours = ours || g_settings.children;
    if (!ours && !g_settings.children) {
      __atomic_store_n(&g_state, State::kOff, __ATOMIC_RELEASE);
      return;
    }
    if (ours && trace != nullptr) mark_executed(trace, file_id);
  }
  unwind::start({g_settings.max_depth, g_settings.shadow_stack});
  begin(false);
}

void prepare_environment() noexcept {
  if (!g_session_is_ours || g_environment_prepared || environ == nullptr) return;
  // This library, as an LD_PRELOAD entry that is right whatever folder the next program starts in.
  static constinit char preload[4096 + 16] = "";
  Text entry(preload);
  entry.add(kPreload).add('=');
  const char* old = environment_value(environ, kPreload);
  const std::size_t prefix = entry.length();
  bool add_preload = false;
  sys::Mapping mapping;
  if (old == nullptr || !names_this_library(old)) {
    add_preload = sys::find_mapping(reinterpret_cast<std::uint64_t>(&prepare_environment), mapping, preload + prefix,
                                    sizeof preload - prefix) &&
                  preload[prefix] == '/';
    for (const char* at = preload + prefix; *at != '\0'; ++at) add_preload &= *at != ' ' && *at != ':';
    if (add_preload && old != nullptr) {
      const std::size_t length = text_length(preload);
      Text rest(preload + length, sizeof preload - length);
      add_preload = !rest.add(':').add(old).overflowed();
    }
  }

  std::size_t count = 0;
  while (environ[count] != nullptr) ++count;
  auto** entries = static_cast<char**>(sys::map_private((count + 3) * sizeof(char*)));
  if (entries == nullptr) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const char* session = after_prefix(environ[i], kSession);
    const char* other = after_prefix(environ[i], kPreload);
    if ((session != nullptr && *session == '=') || (add_preload && other != nullptr && *other == '=')) continue;
    entries[kept++] = environ[i];
  }
  write_session_entry();
  entries[kept++] = g_session_entry;
  if (add_preload) entries[kept] = preload;
  environ = entries;
  g_environment_prepared = true;
}

void write_end_time(FileHeader& header) noexcept {
  header.end_ticks = g_clock.now();
  const std::uint64_t monotonic_ns = sys::clock_ns(CLOCK_MONOTONIC);
  header.end_monotonic_ns = monotonic_ns != 0 ? monotonic_ns : g_clock.monotonic_ns_at(header.end_ticks);
}

void stop(Failure reason) noexcept {
  if (in_forked_child()) return;  // it came back into an event of its parent's
  State expected = State::kOn;
  if (!__atomic_compare_exchange_n(&g_state, &expected, State::kOff, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return;
  raise_at_gate(kGateStopped);
  FileHeader& header = *g_trace_file.header();
  Text(header.stop_reason).add(reason);
  write_end_time(header);
  __atomic_store_n(&header.end_kind, EndKind::kStopped, __ATOMIC_RELEASE);
  char message[256];
  log(LogLevel::kWarn,
      Text(message).add("recording stopped: ").add(reason).add("; what was recorded until now is in ").c_str(),
      g_trace_file.path());
}

void forked() noexcept {
  State expected = State::kOn;
  if (!__atomic_compare_exchange_n(&g_state, &expected, State::kStarting, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return;
  g_trace_file.abandon();
  abandon_sampler();
  forget_threads();
  t_local.state = nullptr;
  watch_for_no_fork();
  // What its parent was forbidden, the child is too: system calls, and perhaps the clock.
  if (!g_settings.children || sys::forbidden()) {
    __atomic_store_n(&g_state, State::kOff, __ATOMIC_RELEASE);
    return;
  }
  g_call_tree.reset();
  unwind::restart_in_child();
  begin(true);
}

}  // namespace heapprof::recorder
