#include "preload/intercept/intercept.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include "patch.h"
#include "preload/base/text.h"
#include "preload/intercept/loaded_objects.h"
#include "preload/intercept/object_symbols.h"
#include "preload/real/functions.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/log.h"
#include "preload/recorder/recorder.h"
#include "preload/recorder/thread/thread_state.h"
#include "preload/sys/guarded_read.h"
#include "preload/sys/kernel.h"
#include "preload/sys/proc_maps.h"
#include "preload/unwind/unwinder.h"

#pragma weak _r_debug

namespace heapprof::intercept {

namespace {

using recorder::log;
using recorder::LogLevel;

constexpr std::size_t kMaxNotes = 4096;
constexpr std::size_t kMaxNamespaces = 16;  // glibc has no more (ldsodefs.h, DL_NNS)
constexpr std::size_t kPathBytes = 4096;

/// What an object is to the program.
enum class Role : std::uint8_t {
  kOther,
  kLibc,            ///< the program's, which the hooks stand in front of
  kNamespacesLibc,  ///< of a namespace made by dlmopen
};

/// What was made for an object. When another one lies where it was, that is for the taking: who was in the old one's
/// functions would have to come back to code that has gone.
struct Place {
  std::uint64_t begin;
  std::uint64_t end;
  arch::Room room;
  Target* targets;
  std::size_t capacity;  ///< functions
};
constexpr std::size_t kMaxPlaces = 512;

struct LeftAlone {
  const Function* function;
  const char* reason;
};

/// Working memory of one scan, and what lives on.
struct Memory {
  Place places[kMaxPlaces];
  std::size_t place_count;
  std::uint64_t noted[kMaxNotes];  ///< hashes of what the trace has been told
  std::size_t noted_count;
  LoadedObjects objects[kMaxNamespaces];  ///< in the order of the loader's lists
  LoadedObjects::Scratch scratch;
  bool loads_others;  ///< some object besides libc calls dlopen
  char path[kPathBytes];
  bool path_is_mapped;  ///< `path` is the kernel's, else the loader's
  Symbols symbols;
  arch::Patch patches[kMaxFunctions];
  Target* targets[kMaxFunctions];
  const Function* functions[kMaxFunctions];
  bool refused[kMaxFunctions];
  LeftAlone left_alone[kMaxFunctions];  ///< of the object looked at
  std::size_t left_alone_count;
  char text[2048];
};

constinit Memory* g_memory = nullptr;
constinit std::uint64_t g_scanner = 0;         ///< the thread that scans, as a number (this_scanner)
constinit std::uint64_t g_waited_in_vain = 0;  ///< for that one
constinit bool g_scan_was_missed = false;      ///< some object may have been loaded, and run, that no scan has seen
constexpr std::uint64_t kLongestWaitNs = 200'000'000;
constinit bool g_program_free_diverted = false;
using Free = void(void*) noexcept;
constinit Free* g_release_behind = nullptr;

/// The kernel counts a link for each thread in /proc/self/task. Not inlined: its stack is not the callers'.
[[gnu::noinline]] bool one_thread() noexcept {
  struct statx status;
  return !sys::failed(
             sys::call(SYS_statx, AT_FDCWD, sys::word("/proc/self/task"), 0, STATX_NLINK, sys::word(&status))) &&
         status.stx_nlink == 3;
}

bool is_libc(const char* path) noexcept {
  const char* base = base_name(path);
  return after_prefix(base, "libc.so.") != nullptr || after_prefix(base, "libc-2.") != nullptr ||
         after_prefix(base, "ld-linux") != nullptr || after_prefix(base, "ld-2.") != nullptr;
}

/// Of the program's libc only those miss blocks who pass by the hooks: few programs, and it can't be said which.
LogLevel level_for(Role role) noexcept { return role == Role::kLibc ? LogLevel::kInfo : LogLevel::kWarn; }

void leave_alone(Memory& memory, Role role, const char* reason, const Function& function) noexcept {
  memory.left_alone[memory.left_alone_count++] = {&function, reason};
  log(level_for(role), Text(memory.text)
                           .add(function.symbol)
                           .add(" of ")
                           .add(base_name(memory.path))
                           .add(" is not recorded: ")
                           .add(reason)
                           .c_str());
}

/// The same of all that the object has.
void say(Memory& memory, Role role, const char* reason) noexcept {
  log(level_for(role), Text(memory.text)
                           .add("the allocator in ")
                           .add(base_name(memory.path))
                           .add(" is not recorded: ")
                           .add(reason)
                           .c_str());
}

/// Which of the object's functions are to be diverted; in `functions`. The object's family, for the note.
std::size_t choose(Memory& memory, Role role, Family& family) noexcept {
  Symbols& symbols = memory.symbols;
  const bool plain = symbols.core == kCoreAll;
  bool prefixed = false;
  for (std::size_t i = 0; i < symbols.count; ++i) {
    const Function& function = symbols.functions[i];
    prefixed |= function.name.family < Family::kPlain;
  }
  family = Family::kPlain;
  std::size_t count = 0;
  bool jemalloc_names = false;
  for (std::size_t i = 0; i < symbols.count; ++i) {
    const Function& function = symbols.functions[i];
    const Family of = function.name.family;
    if (of == Family::kPlain && !plain) continue;
    // An operator new that calls malloc is recorded there; one of an allocator that has malloc too may not call it.
    if (of == Family::kOperator && !prefixed && !plain) continue;
    if (of < Family::kPlain) family = of;
    if (of == Family::kPlain && text_equal(function.symbol, "mallocx")) jemalloc_names = true;
    if (function.indirect) {
      leave_alone(memory, role, "it is chosen when the program starts (IFUNC)", function);
      continue;
    }
    bool known = false;
    for (std::size_t j = 0; j < count; ++j) known |= memory.functions[j]->address == function.address;
    if (!known) memory.functions[count++] = &function;
  }
  if (family == Family::kPlain && jemalloc_names) family = Family::kJemalloc;
  return count;
}

/// Room and targets for `count` functions of the object, in `place`.
arch::Refusal find_place(Memory& memory, std::size_t count, Place& place) noexcept {
  const Symbols& symbols = memory.symbols;
  for (std::size_t i = 0; i < memory.place_count; ++i) {
    place = memory.places[i];
    if (symbols.image_begin >= place.end || place.begin >= symbols.image_end || place.capacity < count) continue;
    return arch::unseal(place.room);
  }
  place = {symbols.image_begin, symbols.image_end, {}, nullptr, count};
  place.targets = static_cast<Target*>(sys::map_private(count * sizeof(Target)));
  if (place.targets == nullptr) return "there is no memory";
  if (const arch::Refusal refusal = arch::make_room(place.room, place.begin, place.end, count)) return refusal;
  if (memory.place_count != kMaxPlaces) memory.places[memory.place_count++] = place;
  return nullptr;
}

/// Writes the text as a note into the trace, once.
void note(Memory& memory, NoteKind kind) noexcept {
  std::uint64_t hash = 14695981039346656037u;
  for (const char* at = memory.text; *at != '\0'; ++at)
    hash = (hash ^ static_cast<unsigned char>(*at)) * 1099511628211u;
  for (std::size_t i = 0; i < memory.noted_count; ++i)
    if (memory.noted[i] == hash) return;
  if (memory.noted_count == kMaxNotes) return;
  memory.noted[memory.noted_count++] = hash;
  log(LogLevel::kInfo, memory.text);
  recorder::note(memory.text, kind);
}

/// What the figures lack when a function of the kind is left alone.
const char* what_is_missing(Kind kind) noexcept {
  switch (kind) {
    case Kind::kAllocate:
    case Kind::kStore:
    case Kind::kCopy:
      return "Blocks made there are missing, and their releases count as releases of unknown blocks";
    case Kind::kReallocate:
    case Kind::kReallocateOrFree:
    case Kind::kResize: return "Blocks moved or resized there stay in the figures with their old address and size";
    case Kind::kRelease: return "Blocks released there count as live, and as leaked at the end";
  }
  return "";
}

/// Tells the trace of the object's functions that were left alone: those of one reason and consequence together.
void note_left_alone(Memory& memory) noexcept {
  constexpr std::size_t kMostNames = 20;
  for (std::size_t i = 0; i < memory.left_alone_count; ++i) {
    const LeftAlone& first = memory.left_alone[i];
    if (first.function == nullptr) continue;  // told already
    const char* const missing = what_is_missing(first.function->name.signature.kind);
    Text text(memory.text);
    std::size_t names = 0;
    for (std::size_t j = i; j < memory.left_alone_count; ++j) {
      LeftAlone& other = memory.left_alone[j];
      if (other.function == nullptr || !text_equal(other.reason, first.reason) ||
          what_is_missing(other.function->name.signature.kind) != missing)
        continue;
      if (names++ < kMostNames) text.add(names == 1 ? "" : ", ").add(other.function->symbol);
      if (j != i) other.function = nullptr;
    }
    if (names > kMostNames) text.add(" and ").number(names - kMostNames).add(" more");
    text.add(" of ").add(base_name(memory.path)).add(names == 1 ? " is" : " are").add(" not recorded: ");
    text.add(first.reason).add(". ").add(missing);
    note(memory, NoteKind::kNotRecorded);
  }
}

/// The free behind the hooks, where an allocator's functions may call each other by ways that are diverted.
void release_behind(void* block) noexcept {
  const void* const outer = recorder::t_local.reallocating;
  ++recorder::t_local.allocator_depth;
  recorder::t_local.reallocating = block;
  g_release_behind(block);
  recorder::t_local.reallocating = outer == block ? nullptr : outer;
  --recorder::t_local.allocator_depth;
}

/// The hooks go past the diversion. libc's free calls none of the others.
void lead_hooks_past(const Function& function, const Target& target, bool libc) noexcept {
  const auto* const entry = reinterpret_cast<const void*>(function.address);
  const bool release = entry == reinterpret_cast<const void*>(real::functions().free);
  real::redirect(entry, target.original);
  if (!release || libc) return;
  g_release_behind = real::functions().free;
  real::redirect(target.original, reinterpret_cast<const void*>(release_behind));
}

/// Diverts what `choose` chose. Returns how many; these come first in `functions` then.
std::size_t divert(Memory& memory, std::size_t count, Role role) noexcept {
  const Symbols& symbols = memory.symbols;
  Place place;
  arch::Refusal refusal = find_place(memory, count, place);
  arch::Room& room = place.room;
  std::size_t prepared = 0;
  for (std::size_t i = 0; i < count && refusal == nullptr; ++i) {
    const Function& function = *memory.functions[i];
    Target& target = place.targets[prepared];
    target.signature = function.name.signature;
    target.silent_begin = role == Role::kLibc ? symbols.image_begin : 0;
    target.silent_end = role == Role::kLibc ? symbols.image_end : 0;
    target.behind = role != Role::kOther ||
                    real::contains(reinterpret_cast<const void*>(function.address));
    if (const arch::Refusal reason =
            arch::prepare(room, {symbols.text_begin, symbols.text_end}, function.address, function.size, target,
                          memory.patches[prepared])) {
      leave_alone(memory, role, reason, function);
      continue;
    }
    memory.refused[prepared] = false;
    memory.targets[prepared] = &target;
    memory.functions[prepared++] = &function;
  }
  if (refusal == nullptr) refusal = arch::seal(room);
  if (refusal != nullptr) {
    say(memory, role, refusal);
    if (role != Role::kLibc) note(memory, NoteKind::kNotRecorded);
    return 0;
  }
  arch::find_branches(symbols, memory.patches, prepared, memory.refused);
  std::size_t done = 0;
  for (std::size_t i = 0; i < prepared; ++i) {
    const Function& function = *memory.functions[i];
    const arch::Refusal reason = memory.refused[i] ? "other code branches into its first instructions, or may"
                                                   : arch::apply(memory.patches[i]);
    if (reason != nullptr) {
      leave_alone(memory, role, reason, function);
      continue;
    }
    memory.functions[done++] = &function;
    if (real::contains(reinterpret_cast<const void*>(function.address)))
      lead_hooks_past(function, *memory.targets[i], role == Role::kLibc);
    if (function.address == reinterpret_cast<std::uint64_t>(real::functions().program_free))
      g_program_free_diverted = true;
  }
  return done;
}

/// The path of the file that is mapped there. False: it is not known. Reads all of /proc/self/maps up to there.
bool find_mapped_path(Memory& memory, const link_map& map) noexcept {
  sys::Mapping mapping;
  memory.path_is_mapped = true;
  return sys::find_mapping(reinterpret_cast<std::uint64_t>(map.l_ld), mapping, memory.path, sizeof memory.path) &&
         memory.path[0] == '/';
}

/// By the loader's name, which costs the same however many objects there are, where that is a path.
bool find_path(Memory& memory, const link_map& map, sys::GuardedReader& reader) noexcept {
  memory.path_is_mapped = false;
  return (reader.read_text(map.l_name, memory.path, sizeof memory.path) && memory.path[0] == '/') ||
         find_mapped_path(memory, map);
}

/// Of an object that has any to patch, they are read from the file that is mapped, which may not be the one that goes
/// by the loader's name now.
bool find_symbols(Memory& memory, const link_map& map) noexcept {
  __builtin_memset(&memory.symbols, 0, sizeof memory.symbols);
  if (!read_symbols(memory.path, map.l_addr, memory.symbols)) return false;
  if (memory.path_is_mapped || memory.symbols.count == 0) return true;
  __builtin_memset(&memory.symbols, 0, sizeof memory.symbols);
  return find_mapped_path(memory, map) && read_symbols(memory.path, map.l_addr, memory.symbols);
}

/// `safe`: no other thread can be in the object's functions.
void look_at(Memory& memory, const link_map& map, Role role, bool safe) noexcept {
  memory.left_alone_count = 0;
  if (!find_symbols(memory, map)) return;
  if (role == Role::kOther) memory.loads_others |= memory.symbols.imports_dlopen;
  Family family;
  const std::size_t count = choose(memory, role, family);
  const bool main = &map == _r_debug.r_map || map.l_addr == _r_debug.r_map->l_addr;
  if (count == 0) {
    if (role != Role::kLibc) note_left_alone(memory);
    const char* allocator = main && !memory.symbols.has_symtab ? recognise(memory.path) : nullptr;
    if (allocator == nullptr) return;
    Text text(memory.text);
    text.add("the program seems to carry ")
        .add(allocator)
        .add(" inside, but its symbols are stripped: what it allocates that way is not recorded. ")
        .add("Record an unstripped build, or one that links the allocator as a shared library");
    log(LogLevel::kWarn, memory.text);
    note(memory, NoteKind::kNotRecorded);
    return;
  }
  const char* reason = nullptr;
  if (memory.symbols.sanitizer) reason = "it belongs to a sanitizer";
  else if (!safe) reason = "it was found when other threads were running already";
  if (reason != nullptr) {
    say(memory, role, reason);
    if (role != Role::kLibc) note(memory, NoteKind::kNotRecorded);
    return;
  }
  const std::size_t done = divert(memory, count, role);
  if (role == Role::kLibc || (done == 0 && memory.left_alone_count == 0)) return;
  Text text(memory.text);
  text.add("own allocator: ")
      .add(role == Role::kNamespacesLibc ? "the libc of another namespace" : family_name(family))
      .add(" in ")
      .add(memory.path)
      .add(", ")
      .number(done)
      .add(" functions patched");
  if (memory.left_alone_count != 0) text.add(", ").number(memory.left_alone_count).add(" left alone");
  text.add(done != 0 ? " (" : "");
  for (std::size_t i = 0; i < done && i < 6; ++i) text.add(i == 0 ? "" : ", ").add(memory.functions[i]->symbol);
  text.add(done > 6 ? ", ..." : "").add(done != 0 ? ")" : "");
  note(memory, NoteKind::kInformation);
  note_left_alone(memory);
}

/// The loader's list of another namespace after this one; null: there is none, or glibc is older than 2.35. Lists are
/// never taken away again.
const r_debug* next_namespace(const r_debug* list) noexcept {
  if (_r_debug.r_version < 2) return nullptr;
  return reinterpret_cast<const r_debug*>(
      __atomic_load_n(&reinterpret_cast<const r_debug_extended*>(list)->r_next, __ATOMIC_ACQUIRE));
}

constexpr unsigned kGenerationShift = 48;  // above an address of a user's

/// The address of its thread-local storage and, above that, the generation of its process: in a forked child the
/// threads of the parent are not there, whatever they were at.
std::uint64_t this_scanner() noexcept {
  const std::uint64_t generation = recorder::g_process_generation;
  return reinterpret_cast<std::uint64_t>(&recorder::t_local) | generation << kGenerationShift;
}

/// False: this very thread is at it, or somebody else for too long. Loaders of objects exclude each other, but
/// thread-local storage is allocated by the loader too, at any time, and who does that may scan, and lose the
/// processor, while another thread loads an object and would begin to run it. A scan waits for nobody, so waiting for
/// it ends.
bool begin_scan() noexcept {
  const std::uint64_t self = this_scanner();
  std::uint64_t scanner = 0;
  const auto taken = [&] {
    scanner = __atomic_load_n(&g_scanner, __ATOMIC_RELAXED);
    if (scanner >> kGenerationShift == self >> kGenerationShift) scanner = 0;
    return __atomic_compare_exchange_n(&g_scanner, &scanner, self, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  };
  if (taken()) return true;
  if (scanner == self || scanner == __atomic_load_n(&g_waited_in_vain, __ATOMIC_RELAXED)) return false;
  const std::uint64_t begin = sys::clock_ns(CLOCK_MONOTONIC);
  do {
    sys::call(SYS_sched_yield);
    if (taken()) return true;
  } while (sys::clock_ns(CLOCK_MONOTONIC) - begin < kLongestWaitNs);
  __atomic_store_n(&g_waited_in_vain, scanner, __ATOMIC_RELAXED);  // left by a longjmp, perhaps
  return false;
}

void miss_scan() noexcept { __atomic_store_n(&g_scan_was_missed, true, __ATOMIC_RELEASE); }

/// In RT_ADD a namespace's list is being added to: what is new on it is mapped, and none of its code has run. Unless
/// a scan was missed: then it may be new to this scan only.
void scan() noexcept {
  if (!begin_scan()) return miss_scan();
  Memory& memory = *g_memory;
  const bool missed = __atomic_exchange_n(&g_scan_was_missed, false, __ATOMIC_ACQ_REL);
  const std::uint64_t loader = getauxval(AT_BASE);
  const std::uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
  sys::GuardedReader reader;
  link_map libc{};
  bool complete = true;
  LoadedObjects* objects = memory.objects;
  for (const r_debug* list = &_r_debug; list != nullptr && objects != memory.objects + kMaxNamespaces;
       list = next_namespace(list), ++objects) {
    complete &= objects->update(&list->r_map, reader, memory.scratch, missed, [&](const link_map& map) {
      if (map.l_ld == _DYNAMIC || map.l_addr == loader || (vdso != 0 && map.l_addr == vdso) || map.l_ld == nullptr)
        return;
      if (!find_path(memory, map, reader)) return;
      const bool safe = (list->r_state == r_debug::RT_ADD && !missed && !objects->overflowed() &&
                         !__atomic_load_n(&g_scan_was_missed, __ATOMIC_ACQUIRE)) ||
                        one_thread();
      if (!is_libc(memory.path)) look_at(memory, map, Role::kOther, safe);
      else if (list != &_r_debug) look_at(memory, map, Role::kNamespacesLibc, safe);
      else libc = map;
    });
  }
  // When all others are known.
  if (libc.l_ld != nullptr && memory.loads_others && find_path(memory, libc, reader))
    look_at(memory, libc, Role::kLibc, one_thread());
  reader.close();
  if (!complete) miss_scan();
  __atomic_store_n(&g_scanner, std::uint64_t{0}, __ATOMIC_RELEASE);
}

/// The loader allocates or releases.
void loader_event() noexcept {
  if (recorder::state() != recorder::State::kOn || __atomic_load_n(&sys::g_forbidden, __ATOMIC_RELAXED))
    return miss_scan();
  scan();
}

}  // namespace

bool start() noexcept {
  if (recorder::state() != recorder::State::kOn || !recorder::g_settings.own_allocators || &_r_debug == nullptr)
    return false;
  g_memory = static_cast<Memory*>(sys::map_private(sizeof(Memory)));
  if (g_memory == nullptr) return false;
  unwind::hide_frame(reinterpret_cast<std::uint64_t>(heapprof_intercept_returned));
  scan();
  recorder::watch_loader(loader_event);
  return g_program_free_diverted;
}

}  // namespace heapprof::intercept
