#include "analyzer/cli/commands/leaks/suppressions.h"

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <string_view>

#include "analyzer/symbols/tail_call_name.h"

namespace heapprof::cli {
namespace {

enum class Runtime { kNone, kLibc, kLoader, kCxx };

Runtime runtime_of(const Frame& frame) {
  if (frame.module == nullptr) return Runtime::kNone;
  const std::string name = base_name(frame.module->path);
  const auto is = [&](std::string_view stem) {
    return name.compare(0, stem.size(), stem) == 0 && (name[stem.size()] == '.' || name[stem.size()] == '-');
  };
  if (name.starts_with("ld-musl-")) return Runtime::kLibc;  // musl's loader is libc
  if (is("ld-linux") || is("ld") || is("ld64")) return Runtime::kLoader;
  for (const std::string_view stem : {"libc", "libpthread", "libdl", "libresolv", "libnss_files", "libnss_dns"})
    if (is(stem)) return Runtime::kLibc;
  return is("libstdc++") ? Runtime::kCxx : Runtime::kNone;
}

/// Functions of libc that keep blocks which a program cannot or need not free.
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
    {"__internal_atexit", "functions to call at exit"},  // __cxa_atexit ends in a jump to it
    {"__cxa_at_quick_exit", "functions to call at exit"},
    {"on_exit", "functions to call at exit"},
    {"setlocale", "locales and message catalogues"},
    {"bindtextdomain", "locales and message catalogues"},
    {"bind_textdomain_codeset", "locales and message catalogues"},
    {"textdomain", "locales and message catalogues"},
    {"dcgettext", "locales and message catalogues"},
    {"dcngettext", "locales and message catalogues"},
    {"dgettext", "locales and message catalogues"},
    {"dngettext", "locales and message catalogues"},
    {"gettext", "locales and message catalogues"},
    {"ngettext", "locales and message catalogues"},
    {"__dcigettext", "locales and message catalogues"},  // dcgettext and others end in a jump to it
    {"strerror", "locales and message catalogues"},
    {"strerror_l", "locales and message catalogues"},
    {"strsignal", "locales and message catalogues"},
    {"perror", "locales and message catalogues"},
    {"__wcsmbs_load_conv", "conversions of characters"},
    {"__gconv_find_shlib", "conversions of characters"},  // iconv_open's modules; the descriptor is the program's
    {"btowc", "conversions of characters"},
    {"mblen", "conversions of characters"},
    {"mbrtowc", "conversions of characters"},
    {"mbsrtowcs", "conversions of characters"},
    {"mbsnrtowcs", "conversions of characters"},
    {"mbstowcs", "conversions of characters"},
    {"mbtowc", "conversions of characters"},
    {"wcrtomb", "conversions of characters"},
    {"wcsrtombs", "conversions of characters"},
    {"wcsnrtombs", "conversions of characters"},
    {"wcstombs", "conversions of characters"},
    {"wctob", "conversions of characters"},
    {"wctomb", "conversions of characters"},
    {"_dlerror_run", "the loader's last error"},
    {"dlclose", "the loader's last error"},
    {"dlerror", "the loader's last error"},
    {"dlsym", "the loader's last error"},
    {"dlvsym", "the loader's last error"},
    {"tzset", "time zones"},
    {"localtime", "time zones"},
    {"localtime_r", "time zones"},
    {"gmtime", "time zones"},
    {"gmtime_r", "time zones"},
    {"mktime", "time zones"},
    {"strftime", "time zones"},
    {"__tz_convert", "time zones"},  // localtime and gmtime end in a jump to it
    {"register_printf_modifier", "conversions added to printf"},
    {"register_printf_specifier", "conversions added to printf"},
    {"register_printf_type", "conversions added to printf"},
    {"setenv", "the environment"},
    {"putenv", "the environment"},
    {"__add_to_environ", "the environment"},  // setenv and putenv end in a jump to it
    {"__nss_database_get", "name services"},
    {"__nss_configure_lookup", "name services"},
    {"nss_database_check_reload_and_get", "name services"},
    {"getpwnam", "name services"},
    {"getpwuid", "name services"},
    {"getgrnam", "name services"},
    {"getgrgid", "name services"},
    {"getpwnam_r", "name services"},
    {"getpwuid_r", "name services"},
    {"getgrnam_r", "name services"},
    {"getgrgid_r", "name services"},
    {"getservbyname", "name services"},
    {"getservbyport", "name services"},
    {"getservbyname_r", "name services"},
    {"getservbyport_r", "name services"},
    {"getprotobyname", "name services"},
    {"getprotobynumber", "name services"},
    {"getprotobyname_r", "name services"},
    {"getprotobynumber_r", "name services"},
};

/// What `function` of libc keeps; null: nothing that is known.
const char* kept_by(std::string_view function) {
  for (const Kept& kept : kKept)
    if (function == kept.function) return kept.what;
  return nullptr;
}

/// The same for a function without a symbol that is named by the functions which jump to it
/// (symbols::kTailCallPrefix). Null unless all of these keep the same.
const char* kept_by_all(std::string_view function) {
  constexpr std::string_view kBetween = ", ";
  if (!function.starts_with(symbols::kTailCallPrefix) || !function.ends_with(']')) return nullptr;
  function.remove_prefix(symbols::kTailCallPrefix.size());
  function.remove_suffix(1);
  const char* what = nullptr;
  for (;;) {
    const std::size_t end = function.find(kBetween);
    const char* const one = kept_by(function.substr(0, end));
    if (one == nullptr || (what != nullptr && std::string_view(what) != one)) return nullptr;
    what = one;
    if (end == std::string_view::npos) return what;
    function.remove_prefix(end + kBetween.size());
  }
}

constexpr const char* kEmergencyPool = "libstdc++'s emergency pool";

/// A statically linked libstdc++ is no module of its own. Its pool is recognized by its size, and by its allocating
/// constructor, which libc or the loader calls.
bool is_linked_in_pool(const std::vector<Frame>& stack, std::uint64_t bytes, std::uint64_t blocks) {
  constexpr std::uint64_t kToGcc12 = 72704;
  constexpr std::uint64_t kSinceGcc13 = 73728;
  if (blocks != 1 || (bytes != kToGcc12 && bytes != kSinceGcc13)) return false;
  constexpr std::size_t kMaxFrames = 2;  // the constructor, and that of its file's variables
  std::size_t own = 0;
  while (own < stack.size() && runtime_of(stack[own]) == Runtime::kNone) ++own;
  if (own == 0 || own > kMaxFrames || own == stack.size() || stack[own - 1].function == "main") return false;
  if (runtime_of(stack[own]) == Runtime::kLoader) return true;
  for (const char* const caller : {"call_init", "__libc_start_main", "__libc_start_main_impl"})
    if (stack[own].function == caller) return true;
  return false;
}

/// The use of a block that the runtime itself allocated and keeps; null: the program allocated it.
const char* runtime_use(const std::vector<Frame>& stack) {
  if (stack.empty()) return nullptr;
  if (runtime_of(stack.front()) == Runtime::kLoader) return "the loader's own tables";
  Runtime before = Runtime::kNone;
  for (const Frame& frame : stack) {
    const Runtime runtime = runtime_of(frame);
    if (runtime == Runtime::kNone) return nullptr;
    if (runtime == Runtime::kLoader && before == Runtime::kCxx) return kEmergencyPool;
    if (runtime == Runtime::kLibc) {
      if (const char* const what = kept_by(frame.function)) return what;
      if (const char* const what = kept_by_all(frame.function)) return what;
      // The program owns the locale that newlocale allocated itself; libc owns the locale's files.
      if (frame.function == "newlocale" && &frame != &stack.front()) return kept_by("setlocale");
    }
    before = runtime;
  }
  return nullptr;
}

}  // namespace

