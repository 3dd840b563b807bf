#include "analyzer/cli/text/call_sites.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>
#include <unordered_map>

#include "analyzer/symbols/return_type.h"

namespace heapprof::cli {
namespace {

std::string key_of(const Frame& frame) {
  return (frame.function.empty() ? unresolved_name(frame) : frame.function) + '\n' + frame.module->path;
}

/// Whether `name` belongs to Rust's standard libraries: a path into one, or a trait method of one of their types, of
/// a primitive type or of a type parameter (`<T as alloc::slice::hack::ConvertVec>::to_vec`). A method of the
/// program's type (`<mine::Type as core::clone::Clone>::clone`) does not.
bool is_of_rust_libraries(std::string_view name) {
  static constexpr std::string_view kPaths[] = {
      "alloc::",    "core::",    "hashbrown::", "std::alloc::", "std::collections::",
      "std::sys::", "std::io::", "std::path::", "std::ffi::"};
  const auto is_path = [](std::string_view path) {
    return std::any_of(std::begin(kPaths), std::end(kPaths),
                       [&](std::string_view of) { return path.starts_with(of); });
  };
  if (is_path(name)) return true;
  if (!name.starts_with('<')) return false;
  name.remove_prefix(1);
  while (!name.empty() && (name.front() == '&' || name.front() == '[' || name.front() == '(' || name.front() == '<'))
    name.remove_prefix(1);
  for (const std::string_view word : {"mut ", "dyn ", "*const ", "*mut "})
    if (name.starts_with(word)) name.remove_prefix(word.size());
  if (is_path(name)) return true;
  const std::string_view word =
      name.substr(0, name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"));
  if (name.substr(word.size()).starts_with("::")) return false;
  static constexpr std::string_view kPrimitive[] = {"str", "bool", "char",  "u8",  "u16", "u32",
                                                    "u64", "u128", "usize", "i8",  "i16", "i32",
                                                    "i64", "i128", "isize", "f32", "f64"};
  return (word.size() == 1 && std::isupper(static_cast<unsigned char>(word.front()))) ||
         std::find(std::begin(kPrimitive), std::end(kPrimitive), word) != std::end(kPrimitive);
}

bool starts_with_any(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

constexpr std::string_view kAllocators[] = {"operator new",
                                            "__gnu_cxx::new_allocator<",
                                            "__gnu_cxx::__alloc_traits<",
                                            "__rust_alloc",
                                            "__rust_realloc",
                                            "__rdl_",
                                            "__rg_"};

/// Whether `name` is a container, allocator or smart pointer of libstdc++ or libc++, or a helper of these.
bool is_of_cxx_library(std::string_view name) {
  constexpr std::string_view kStd = "std::";
  if (!name.starts_with(kStd)) return false;
  name.remove_prefix(kStd.size());
  for (const std::string_view inner : {"__cxx11::", "__1::", "__debug::", "__cxx1998::"})
    if (name.starts_with(inner)) name.remove_prefix(inner.size());
  static constexpr std::string_view kNames[] = {
      // Allocators, and helpers that construct objects.
      "allocator<", "allocator_traits<", "__new_allocator<", "__allocate_guarded<", "_Construct<", "construct_at<",
      "uninitialized_", "__uninitialized_", "__do_uninit_", "__relocate_a",
      // Containers.
      "vector<", "_Vector_base<", "_Bvector_base<", "basic_string<", "operator+<", "__str_concat<", "deque<",
      "_Deque_base<", "list<", "_List_base<", "forward_list<", "_Fwd_list_base<", "map<", "multimap<", "set<",
      "multiset<", "_Rb_tree<", "unordered_map<", "unordered_multimap<", "unordered_set<", "unordered_multiset<",
      "_Hashtable<", "__detail::", "queue<", "priority_queue<", "stack<",
      // Smart pointers.
      "make_unique", "make_shared", "allocate_shared", "shared_ptr<", "__shared_ptr<", "__shared_count<",
      // Of libc++ only.
      "__libcpp_", "__split_buffer<", "__tree<", "__hash_table<"};
  return starts_with_any(name, kNames);
}

}  // namespace

bool is_allocation_machinery(const std::string& function) {
  static constexpr std::string_view kExact[] = {
      "malloc", "calloc", "realloc",  "reallocarray", "memalign",  "posix_memalign", "aligned_alloc",
      "valloc", "strdup", "__strdup", "strndup",      "__strndup", "xstrdup"};
  for (const std::string_view name : kExact)
    if (function == name) return true;
  if (is_of_rust_libraries(function)) return true;
  // Wrappers of malloc: xmalloc, g_realloc_n, zcalloc_usable, _PyObject_Malloc. Not methods and templates.
  if (function.find_first_of("<:(") == std::string::npos) {
    std::string lower = function;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const char* name : {"malloc", "calloc", "realloc"})
      if (lower.find(name) != std::string::npos) return true;
  }
  // Methods with exactly these names (os::malloc), and wrappers of the Java and JavaScript engines.
  if (const std::string_view plain = std::string_view(function).substr(0, function.find('('));
      plain.find('<') == std::string_view::npos) {
    const std::size_t scope = plain.rfind("::");
    const std::string_view last = scope == std::string_view::npos ? plain : plain.substr(scope + 2);
    for (const std::string_view one :
         {"malloc", "calloc", "realloc", "AllocateHeap", "ReallocateHeap", "AlignedAllocWithRetry"})
      if (last == one) return true;
  }
  // The return type may be a container, or the program's own.
  const std::string_view name = symbols::without_return_type(function);
  return is_of_cxx_library(name) || starts_with_any(name, kAllocators);
}

std::size_t frames_of_machinery(const std::vector<Frame>& stack) {
  const auto at = std::find_if(stack.begin(), stack.end(),
                               [](const Frame& frame) { return !is_allocation_machinery(frame.function); });
  return at == stack.end() ? stack.size() - 1 : static_cast<std::size_t>(at - stack.begin());
}

const Frame& call_site_of(const std::vector<Frame>& stack) { return stack[frames_of_machinery(stack)]; }

namespace {

/// Finds the frame of a stack's call site from that of its caller's stack. The frames of a code address are named and
/// examined once, in however many nodes it is.
class SiteFrames {
 public:
  SiteFrames(const model::Profile& profile, const StackNames& names)
      : profile_(profile), names_(names), of_address_(profile.addresses.size()) {}

