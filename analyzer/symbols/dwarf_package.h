// Packages of split debug information (PROGRAM.dwp): all .dwo files of a program in one, with an index by unit id.
// DWARF 5, section 7.3.5; packages of DWARF 4 (index version 2) are not read.
//
// elfutils reads packages from version 0.191 on, and Debian 12 has an older one. So each unit that is asked for is
// given to libdw as an ELF file of its own, in memory: section headers that point into the mapped package at the
// unit's contributions, under the names of ordinary debug sections, and the unit's part of the program's .debug_addr.
// Without the link between skeleton and split unit, libdw takes the unit's base address for 0.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace heapprof::symbols {

class DwarfPackage {
 public:
  /// Null: there is no such file, or it is no package.
  static std::unique_ptr<DwarfPackage> open(const std::string& path);
  ~DwarfPackage();
  DwarfPackage(const DwarfPackage&) = delete;
  DwarfPackage& operator=(const DwarfPackage&) = delete;

  /// The split unit of `skeleton`, whose id is `unit_id`, in `die`, which lives as long as this object. False: it is
  /// not in here, or broken. Calls for one skeleton give one unit.
  bool find(Dwarf* main, Dwarf_Die& skeleton, std::uint64_t unit_id, Dwarf_Die& die);

 private:
  struct Part {
    std::uint64_t offset = 0, size = 0;  ///< in the package
  };
  struct Unit;
  struct Row {
    Part parts[9];  ///< by DW_SECT_ number
    std::unique_ptr<Unit> unit;
    bool tried = false;
  };

  DwarfPackage();
  bool read(int fd);
  bool read_index(const std::vector<unsigned char>& index, const Part (&sections)[9]);

  int fd_ = -1;
  std::uint64_t file_bytes_ = 0;
  Part strings_;
  std::unordered_map<std::uint64_t, Row> rows_;
};

}  // namespace heapprof::symbols
