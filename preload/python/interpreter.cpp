#include "preload/python/interpreter.h"

#include <elf.h>
#include <link.h>

#include "common/note_kind.h"
#include "preload/arch/arch.h"
#include "preload/base/text.h"
#include "preload/python/runtime_description.h"
#include "preload/real/dynamic_symbols.h"
#include "preload/recorder/process/settings.h"
#include "preload/sys/loader.h"

extern "C" {
// Weak: in glibc before 2.34 it is part of libpthread, which every interpreter needs.
[[gnu::weak]] void* pthread_getspecific(unsigned key);
}

namespace heapprof::python {

namespace detail {
constinit Interpreter interpreters[kMaxInterpreters] = {};
constinit std::uint32_t interpreter_count = 0;
constinit std::uint32_t found_interpreters = 0;
constinit ThreadValue* const thread_value = pthread_getspecific;

std::uint64_t value_of(const ThreadVariable& variable, ReadablePages& pages) noexcept {
  const std::uint64_t thread = arch::thread_pointer();
  if (variable.index == 0) return load<std::uint64_t>(thread + static_cast<std::int64_t>(variable.offset));
  // glibc, sysdeps/x86_64/nptl/tls.h and sysdeps/generic/dl-dtv.h: the element before the table has its size.
  constexpr unsigned kTable = 8, kElement = 16;
  constexpr std::uint64_t kUnallocated = ~std::uint64_t{0};
  const auto module = load<std::uint64_t>(variable.index);
  const auto table = load<std::uint64_t>(thread + kTable);
  if (!pages.object(table - kElement, kElement) || module > load<std::uint64_t>(table - kElement)) return 0;
  if (!pages.object(table + module * kElement, sizeof(std::uint64_t))) return 0;
  const auto variables = load<std::uint64_t>(table + module * kElement);
  if (variables == 0 || variables == kUnallocated) return 0;
  const std::uint64_t at =
      variables + load<std::uint64_t>(variable.index + 8) + static_cast<std::uint64_t>(std::int64_t{variable.offset});
  return pages.object(at, sizeof(std::uint64_t)) ? load<std::uint64_t>(at) : 0;
}
}  // namespace detail

namespace {

/// The module cannot be unloaded while it is examined, so its memory is read directly.
struct DirectReader {
  template <typename T>
  bool read(const T* from, T& to) const noexcept {
    __builtin_memcpy(&to, from, sizeof to);
    return true;
  }
};

/// Calls visit(segment) for each program header of the module.
template <typename Visit>
void visit_segments(const unwind::ModuleInfo& module, Visit&& visit) noexcept {
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(module.map_begin);
  constexpr std::uint64_t kPage = 4096;
  if (__builtin_memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof(ElfW(Phdr)) ||
      header->e_phoff + header->e_phnum * sizeof(ElfW(Phdr)) > kPage)
    return;
  const auto* segment = reinterpret_cast<const ElfW(Phdr)*>(module.map_begin + header->e_phoff);
  for (unsigned left = header->e_phnum; left != 0; --left, ++segment) visit(*segment);
}

/// The bytes of the module's file that are mapped by the segment that holds `address`; empty: they do not contain it.
unwind::Span file_bytes_around(const unwind::ModuleInfo& module, std::uint64_t address) noexcept {
  unwind::Span result{};
  visit_segments(module, [&](const ElfW(Phdr) & segment) noexcept {
    const std::uint64_t begin = module.load_bias + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address - begin < segment.p_filesz) result = {begin, begin + segment.p_filesz};
  });
  return result;
}

/// The dynamic symbols of a module.
class Symbols {
 public:
  explicit Symbols(const unwind::ModuleInfo& module) noexcept {
    link_map map{};
    map.l_addr = module.load_bias;
    visit_segments(module, [&](const ElfW(Phdr) & segment) noexcept {
      if (segment.p_type == PT_DYNAMIC) map.l_ld = reinterpret_cast<ElfW(Dyn)*>(module.load_bias + segment.p_vaddr);
    });
    read(map);
  }
  /// The program's.
  Symbols() noexcept {
    // The first entry of the loader's list is always the program, and is never removed.
    const r_debug* const loader = sys::loader();
    if (loader == nullptr || loader->r_map == nullptr) return;
    link_map map{};
    map.l_addr = loader->r_map->l_addr;
    map.l_ld = loader->r_map->l_ld;
    read(map);
  }

