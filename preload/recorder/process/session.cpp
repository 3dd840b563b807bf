#include "preload/recorder/process/session.h"

#include <unistd.h>

#include "preload/base/text.h"
#include "preload/recorder/process/settings.h"
#include "preload/sys/kernel.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::recorder {

namespace {

constexpr const char* kPreload = "LD_PRELOAD";

// Static, because they stay in the environment.
constinit char g_session_entry[4200] = "";  ///< "HEAPPROF_SESSION=..."
constinit char g_preload_entry[4096 + 16] = "";

constinit Session g_session;  ///< of this process; process_start is 0 before it is known

/// Field 22 of /proc/self/stat. Fields are counted from the last ')', because the program's name may contain any
/// character.
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

/// Whether an LD_PRELOAD list contains this library, by its file name.
bool lists_this_library(const char* list) noexcept {
  for (; *list != '\0'; ++list)
    if (after_prefix(list, "libheapprof.so") != nullptr) return true;
  return false;
}

/// Writes LD_PRELOAD=LIBRARY[:LIST] with this library's absolute path, which is valid in every working directory.
/// Returns false if the path cannot be an entry of the list.
bool write_preload_entry(const char* list) noexcept {
  Text entry(g_preload_entry);
  entry.add(kPreload).add('=');
  char* const path = g_preload_entry + entry.length();
  const std::size_t path_room = sizeof g_preload_entry - entry.length();
  sys::Mapping mapping;
  if (!sys::find_mapping(reinterpret_cast<std::uint64_t>(&write_preload_entry), mapping, path, path_room) ||
      path[0] != '/')
    return false;
  for (const char* at = path; *at != '\0'; ++at)
    if (*at == ' ' || *at == ':') return false;
  if (list == nullptr) return true;
  const std::size_t path_bytes = text_length(path);
  return !Text(path + path_bytes, path_room - path_bytes).add(':').add(list).overflowed();
}

/// Whether `entry` of an environment sets the variable `name`.
bool sets_variable(const char* entry, const char* name) noexcept {
  const char* rest = after_prefix(entry, name);
  return rest != nullptr && *rest == '=';
}

}  // namespace

/// Reads /proc/self/stat once per process, because that takes longer than reading most files.
Session this_session() noexcept {
  const int process = sys::process_id();
  if (g_session.process != process || g_session.process_start == 0) g_session = {process, process_start()};
  return g_session;
}

void forget_session() noexcept { g_session = {}; }

bool parse_session(const char* text, SessionEntry& entry) noexcept {
  entry = {};
  std::uint64_t process;
  if (!parse_number(text, process) || *text++ != '.' || !parse_number(text, entry.session.process_start))
    return false;
  entry.session.process = static_cast<int>(process);
  if (*text != '.') return *text == '\0';
  for (++text; *text != ':'; ++text) {
    const int digit = hex_digit(*text);
    if (digit < 0) return false;
    entry.file_id = entry.file_id << 4 | static_cast<unsigned>(digit);
  }
  entry.trace = text + 1;
  return true;
}

void write_session_entry(std::uint64_t file_id, const char* trace) noexcept {
  const Session session = this_session();
  Text entry(g_session_entry);
  entry.add(kSessionVariable)
      .add('=')
      .number(static_cast<std::uint64_t>(session.process))
      .add('.')
      .number(session.process_start);
  if (trace != nullptr) entry.add('.').hex(file_id).add(':').add(trace);
}

bool add_session_to_environment() noexcept {
  const char* list = environment_value(environ, kPreload);
  const bool add_preload = (list == nullptr || !lists_this_library(list)) && write_preload_entry(list);
  std::size_t count = 0;
  while (environ[count] != nullptr) ++count;
  auto** entries = static_cast<char**>(sys::map_private((count + 3) * sizeof(char*)));
  if (entries == nullptr) return false;
  std::size_t copied = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (!sets_variable(environ[i], kSessionVariable) && !(add_preload && sets_variable(environ[i], kPreload)))
      entries[copied++] = environ[i];
  entries[copied++] = g_session_entry;
  if (add_preload) entries[copied] = g_preload_entry;
  environ = entries;
  return true;
}

}  // namespace heapprof::recorder
