// Texts about Python: pieces of code objects, damaged and contradictory ones, and what indexes keep.
#include "analyzer/trace/events/python_code.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <unordered_map>

#include "analyzer/trace/merged_reader.h"
#include "tests/support/python_text.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::trace;
using heapprof::test::python_code_text;

namespace {

const std::string kCodeText =
    python_code_text("/app/job.py", "Job.run", 12, PythonLines::kLnotab, std::string_view("\x02\x01\x04\x02", 4));

}  // namespace

TEST_CASE("A code object is read from one piece, and from any number of them") {
  const std::size_t cut = GENERATE(std::size_t{0}, std::size_t{24}, std::size_t{30}, kCodeText.size());
  PythonDefinitions python;
  if (cut == 0) {
    python.add_piece(7, 0, kCodeText);
  } else {
    const std::size_t middle = cut + (kCodeText.size() - cut) / 2;
    python.add_piece(7, 0, kCodeText.substr(0, cut));
    python.add_piece(7, 1, kCodeText.substr(cut, middle - cut));
    python.add_piece(7, 2, kCodeText.substr(middle));
  }
  REQUIRE(python.codes().size() == 1);
  const PythonCode* const code = python.find(7);
  REQUIRE(code != nullptr);
  CHECK(code->file == "/app/job.py");
  CHECK(code->name == "Job.run");
  CHECK(code->first_line == 12);
  CHECK(code->lines == PythonLines::kLnotab);
  CHECK(code->table == std::string_view("\x02\x01\x04\x02", 4));
  CHECK(python.malformed() == 0);
}

TEST_CASE("A code object without one of its pieces does not exist") {
  PythonDefinitions python;
  python.add_piece(1, 0, kCodeText.substr(0, 30));  // its end is missing
  python.add_piece(2, 1, kCodeText.substr(30));     // its beginning is missing
  python.add_piece(3, 0, kCodeText.substr(0, 30));  // its middle is missing
  python.add_piece(3, 2, kCodeText.substr(40));
  CHECK(python.codes().empty());
  CHECK(python.find(1) == nullptr);
  CHECK(python.malformed() == 1);
}

TEST_CASE("Malformed code objects are counted and not used") {
  PythonDefinitions python;
  python.add_piece(1, 0, "short");
  python.add_piece(2, 0, kCodeText + "more");
  python.add_piece(0, 0, kCodeText);
  python.add_piece(std::uint64_t{1} << 32, 0, kCodeText);
  python.add_piece(3, 0, kCodeText.substr(0, 30));
  python.add_piece(3, 1, kCodeText.substr(30) + "more");
  CHECK(python.malformed() == 5);
  CHECK(python.codes().empty());
}

TEST_CASE("Of two code objects with one number the first is used") {
  PythonDefinitions python;
  python.add_piece(1, 0, kCodeText);
  python.add_piece(1, 0, kCodeText);
  CHECK(python.contradictory() == 0);
  python.add_piece(1, 0, python_code_text("/app/job.py", "other", 1));
  CHECK(python.contradictory() == 1);
  REQUIRE(python.codes().size() == 1);
  CHECK(python.codes()[0].name == "Job.run");
}

TEST_CASE("Few code objects are compared, also if their numbers were chosen for one bucket of a hash map") {
  constexpr std::uint32_t kObjects = 2'000;
  std::unordered_map<std::uint32_t, std::uint32_t> usual;
  for (std::uint32_t i = 0; i < kObjects; ++i) usual[i] = i;
  const std::uint64_t buckets = usual.bucket_count();
  const std::size_t first_bytes = GENERATE(std::size_t{30}, kCodeText.size());
  PythonDefinitions python;
  for (std::uint64_t i = 1; i <= kObjects; ++i) python.add_piece(i * buckets, 0, kCodeText.substr(0, first_bytes));
  CHECK(python.max_compared() > 0);
  CHECK(python.max_compared() < 30);
  if (first_bytes < kCodeText.size())
    for (std::uint64_t i = 1; i <= kObjects; ++i) python.add_piece(i * buckets, 1, kCodeText.substr(first_bytes));
  CHECK(python.codes().size() == kObjects);
  CHECK(python.malformed() == 0);
  REQUIRE(python.find(static_cast<std::uint32_t>(7 * buckets)) != nullptr);
  CHECK(python.find(static_cast<std::uint32_t>(7 * buckets))->name == "Job.run");
}

TEST_CASE("Versions of Python are written as Python writes them") {
  CHECK(version_text(0x030b07f0) == "3.11.7");
  CHECK(version_text(0x030e00a3) == "3.14.0a3");
  CHECK(version_text(0x030e00b1) == "3.14.0b1");
  CHECK(version_text(0x030e00c2) == "3.14.0rc2");
  CHECK(version_text(0x03080000) == "3.8");
  CHECK(version_text(0).empty());
}

TEST_CASE("What indexes keep about Python is what was read") {
  PythonDefinitions python;
  python.add_interpreter({0x030b07f0, ""});
  python.add_interpreter({0x030d00f0, "free-threaded build"});
  python.add_interpreter({0x030b07f0, ""});  // the same again
  CHECK(python.interpreters().size() == 2);
  python.add_piece(9, 0, kCodeText);
  python.add_piece(4, 0, python_code_text("b.py", "<module>", 1));
  python.add_piece(5, 0, "short");
  ByteWriter out;
  save(python, out);
  ByteReader in(out.bytes());
  const PythonDefinitions loaded = load_python(in);
  CHECK(loaded.interpreters() == python.interpreters());
  CHECK(loaded.codes() == python.codes());
  CHECK(loaded.find(4)->file == "b.py");
  CHECK(loaded.malformed() == 1);
}

TEST_CASE("Damaged bytes about Python are refused") {
  PythonDefinitions python;
  python.add_interpreter({0x030b07f0, ""});
  python.add_piece(9, 0, kCodeText);
  ByteWriter out;
  save(python, out);
  for (std::size_t size = 0; size < out.size(); ++size) {
    ByteReader in(out.bytes().first(size));
    CHECK_THROWS_AS(load_python(in), FormatError);
  }
}

TEST_CASE("Code objects are read from a trace") {
  test::TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(100, "main");
  main.text(TextKind::kPythonInterpreter, 0x030b07f0, 0, "");
  main.text(TextKind::kPythonCode, 1, 0, kCodeText.substr(0, 40));
  main.text(TextKind::kPythonCode, 1, 1, kCodeText.substr(40));
  main.node(1, 0, raw(ModuleId::kPython), python_offset(1, 3));
  main.alloc(10, 0x1000, 64, 1);
  const test::TemporaryFile path;
  trace.write(path.path());
  const TraceFile file(path.path());
  MergedReader reader(file);
  Batch batch;
  while (reader.next(batch)) {
  }
  const Definitions& definitions = reader.definitions();
  REQUIRE(definitions.python.interpreters().size() == 1);
  CHECK(definitions.python.interpreters()[0].version == 0x030b07f0);
  REQUIRE(definitions.python.codes().size() == 1);
  CHECK(definitions.python.codes()[0].name == "Job.run");
}