bool pattern_matches(const std::string& pattern, const std::string& name) {
  std::string_view rest = pattern;
  std::string_view text = name;
  const bool at_begin = !rest.empty() && rest.front() == '^';
  if (at_begin) rest.remove_prefix(1);
  const bool at_end = !rest.empty() && rest.back() == '$';
  if (at_end) rest.remove_suffix(1);
  bool anchored = at_begin;  // the next piece must match here
  for (;;) {
    const std::size_t star = rest.find('*');
    const std::string_view piece = rest.substr(0, star);
    const bool last = star == std::string_view::npos;
    if (last && at_end) {
      if (anchored) return text == piece;
      return text.size() >= piece.size() && text.substr(text.size() - piece.size()) == piece;
    }
    const std::size_t found =
        anchored ? (text.substr(0, piece.size()) == piece ? 0 : std::string_view::npos) : text.find(piece);
    if (found == std::string_view::npos) return false;
    if (last) return true;
    text.remove_prefix(found + piece.size());
    rest.remove_prefix(star + 1);
    anchored = false;
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

bool Suppressions::match(const std::vector<Frame>& stack, std::uint64_t bytes, std::uint64_t blocks) {
  Hits* const hits = find(stack, bytes, blocks);
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

Suppressions::Hits* Suppressions::find(const std::vector<Frame>& stack, std::uint64_t bytes, std::uint64_t blocks) {
  for (Hits& pattern : patterns_)
    for (const Frame& frame : stack)
      if ((!frame.function.empty() && pattern_matches(pattern.name, frame.function)) ||
          (!frame.file.empty() && pattern_matches(pattern.name, frame.file)) ||
          (!frame.module->path.empty() && pattern_matches(pattern.name, frame.module->path)))
        return &pattern;
  if (!built_in_) return nullptr;
  const char* const name = is_linked_in_pool(stack, bytes, blocks) ? kEmergencyPool : runtime_use(stack);
  return name == nullptr ? nullptr : &built_in(name);
}

std::vector<std::string> Suppressions::unmatched() const {
  std::vector<std::string> names;
  for (const Hits& pattern : patterns_)
    if (pattern.blocks == 0) names.push_back(pattern.name);
  return names;
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
