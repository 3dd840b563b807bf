// What a capture needs of the recorder: functions that write the nodes of a stack, and the modules of its code.
#pragma once

#include <cstdint>

#include "common/ids.h"

namespace heapprof::unwind {

/// A loaded object. The pointers are valid during the call that passes it.
struct ModuleInfo {
  ModuleId id;
  std::uint64_t map_begin;  ///< first mapped address
  std::uint64_t map_end;
  std::uint64_t load_bias;  ///< address in memory minus address in the ELF file
  const std::uint8_t* build_id;
  std::uint32_t build_id_bytes;  ///< 0: the object has none
  const char* path;              ///< absolute; "[vdso]" for the vdso; the loader's name when the path is unknown
  bool main;                     ///< the program itself
};

/// In `node_flags` of Definitions::intern, beside kNode... of trace_format.h, and not part of the node: the frame was
/// interrupted by a signal, or a signal handler returns to it.
inline constexpr std::uint32_t kSignalNode = 1u << 31;

/// Functions by which a capture writes to the thread's stream. They are called on the capturing thread.
struct Definitions {
  void* context;  ///< passed to each of them
  /// Returns the node of (parent, module, offset), after adding it if necessary. Returns kNone if the tree cannot
  /// grow; the capture then returns kNone too. Called from the outermost frame to the innermost. `node_flags`:
  /// kNode... of trace_format.h, and kSignalNode.
  NodeId (*intern)(void* context, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t node_flags);
  /// Called before the first node of a module is interned, by the thread that finds the module first. When two
  /// threads find it at once both may call it, with the same id.
  void (*define_module)(void* context, const ModuleInfo& module);
  /// Returns the parent of the outermost frame that is kept of a stack that is deeper than Settings::max_depth, so
  /// that stacks that differ only in omitted frames have different nodes. `omitted`: a hash of these frames;
  /// `signal`: one of them has kSignalNode. Null: such stacks may have one node.
  NodeId (*intern_omitted)(void* context, std::uint64_t omitted, bool signal) = nullptr;
};

}  // namespace heapprof::unwind
