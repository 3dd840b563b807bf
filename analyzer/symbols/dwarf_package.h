// Packages of split DWARF (PROGRAM.dwp): all .dwo files of a program in one file, with an index by unit id (DWARF 5,
// section 7.3.5). Packages of DWARF 4 (index version 2) are not read.
//
// Debian 12 has elfutils 0.188, and packages need 0.191. Therefore libdw gets each requested unit as an ELF file of
// its own, in memory: section headers with the names of ordinary debug sections, which point to the unit's
// contributions in the mapped package, and the unit's contribution to the program's .debug_addr. Since such a split
// unit has no link to its skeleton unit, libdw takes its base address for 0.
#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/symbols/file_descriptor.h"

namespace heapprof::symbols {

class DwarfPackage {
 public:
  /// Null: the file does not exist, or is not a package.
  static std::unique_ptr<DwarfPackage> open(const std::string& path);
  ~DwarfPackage();
  DwarfPackage(const DwarfPackage&) = delete;
  DwarfPackage& operator=(const DwarfPackage&) = delete;

  /// Sets `die` to the split unit of `skeleton`, whose id is `dwo_id`; it is valid as long as this object. False: the
  /// package does not contain it, or it is damaged. Repeated calls give the same unit.
  bool find(Dwarf* main, Dwarf_Die& skeleton, std::uint64_t dwo_id, Dwarf_Die& die);

 private:
  /// Section kinds of an index, with the numbers DW_SECT_* of DWARF 5.
  enum SectionKind : std::uint8_t { kInfo = 1, kAbbrev = 3, kLine = 4, kStrOffsets = 6, kRnglists = 8, kKinds = 9 };
  struct Contribution {
    std::uint64_t offset = 0, size = 0;  ///< in the package
  };
  struct PackagedSection {
    SectionKind kind;
    const char* name_in_package;
    const char* name;
  };
  class UnitFile;
  struct Row {
    Contribution contributions[kKinds];
    std::unique_ptr<UnitFile> unit;
    bool opened = false;  ///< true with a null unit: it is damaged
  };

  static const PackagedSection kSections[5];

  explicit DwarfPackage(FileDescriptor file, std::uint64_t file_bytes);
  bool read();
  bool read_index(const std::vector<unsigned char>& index, const Contribution (&sections)[kKinds]);

  FileDescriptor file_;
  std::uint64_t file_bytes_;
  Contribution strings_;                                        ///< .debug_str.dwo, which all units share
  std::unordered_map<std::uint64_t, Row, ChosenKeyHash> rows_;  ///< by unit id
};

}  // namespace heapprof::symbols
