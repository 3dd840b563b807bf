// The allocators of a recorded process, as far as the trace shows: libraries by their file names, embedded allocators
// by the recorder's notes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "analyzer/allocators/allocator_model.h"
#include "analyzer/model/profile.h"

namespace heapprof::allocators {

class ProcessAllocators {
 public:
  explicit ProcessAllocators(const model::Profile& profile);

  /// Adapts the model to how the allocator was configured, as far as the addresses of blocks show it; for all blocks
  /// that are live at a moment, then finish_blocks(). jemalloc gives blocks of more than 8 bytes addresses that are
  /// multiples of 16, or of 8 if its quantum is 8.
  void see_block(std::uint64_t address, std::uint64_t requested_bytes) noexcept {
    if (requested_bytes <= 8 || in_brk_heap(address)) return;
    ++blocks_;
    odd_blocks_ += address % 16 == 8;
  }
  void finish_blocks();
  /// Whether the allocator is a jemalloc with a quantum of 8.
  bool has_small_quantum() const noexcept { return small_quantum_; }
  /// What finish_blocks() does when blocks show such a quantum. Of other allocators without effect.
  void set_small_quantum();

  /// The allocator of the process: that of libc unless another one was found.
  Allocator main() const noexcept { return main_->allocator(); }
  /// The model of the allocator that a block at `address` is of. jemalloc and mimalloc take no memory from brk, so
  /// what is in that range was allocated by libc, for example by libraries beside an embedded allocator of Rust.
  const AllocatorModel& of(std::uint64_t address) const noexcept {
    return libc_ != nullptr && in_brk_heap(address) ? *libc_ : *main_;
  }
  /// Whether `address` is in the range that brk extends: behind the program, far below all mappings. False if the
  /// program's module is not in the trace.
  bool in_brk_heap(std::uint64_t address) const noexcept { return address - brk_begin_ < brk_bytes_; }

  /// The file of main(), if it is a library of its own; empty: libc, or an allocator within the program.
  const std::string& library() const noexcept { return library_; }

  /// A sentence for the user; empty: nothing to note.
  const std::string& note() const noexcept { return note_; }

 private:
  std::unique_ptr<const AllocatorModel> main_;
  std::unique_ptr<const AllocatorModel> libc_;  // null: all blocks are main_'s
  std::uint64_t blocks_ = 0;                    ///< seen, of more than 8 bytes
  std::uint64_t odd_blocks_ = 0;                ///< of these: at addresses that are no multiples of 16
  bool small_quantum_ = false;
  std::uint64_t brk_begin_ = 0;
  std::uint64_t brk_bytes_ = 0;
  std::string library_;
  std::string note_;
};

}  // namespace heapprof::allocators
