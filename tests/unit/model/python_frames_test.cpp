// The names of lines of Python.
#include "analyzer/model/python_frames.h"

#include <catch2/catch.hpp>
#include <memory>

#include "common/trace_format.h"
#include "tests/support/python_text.h"

using namespace heapprof;
using heapprof::test::python_code_text;

TEST_CASE("Functions of one name in one file are distinguished by their first lines") {
  trace::PythonDefinitions python;
  python.add_piece(1, 0, python_code_text("/app/job.py", "__init__", 3));
  python.add_piece(2, 0, python_code_text("/app/job.py", "__init__", 20));
  python.add_piece(3, 0, python_code_text("/app/job.py", "__init__", 3));  // compiled again
  model::PythonFrames frames(python);
  const std::uint64_t first = frames.unified(python_offset(1, 5));
  const std::uint64_t second = frames.unified(python_offset(2, 5));
  CHECK(first != second);
  CHECK(frames.unified(python_offset(3, 5)) == first);
  const std::shared_ptr<const symbols::ModuleSymbols> symbols = frames.symbols();
  REQUIRE(symbols->find(first) != nullptr);
  REQUIRE(symbols->find(second) != nullptr);
  CHECK(symbols->find(first)->front().definition_line == 3);
  CHECK(symbols->find(second)->front().definition_line == 20);
}