  /// The address of a function or a variable; 0: the module does not define it.
  std::uint64_t find(const char* name) const noexcept {
    ElfW(Sym) symbol{};
    DirectReader reader;
    if (!found_ || !real::find_symbol(symbols_, name, reader, symbol, real::kFunctionsAndObjects)) return 0;
    return symbols_.load_bias + symbol.st_value;
  }

 private:
  void read(const link_map& map) noexcept {
    DirectReader reader;
    found_ = map.l_ld != nullptr && real::read_dynamic_symbols(map, reader, symbols_);
  }

  real::DynamicSymbols symbols_;
  bool found_ = false;
};

/// PY_VERSION_HEX. Before 3.11 only a function returns it; then functions that a release added show the release.
std::uint32_t version_of(const Symbols& symbols) noexcept {
  if (const std::uint64_t version = symbols.find("Py_Version")) return load<std::uint32_t>(version);
  struct Added {
    const char* function;
    std::uint32_t version;
  };
  static constexpr Added kAdded[] = {
      {"PyModule_AddObjectRef", 0x030a0000},
      {"Py_GenericAlias", 0x03090000},
      {"PyCode_NewWithPosOnlyArgs", 0x03080000},
  };
  for (const Added& added : kAdded)
    if (symbols.find(added.function) != 0) return added.version;
  return 0;
}

/// Instructions that are compared one after the other.
class Instructions {
 public:
  explicit Instructions(std::uint64_t at) noexcept : at_(at) {}

