#include "harness.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <cstdio>
#include <mutex>

namespace unwind_test {

namespace {
std::mutex g_mutex;
std::map<ModuleId, std::vector<Tree::Module>> g_modules;
}  // namespace

NodeId Tree::intern(void* context, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags) {
  auto& tree = *static_cast<Tree*>(context);
  ++tree.interned;
  const Node node{parent, module, offset, flags};
  const auto [at, inserted] = tree.ids_.try_emplace(node, NodeId{static_cast<std::uint32_t>(tree.nodes_.size() + 1)});
  if (inserted) tree.nodes_.push_back(node);
  return at->second;
}

void Tree::define_module(void* context, const unwind::ModuleInfo& module) {
  static_cast<void>(context);
  const std::lock_guard lock(g_mutex);
  g_modules[module.id].push_back({module.map_begin, module.map_end, module.load_bias,
                                  std::string(reinterpret_cast<const char*>(module.build_id), module.build_id_bytes),
                                  module.path, module.main});
}

std::map<ModuleId, std::vector<Tree::Module>> Tree::modules() {
  const std::lock_guard lock(g_mutex);
  return g_modules;
}

Stack resolve(const Tree& tree, NodeId id) {
  Stack stack;
  stack.node = id;
  while (id != NodeId::kNone) {
    const Tree::Node& node = tree.at(id);
    if (node.module == ModuleId::kTruncationRoot) {
      stack.reason = static_cast<Truncation>(node.offset);
    } else {
      std::uint64_t bias = 0;
      if (node.module != ModuleId::kAnonymous) {
        const std::lock_guard lock(g_mutex);
        bias = g_modules.at(node.module).back().load_bias;
      }
      stack.addresses.push_back(node.offset + bias);
      stack.by_frame_pointer.push_back((node.flags & kNodeByFramePointer) != 0);
    }
    id = node.parent;
  }
  return stack;
}

std::vector<std::uint64_t> oracle_stack(const arch::EntryRegisters& entry) {
  // Not a new one for each stack: to fill a megabyte takes longer than to walk most stacks.
  static thread_local std::vector<std::uint64_t> buffer(1u << 17);
  const std::size_t count = oracle_frames(entry, buffer.data(), buffer.size());
  return std::vector<std::uint64_t>(buffer.data(), buffer.data() + count);
}

std::vector<std::uint64_t> glibc_stack(const arch::EntryRegisters& entry) {
  static thread_local void* buffer[200000];
  const int count = backtrace(buffer, 200000);
  std::vector<std::uint64_t> addresses;
  bool inside = false;
  for (int i = 0; i < count; ++i) {
    const auto pc = reinterpret_cast<std::uint64_t>(buffer[i]);
    inside = inside || pc == to_address(entry.pc);
    if (inside) addresses.push_back(pc - 1);
  }
  return addresses;
}

std::string describe(const std::vector<std::uint64_t>& addresses) {
  std::string text;
  for (const std::uint64_t address : addresses) {
    char line[512];
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(address), &info);
    std::snprintf(line, sizeof line, "  %#llx %s (%s)\n", static_cast<unsigned long long>(address),
                  info.dli_sname != nullptr ? info.dli_sname : "?", info.dli_fname != nullptr ? info.dli_fname : "?");
    text += line;
    if (text.size() > 6000) return text + "  ...\n";
  }
  return text;
}

void Hook::compare(const arch::EntryRegisters& entry) {
  last = recorder_.capture(entry);
  ++result.stacks;
  result.frames += last.addresses.size();
  if (!compare_with_oracle) return;
  const std::vector<std::uint64_t> expected = oracle_stack(entry);
  if (same_stack(last.addresses, expected) && last.reason == Truncation::kNone) return;
  if (result.different++ == 0) {
    result.first_difference = "ours (reason " + std::to_string(static_cast<unsigned>(last.reason)) + "):\n" +
                              describe(last.addresses) + "the oracle:\n" + describe(expected);
  }
}

}  // namespace unwind_test
