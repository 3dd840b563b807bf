// The code objects of Python that are on recorded stacks, each with a number to which nodes refer.
//
// The address of a code object does not identify it: the interpreter frees code objects and reuses their memory. From
// 3.12 on, each has a version that no other one has, so address and version are its identity, until the interpreter's
// counter overflows and the version is 0. Before, address and the number of frees that were noticed there do
// (freed_code.h). Without a version the content is compared: the file, the name, the first
// line and the line table, by a hash of 96 bits. Code objects of equal content have one number: that is what stacks
// show, and so a program that executes the same source again and again does not fill the trace.
//
// Lookups take no lock, and neither do additions: several threads may have Python frames at once, because only one
// thread executes Python, but the others may allocate. Two threads may give one content two numbers.
#pragma once

#include <cstdint>

#include "preload/python/interpreter.h"
#include "preload/python/readable_pages.h"
#include "preload/recorder/trace/stream.h"

namespace heapprof::python {

/// With what the functions below read the interpreter's memory.
struct CodeReader {
  const Interpreter& python;
  ReadablePages& pages;
};

/// Returns the number of the code object at `code`, from 1, after its record has been written to `stream` if that was
/// necessary; 0 if it is no code object, or if there is no memory or no number left. `version`: of the object; 0: it
/// has none. `interpreter`: identifies the PyInterpreterState, because each has its own versions. Precondition: a
/// frame of the calling thread refers to the object, and its own words can be read.
std::uint32_t code_number(const CodeReader& reader, std::uint64_t code, std::uint32_t version,
                          std::uint64_t interpreter, recorder::Stream& stream) noexcept;

/// A number that is equal only for code objects of equal content, for interpreters whose code objects have no
/// versions; 0: `code` is no code object, or it is being freed. Cheaper than code_number(): the interpreter stores a
/// hash of 64 bits in most texts. Precondition: as code_number().
std::uint64_t code_signature(const CodeReader& reader, std::uint64_t code) noexcept;

#ifdef HEAPPROF_CHECK_STACKS
/// A hash of what a trace has of the code object at `code`, not 0; 0: it is no code object, or it is being freed.
/// Precondition: as code_number().
std::uint32_t code_content_hash(const CodeReader& reader, std::uint64_t code) noexcept;
#endif

/// Empties the tables, in a forked child that begins its own trace. Call it while there is one thread.
void forget_code_objects() noexcept;

}  // namespace heapprof::python