  /// Whether these are the next bytes; then they are skipped.
  template <std::size_t kBytes>
  bool skip(const unsigned char (&bytes)[kBytes]) noexcept {
    if (__builtin_memcmp(reinterpret_cast<const void*>(at_), bytes, kBytes) != 0) return false;
    at_ += kBytes;
    return true;
  }
  template <typename Operand>
  Operand operand() noexcept {
    Operand value;
    __builtin_memcpy(&value, reinterpret_cast<const void*>(at_), sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint64_t at() const noexcept { return at_; }

 private:
  std::uint64_t at_;
};

std::int32_t signed_byte(std::uint8_t byte) noexcept { return byte < 0x80 ? byte : std::int32_t{byte} - 0x100; }

/// Finds the thread-local variable that PyGILState_GetThisThreadState returns (3.15). Returns false if the function
/// is none of these:
/// 1. In an executable, a load from a constant distance to the thread pointer.
/// 2. In a library, a call of __tls_get_addr with a tls_index, and a load from a constant distance to its result.
bool find_state_variable(std::uint64_t function, ThreadVariable& variable) noexcept {
  if (function == 0) return false;
  Instructions next(function);
  next.skip({0xf3, 0x0f, 0x1e, 0xfa});              // endbr64
  if (next.skip({0x64, 0x48, 0x8b, 0x04, 0x25})) {  // mov %fs:imm32, %rax
    variable = {0, next.operand<std::int32_t>()};
    return next.skip({0xc3});
  }
  const bool has_frame = next.skip({0x55, 0x48, 0x89, 0xe5});            // push %rbp; mov %rsp, %rbp
  if (!has_frame && !next.skip({0x48, 0x83, 0xec, 0x08})) return false;  // sub $8, %rsp
  next.skip({0x66});                                                     // of a general dynamic access
  if (!next.skip({0x48, 0x8d, 0x3d})) return false;                      // lea imm32(%rip), %rdi
  const std::int64_t distance = next.operand<std::int32_t>();
  variable.index = next.at() + static_cast<std::uint64_t>(distance);
  // A general dynamic access has an offset of its own in the tls_index; the linker does not change the call.
  next.skip({0x66, 0x66, 0x48});
  if (!next.skip({0xe8}) && !next.skip({0xff, 0x15})) return false;  // call
  next.operand<std::int32_t>();
  const auto leave = [&] { return has_frame ? next.skip({0x5d}) : next.skip({0x48, 0x83, 0xc4, 0x08}); };
  const bool left = leave();
  if (next.skip({0x48, 0x8b, 0x00})) variable.offset = 0;  // mov (%rax), %rax
  else if (next.skip({0x48, 0x8b, 0x40})) variable.offset = signed_byte(next.operand<std::uint8_t>());
  else if (next.skip({0x48, 0x8b, 0x80})) variable.offset = next.operand<std::int32_t>();
  else return false;
  return variable.index % 8 == 0 && (left || leave()) && next.skip({0xc3});
}

/// An element of PyTypeObject.tp_members (PyMemberDef).
struct Member {
  const char* name;
  std::uint64_t type;
  std::uint64_t offset;
  std::uint64_t flags;
  const char* doc;
};

/// Whether the type of code objects describes its members as the layout does.
bool code_type_matches(const Layout& layout, std::uint64_t code_type) noexcept {
  struct Expected {
    const char* name;
    std::uint64_t offset;
  };
  const Expected expected[] = {
      {"co_firstlineno", layout.first_line},
      {"co_filename", layout.file},
      {layout.lines == PythonLines::kLocations ? "co_qualname" : "co_name", layout.name},
      {layout.lines == PythonLines::kLnotab ? "co_lnotab" : "co_linetable", layout.table},
  };
  if (layout.bytecode != 0 && load<std::uint64_t>(code_type + kTypeBasicSize) != layout.bytecode) return false;
  const auto* const members = reinterpret_cast<const Member*>(load<std::uint64_t>(code_type + kTypeMembers));
  if (members == nullptr) return false;
  constexpr unsigned kMaxMembers = 64;
  for (const Expected& each : expected) {
    unsigned at = 0;
    while (at != kMaxMembers && members[at].name != nullptr && !text_equal(members[at].name, each.name)) ++at;
    if (at == kMaxMembers || members[at].name == nullptr || members[at].offset != each.offset) return false;
  }
  return true;
}

/// The description of the layout that begins _PyRuntime (from 3.13 on), in words.
class Description {
 public:
  explicit Description(std::uint64_t runtime) noexcept : runtime_(runtime) {}

  bool exists() const noexcept { return beginning().exists(); }
  bool free_threaded() const noexcept { return beginning().free_threaded != 0; }
  std::uint64_t finalizing() const noexcept { return word(4); }
  std::uint32_t first_state() const noexcept { return static_cast<std::uint32_t>(word(5)); }
  std::uint32_t state_id() const noexcept { return static_cast<std::uint32_t>(word(7)); }
  std::uint32_t next_state() const noexcept { return static_cast<std::uint32_t>(word(8)); }

  bool matches(const Layout& layout) const noexcept {
    const DescriptionWords& at = layout.description;
    return finalizing() == layout.finalizing && word(at.thread + 3) == layout.interpreter &&
           word(at.thread + 4) == layout.frame && word(at.thread_id) == layout.thread_id &&
           word(at.frame + 1) == layout.previous && word(at.frame + 2) == layout.code &&
           word(at.frame + 3) == layout.instruction && word(at.frame + 5) == layout.owner &&
           word(at.code + 1) == layout.file && word(at.code + 3) == layout.name &&
           word(at.code + 4) == layout.table && word(at.code + 5) == layout.first_line &&
           word(at.code + 9) == layout.bytecode;
  }

 private:
  RuntimeDescription beginning() const noexcept {
    RuntimeDescription result;
    __builtin_memcpy(&result, reinterpret_cast<const void*>(runtime_), sizeof result);
    return result;
  }
  std::uint64_t word(unsigned index) const noexcept { return load<std::uint64_t>(runtime_ + 8 * index); }

  std::uint64_t runtime_;
};

ObjectType find_type(const Symbols& module, const Symbols& program, const char* name) noexcept {
  const ObjectType type{module.find(name), program.find(name)};
  return type.in_module == type.in_program ? ObjectType{type.in_module, 0} : type;
}

/// Determines the layout. Returns null, or why the frames cannot be read.
const char* examine(const unwind::ModuleInfo& module, const Symbols& symbols, std::uint64_t runtime,
                    std::uint32_t version, Interpreter& result) noexcept {
  if (arch::kElfMachine != EM_X86_64) return "they are supported only on x86-64";
  if (&pthread_getspecific == nullptr) return "the C library lacks pthread_getspecific";
  const Layout* layout = nullptr;
  for (const Layout* const each : kLayouts)
    if (each->version == version >> 16) layout = each;
  if (layout == nullptr) return "this version is not supported";
  result.runtime = runtime;
  const Symbols program;
  result.code_type = find_type(symbols, program, "PyCode_Type");
  result.text_type = find_type(symbols, program, "PyUnicode_Type");
  result.bytes_type = find_type(symbols, program, "PyBytes_Type");
  if (result.code_type.in_module == 0 || result.text_type.in_module == 0 || result.bytes_type.in_module == 0)
    return "the interpreter does not export its types";
  if (layout->tss_key == 0 &&
      (!find_state_variable(symbols.find("PyGILState_GetThisThreadState"), result.state_variable) ||
       (result.state_variable.index != 0 && sys::is_musl())))
    return "it is not known where this build keeps the state of a thread";
  result.first_state = layout->first_state;
  result.next_state = 0;
  if (layout->description.thread != 0) {
    const Description description(runtime);
    if (!description.exists()) return "the interpreter's layout is not that of its version";
    if (description.free_threaded()) return "interpreters without the global interpreter lock are not supported";
    if (!description.matches(*layout)) return "the interpreter's layout is not that of its version";
    result.first_state = description.first_state();
    result.next_state = description.next_state();
    result.state_id = description.state_id();
  }
  if (!code_type_matches(*layout, result.code_type.in_module))
    return "the interpreter's layout is not that of its version";
  if (layout->evaluations_by_code()) {
    result.evaluation = find_evaluation_code({module.map_begin, module.map_end}, module.load_bias,
                                             symbols.find("_PyEval_EvalFrameDefault"));
    if (!result.evaluation.exists()) return "it is not known where its code evaluates frames";
  }
  if (layout->code_version == 0) {
    result.release.find(symbols.find("PyObject_Free"));
    const unwind::Span data = file_bytes_around(module, result.code_type.in_module);
    result.static_begin = data.begin;
    result.static_end = data.end;
  }
  result.layout = layout;
  return nullptr;
}

void write_note(recorder::Stream& stream, std::uint32_t version, const char* reason) noexcept {
  char message[256];
  Text note(message);
  note.add("the program contains Python");
  if (version != 0) note.add(' ').number(version >> 24).add('.').number(version >> 16 & 0xff);
  note.add(", but its Python frames are not recorded: ").add(reason);
  stream.append_text(TextKind::kNote, static_cast<std::uint64_t>(NoteKind::kInformation), 0, message, note.length());
}

/// Adds an interpreter of the module `module`; nothing if it is there. A forked child does it again. When several
/// threads find a module at once, it may be added twice: only the first one is used. Returns false if there are too
/// many.
bool add(const Interpreter& found, ModuleId module) noexcept {
  if (interpreter_number(module) != 0) return true;
  const std::uint32_t slot = __atomic_fetch_add(&detail::interpreter_count, 1, __ATOMIC_ACQ_REL);
  if (slot >= kMaxInterpreters) {
    __atomic_fetch_sub(&detail::interpreter_count, 1, __ATOMIC_ACQ_REL);
    return false;
  }
  detail::interpreters[slot] = found;
  __atomic_store_n(&detail::interpreters[slot].module, static_cast<std::uint32_t>(module), __ATOMIC_RELEASE);
  __atomic_fetch_add(&detail::found_interpreters, 1, __ATOMIC_ACQ_REL);
  return true;
}

/// Notes whether the runtime is initialized. When it begins again, its numbers (of code objects, for example) may
/// begin again, too. A thread that initializes the runtime allocates before it has a state, so no restart is missed.
void note_runtime(Interpreter& python, bool has_key) noexcept {
  const bool initialized =
      has_key && (python.first_state == 0 || load<std::uint64_t>(python.runtime + python.first_state) != 0);
  if (__atomic_load_n(&python.initialized, __ATOMIC_RELAXED) == std::uint32_t{initialized}) return;
  if (__atomic_exchange_n(&python.initialized, std::uint32_t{initialized}, __ATOMIC_RELAXED) != 0 && !initialized)
    __atomic_fetch_add(&python.restarts, 1, __ATOMIC_RELAXED);
}

/// Whether the runtime has the key by which threads find their states.
bool key_exists(const Interpreter& python) noexcept {
  const unsigned key = python.layout->tss_key;
  return key == 0 || static_cast<std::uint32_t>(load<std::uint64_t>(python.runtime + key)) != 0;
}

/// Whether `pc` is an address of the interpreter's module, or of another one in its place, if it was unloaded.
bool contains(const Interpreter& python, ProgramCounter pc) noexcept {
  return __atomic_load_n(&python.module, __ATOMIC_ACQUIRE) != 0 && to_address(pc) >= python.module_begin &&
         to_address(pc) < python.module_end;
}

/// Whether what key_exists() and note_runtime() read can be read. Probes it once in each invalidation epoch, which is
/// raised when modules are unloaded.
bool runtime_is_readable(Interpreter& python) noexcept {
  const std::uint64_t epoch = unwind::invalidation_epoch();
  if (__atomic_load_n(&python.readable_epoch, __ATOMIC_RELAXED) == epoch) return true;
  if (!unwind::probe(python.runtime + python.layout->tss_key) || !unwind::probe(python.runtime + python.first_state))
    return false;
  __atomic_store_n(&python.readable_epoch, epoch, __ATOMIC_RELAXED);
  return true;
}

/// Whether the thread-local value `state` is a PyThreadState: it must belong to an interpreter that is on the
/// runtime's list. Reads only readable memory, because an unknown build may keep anything at the place of the key.
bool is_thread_state(const Interpreter& python, std::uint64_t state, ReadablePages& pages) noexcept {
  const Layout& layout = *python.layout;
  constexpr std::uint64_t kStateBytes = 192;  // beyond all members that are read
  if (!pages.object(state, kStateBytes)) return false;
  const auto wanted = load<std::uint64_t>(state + layout.interpreter);
  if (python.first_state == 0) return pages.object(wanted, sizeof(std::uint64_t));
  constexpr unsigned kMaxStates = 4096;
  auto each = load<std::uint64_t>(python.runtime + python.first_state);
  for (unsigned i = 0; i != kMaxStates && each != 0; ++i) {
    if (each == wanted) return true;
    if (!pages.object(each + python.next_state, sizeof(std::uint64_t))) return false;
    each = load<std::uint64_t>(each + python.next_state);
  }
  return false;
}

/// Whether `address` is in a frame of the current stack, outside of this function's.
bool on_current_stack(std::uint64_t address, unwind::StackBounds& bounds) noexcept {
  const std::uint64_t sp = to_address(arch::stack_pointer());
  bounds.begin(sp);
  return address > sp && address % 8 == 0 && bounds.readable(address);
}

/// Up to 3.11, the key has the state of a thread's first interpreter. In another one of the thread, the state with
/// the lock is this thread's. Returns `state` or that one. The holder may be another thread's, which may free it at
/// any time, so only readable memory is read. A state has the id of the thread that has created it, but another one
/// may execute it: then the structure of its innermost evaluation is on another stack. Before 3.10 there is none.
[[gnu::noinline]] std::uint64_t state_with_lock(const Interpreter& python, std::uint64_t state, ReadablePages& pages,
                                                unwind::StackBounds& bounds) noexcept {
  const Layout& layout = *python.layout;
  const auto holder = load<std::uint64_t>(python.runtime + layout.lock_holder);
  if (holder == state || holder == 0) return state;
  if (!pages.object(holder + layout.thread_id, sizeof(std::uint64_t))) return state;
  if (load<std::uint64_t>(holder + layout.thread_id) != arch::thread_pointer()) return state;
  if (layout.cframe == 0) return holder;
  if (!pages.object(holder + layout.cframe, sizeof(std::uint64_t))) return state;
  return on_current_stack(load<std::uint64_t>(holder + layout.cframe), bounds) ? holder : state;
}

}  // namespace

void module_defined(const unwind::ModuleInfo& module, recorder::Stream& stream) noexcept {
  if (!recorder::g_settings.python) return;
  const Symbols symbols(module);
  const std::uint64_t runtime = symbols.find("_PyRuntime");
  if (runtime == 0) return;
  const std::uint32_t version = version_of(symbols);
  Interpreter result{};
  const char* reason = examine(module, symbols, runtime, version, result);
  result.module_begin = module.map_begin;
  result.module_end = module.map_end;
  result.readable_epoch = unwind::kNoEpoch;
  if (reason == nullptr && !add(result, module.id)) reason = "the program has loaded too many interpreters";
  stream.append_text(TextKind::kPythonInterpreter, version, 0, reason, reason == nullptr ? 0 : text_length(reason));
  if (reason != nullptr) write_note(stream, version, reason);
}

bool is_static(std::uint64_t object) noexcept {
  const std::uint32_t count = __atomic_load_n(&detail::interpreter_count, __ATOMIC_ACQUIRE);
  for (std::uint32_t i = 0; i != count && i != kMaxInterpreters; ++i) {
    const Interpreter& python = detail::interpreters[i];
    if (__atomic_load_n(&python.module, __ATOMIC_ACQUIRE) != 0 && object >= python.module_begin &&
        object < python.module_end)
      return true;
  }
  return false;
}

void note_unread_event(ProgramCounter caller) noexcept {
  for (Interpreter& python : detail::interpreters)
    if (contains(python, caller) && runtime_is_readable(python)) note_runtime(python, key_exists(python));
}

bool begins_to_free_frames(ProgramCounter caller) noexcept {
  for (Interpreter& python : detail::interpreters) {
    if (!contains(python, caller)) continue;
    const std::uint64_t finalizing = python.runtime + python.layout->finalizing;
    if (!unwind::probe(finalizing) || load<std::uint64_t>(finalizing) == 0) continue;
    const std::uint32_t runtime = __atomic_load_n(&python.restarts, __ATOMIC_RELAXED) + 1;
    return __atomic_exchange_n(&python.finalized_runtime, runtime, __ATOMIC_RELAXED) != runtime;
  }
  return false;
}

bool is_finalized_by_another(const Interpreter& python, std::uint64_t thread_state) noexcept {
  const auto finalizing = load<std::uint64_t>(python.runtime + python.layout->finalizing);
  return finalizing != 0 && finalizing != thread_state;
}

std::uint64_t thread_state(Interpreter& python, ReadablePages& pages, unwind::StackBounds& bounds,
                           CheckedState& checked) noexcept {
  const Layout& layout = *python.layout;
  bool has_key = true;
  std::uint64_t state = 0;
  if (layout.tss_key == 0) {
    state = detail::value_of(python.state_variable, pages);
  } else {
    const auto key = load<std::uint64_t>(python.runtime + layout.tss_key);
    has_key = static_cast<std::uint32_t>(key) != 0;
    if (has_key) state = reinterpret_cast<std::uint64_t>(detail::thread_value(static_cast<unsigned>(key >> 32)));
    if (layout.lock_holder != 0 && state != 0) state = state_with_lock(python, state, pages, bounds);
  }
  if (state != checked.state || !checked.valid) [[unlikely]] {
    note_runtime(python, has_key);
    checked = {state, state != 0 && is_thread_state(python, state, pages)};
    if (!checked.valid) return 0;
  }
  if (is_finalized_by_another(python, state)) return 0;
  // A state of another thread is not used: its frames change meanwhile.
  return load<std::uint64_t>(state + layout.thread_id) == arch::thread_pointer() ? state : 0;
}

}  // namespace heapprof::python
