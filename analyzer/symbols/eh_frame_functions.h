// Ranges of functions by unwind information, which stripping keeps: the sorted table in .eh_frame_hdr (LSB 5.0,
// 10.6.2), and the .eh_frame entries (FDE) that it points to.
//
// Parts into which the compiler splits a function (such as .cold) have entries of their own and count as functions.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heapprof::symbols {

/// All addresses are those of the Dwfl_Module.
class EhFrameFunctions {
 public:
  /// Reads the main file of `module`, which must outlive the object.
  explicit EhFrameFunctions(Dwfl_Module* module);

  /// First addresses of all functions, sorted; empty if there is no table in the encoding that linkers use.
  const std::vector<std::uint64_t>& begins() const noexcept { return begins_; }

  /// First address of the function that contains `address`; 0: there is none, or its end is unknown.
  std::uint64_t begin_of(std::uint64_t address) const;

 private:
  struct Section {
    const unsigned char* bytes = nullptr;  ///< null: there is none
    std::size_t size = 0;
    std::uint64_t address = 0;
  };

  Section eh_frame_;
  std::vector<std::uint64_t> begins_;
  std::vector<std::uint64_t> fde_addresses_;  ///< of each begin
};

}  // namespace heapprof::symbols
