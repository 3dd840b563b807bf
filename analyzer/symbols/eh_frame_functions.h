// Where functions begin and end by a file's unwind information, which stripping leaves in place: the sorted table in
// .eh_frame_hdr (LSB 5.0, 10.6.2), and of single functions the entry in .eh_frame that it points to.
//
// The parts into which a compiler splits a function are functions here.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heapprof::symbols {

class EhFrameFunctions {
 public:
  /// Of the main file of `module`, which must outlive this.
  explicit EhFrameFunctions(Dwfl_Module* module);

  /// Sorted; empty when there is no table in the encodings that linkers write. Addresses of the Dwfl_Module.
  const std::vector<std::uint64_t>& begins() const noexcept { return begins_; }

  /// The begin of the function at `address`; 0: none, or it is not known where the last one before that ends.
  std::uint64_t begin_at(std::uint64_t address) const;

 private:
  struct Section {
    const unsigned char* bytes = nullptr;  ///< null: there is none
    std::size_t size = 0;
    std::uint64_t address = 0;
  };

  Section frames_;                      ///< .eh_frame
  std::vector<std::uint64_t> begins_;
  std::vector<std::uint64_t> entries_;  ///< of each begin, the address of its entry
};

}  // namespace heapprof::symbols