  /// The number of the call site's frame of the stack `node`; kNoIndex: the stack has no frames. `of_caller`: the
  /// same of the node's parent.
  std::uint32_t of(std::uint32_t node, std::uint32_t of_caller) {
    const std::uint32_t address = profile_.nodes[node].address;
    if (address == model::kNoIndex) return of_caller;
    Frames& frames = of_address_[address];
    if (frames.outermost == model::kNoIndex) examine(node, frames);
    if (frames.site != model::kNoIndex) return frames.site;
    return of_caller != model::kNoIndex ? of_caller : frames.outermost;
  }

  const Frame& frame(std::uint32_t number) const { return frames_[number]; }
  std::size_t size() const noexcept { return frames_.size(); }

 private:
  /// Numbers of frames of an address.
  struct Frames {
    std::uint32_t site = model::kNoIndex;  ///< the innermost outside the machinery; kNoIndex: there is none
    std::uint32_t outermost = model::kNoIndex;
  };

  std::uint32_t add(const Frame& frame) {
    frames_.push_back(frame);
    return static_cast<std::uint32_t>(frames_.size() - 1);
  }
  void examine(std::uint32_t node, Frames& frames) {
    const std::vector<Frame> all = names_.frames_of_node(node);
    const auto site = std::find_if(all.begin(), all.end(),
                                   [](const Frame& frame) { return !is_allocation_machinery(frame.function); });
    frames.outermost = add(all.back());
    if (site != all.end()) frames.site = add(*site);
  }

  const model::Profile& profile_;
  const StackNames& names_;
  std::vector<Frames> of_address_;
  std::vector<Frame> frames_;
};

}  // namespace

CallSites group_by_site(const model::Profile& profile, const StackNames& names,
                        const std::vector<std::uint32_t>& nodes) {
  std::vector<bool> wanted(profile.nodes.size(), false);
  for (std::uint32_t node : nodes)
    for (; node != 0 && !wanted[node]; node = profile.nodes[node].parent) wanted[node] = true;
  SiteFrames frames(profile, names);
  std::vector<std::uint32_t> frame_of_node(profile.nodes.size(), model::kNoIndex);
  for (std::uint32_t node = 1; node < profile.nodes.size(); ++node)
    if (wanted[node]) frame_of_node[node] = frames.of(node, frame_of_node[profile.nodes[node].parent]);

  CallSites result;
  result.site_of_node.assign(profile.nodes.size(), model::kNoIndex);
  std::unordered_map<std::string, std::uint32_t> known;
  std::vector<std::uint32_t> site_of_frame(frames.size() + 1, model::kNoIndex);  // the last: stacks without frames
  for (const std::uint32_t node : nodes) {
    const bool has_frames = frame_of_node[node] != model::kNoIndex;
    std::uint32_t& site = has_frames ? site_of_frame[frame_of_node[node]] : site_of_frame.back();
    if (site == model::kNoIndex) {
      const Frame frame = has_frames ? frames.frame(frame_of_node[node]) : Frame{};
      const auto [at, fresh] = known.try_emplace(has_frames ? key_of(frame) : std::string(),
                                                 static_cast<std::uint32_t>(result.sites.size()));
      if (fresh) result.sites.push_back({frame, node});
      site = at->second;
    }
    result.site_of_node[node] = site;
  }
  return result;
}

std::string named_caller(const StackNames& names, std::uint32_t node) {
  const std::vector<Frame> stack = names.stack(node);
  if (stack.empty()) return {};
  const auto at = std::find_if(stack.begin() + static_cast<std::ptrdiff_t>(frames_of_machinery(stack)), stack.end(),
                               [](const Frame& caller) { return !caller.function.empty(); });
  return at == stack.end() ? std::string() : at->function;
}

}  // namespace heapprof::cli
