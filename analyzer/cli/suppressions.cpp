#include "analyzer/cli/suppressions.h"

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <string_view>

namespace heapprof::cli {
namespace {

enum class Runtime { kNone, kLibc, kLoader, kCxx };

Runtime runtime_of(const Frame& frame) {
  if (frame.module == nullptr) return Runtime::kNone;
  const std::string name = base_name(frame.module->path);
  const auto is = [&](std::string_view stem) {
    return name.compare(0, stem.size(), stem) == 0 && (name[stem.size()] == '.' || name[stem.size()] == '-');
  };
  if (is("ld-linux") || is("ld") || is("ld64")) return Runtime::kLoader;
  for (const std::string_view stem : {"libc", "libpthread", "libdl", "libresolv", "libnss_files", "libnss_dns"})
    if (is(stem)) return Runtime::kLibc;
  return is("libstdc++") ? Runtime::kCxx : Runtime::kNone;
}

/// What functions of libc keep for good. Only what a program cannot give back, or is not meant to.
struct Kept {
  const char* function;
  const char* what;
};
constexpr Kept kKept[] = {
    {"_IO_file_doallocate", "buffers of stdio"},
    {"_IO_wfile_doallocate", "buffers of stdio"},
    {"_IO_doallocbuf", "buffers of stdio"},
    {"pthread_create", "thread-local storage"},
    {"__tls_get_addr", "thread-local storage"},
    {"__libc_setup_tls", "thread-local storage"},
    {"__cxa_thread_atexit_impl", "functions to call at exit"},
    {"__cxa_atexit", "functions to call at exit"},
    {"__cxa_at_quick_exit", "functions to call at exit"},
    {"on_exit", "functions to call at exit"},
    {"setlocale", "locales and message catalogues"},
    {"bindtextdomain", "locales and message catalogues"},
    {"bind_textdomain_codeset", "locales and message catalogues"},
    {"textdomain", "locales and message catalogues"},
    {"dcgettext", "locales and message catalogues"},
    {"dcngettext", "locales and message catalogues"},
    {"tzset", "time zones"},
    {"localtime", "time zones"},
    {"localtime_r", "time zones"},
    {"mktime", "time zones"},
    {"strftime", "time zones"},
    {"__tz_convert", "time zones"},  // where localtime and gmtime end in a jump to it
    {"register_printf_specifier", "conversions added to printf"},
    {"setenv", "the environment"},
    {"putenv", "the environment"},
    {"__nss_database_get", "name services"},
    {"__nss_configure_lookup", "name services"},
    {"getpwnam", "name services"},
    {"getpwuid", "name services"},
    {"getgrnam", "name services"},
    {"getgrgid", "name services"},
    {"getpwnam_r", "name services"},
    {"getpwuid_r", "name services"},
    {"getgrnam_r", "name services"},
    {"getgrgid_r", "name services"},
};

/// What a block is for that the runtime asked for itself and keeps; null: it is the program's.
const char* runtime_use(const std::vector<Frame>& stack) {
  if (stack.empty()) return nullptr;
  if (runtime_of(stack.front()) == Runtime::kLoader) return "the loader's own tables";
  Runtime before = Runtime::kNone;
  for (const Frame& frame : stack) {
    const Runtime runtime = runtime_of(frame);
    if (runtime == Runtime::kNone) return nullptr;
    if (runtime == Runtime::kLoader && before == Runtime::kCxx) return "libstdc++'s emergency pool";
    if (runtime == Runtime::kLibc)
      for (const Kept& kept : kKept)
        if (frame.function == kept.function) return kept.what;
    before = runtime;
  }
  return nullptr;
}

}  // namespace

bool pattern_fits(const std::string& pattern, const std::string& name) {
  std::string_view rest = pattern;
  std::string_view text = name;
  const bool at_begin = !rest.empty() && rest.front() == '^';
  if (at_begin) rest.remove_prefix(1);
  const bool at_end = !rest.empty() && rest.back() == '$';
  if (at_end) rest.remove_suffix(1);
  bool tied = at_begin;  // the next piece must stand right here
  for (;;) {
    const std::size_t star = rest.find('*');
    const std::string_view piece = rest.substr(0, star);
    const bool last = star == std::string_view::npos;
    if (last && at_end) {
      if (tied) return text == piece;
      return text.size() >= piece.size() && text.substr(text.size() - piece.size()) == piece;
    }
    const std::size_t found = tied ? (text.substr(0, piece.size()) == piece ? 0 : std::string_view::npos)
                                   : text.find(piece);
    if (found == std::string_view::npos) return false;
    if (last) return true;
    text.remove_prefix(found + piece.size());
    rest.remove_prefix(star + 1);
    tied = false;
  }
}

std::string Suppressions::add(const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    line.erase(std::min(line.find_last_not_of(" \t\r") + 1, line.size()));
    if (line.empty() || line[0] == '#') continue;
    constexpr std::string_view kPrefix = "leak:";
    if (line.compare(0, kPrefix.size(), kPrefix) != 0 || line.size() == kPrefix.size()) return line;
    patterns_.push_back({line.substr(kPrefix.size())});
  }
  return {};
}

void Suppressions::add_built_in() { built_in_ = true; }

bool Suppressions::take(const std::vector<Frame>& stack, std::uint64_t bytes, std::uint64_t blocks) {
  Hits* const hits = find(stack);
  if (hits == nullptr) return false;
  hits->bytes += bytes;
  hits->blocks += blocks;
  return true;
}

Suppressions::Hits& Suppressions::built_in(const char* name) {
  for (Hits& hits : built_in_hits_)
    if (hits.name == name) return hits;
  built_in_hits_.push_back({name, true});
  return built_in_hits_.back();
}

Suppressions::Hits* Suppressions::find(const std::vector<Frame>& stack) {
  for (Hits& pattern : patterns_)
    for (const Frame& frame : stack)
      if ((!frame.function.empty() && pattern_fits(pattern.name, frame.function)) ||
          (!frame.file.empty() && pattern_fits(pattern.name, frame.file)) ||
          (!frame.module->path.empty() && pattern_fits(pattern.name, frame.module->path)))
        return &pattern;
  if (!built_in_) return nullptr;
  const char* const name = runtime_use(stack);
  return name == nullptr ? nullptr : &built_in(name);
}

std::vector<Suppressions::Hits> Suppressions::hits() const {
  std::vector<Hits> result;
  for (const std::vector<Hits>* list : {&patterns_, &built_in_hits_})
    for (const Hits& hits : *list)
      if (hits.blocks != 0) result.push_back(hits);
  std::stable_sort(result.begin(), result.end(), [](const Hits& a, const Hits& b) { return a.bytes > b.bytes; });
  return result;
}

}  // namespace heapprof::cli
