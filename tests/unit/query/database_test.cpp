// A database whose table is made of numbers: what reaches the table, and what is refused.
#include "analyzer/query/database.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace heapprof::query;

namespace {

/// The numbers from 0 to 99, their squares, and an argument. Remembers what the last scan was asked for.
class Numbers : public Table {
 public:
  const char* name() const override { return "numbers"; }
  const char* help() const override { return "Numbers"; }
  std::span<const Column> columns() const override { return kColumns; }
  Estimate estimate(Columns equal, Columns) const override {
    return equal == 0 ? Estimate{100, 100} : Estimate{1, 1};
  }
  int order(Columns) const override { return 0; }
  std::unique_ptr<Cursor> open(std::span<const Constraint> constraints, Columns used) override {
    if (fails) throw std::runtime_error("the table fails");
    asked.assign(constraints.begin(), constraints.end());
    columns_read = used;
    ++scans;
    return std::make_unique<NumberCursor>(range_of(constraints, 0));
  }

  std::vector<Constraint> asked;
  Columns columns_read = 0;
  int scans = 0;
  bool fails = false;

 private:
  static constexpr Column kColumns[] = {
      {"number", "INTEGER", ""}, {"square", "INTEGER", ""}, {"name", "TEXT", ""}, {"argument", "", "", true}};

  class NumberCursor : public Cursor {
   public:
    explicit NumberCursor(const Range& range) : range_(range) {}
    bool next() override {
      do ++at_;
      while (at_ < 100 && !range_.contains(static_cast<std::uint64_t>(at_)));
      return at_ < 100;
    }
    void column(int column, const Result& result) const override {
      if (column == 0) result.signed_number(at_);
      if (column == 1) result.signed_number(at_ * at_);
      if (column == 2) result.text("n" + std::to_string(at_));
    }
    std::int64_t row_id() const override { return at_; }

   private:
    Range range_;
    std::int64_t at_ = -1;
  };
};

struct Fixture {
  Fixture() {
    auto table = std::make_unique<Numbers>();
    numbers = table.get();
    std::vector<std::unique_ptr<Table>> tables;
    tables.push_back(std::move(table));
    database =
        std::make_unique<Database>(std::move(tables), Database::Options{{}, [this] { return interrupted; }, {}});
  }
  /// The numbers of the first column.
  std::vector<std::int64_t> rows(const std::string& sql) {
    Statement statement = database->prepare(sql);
    std::vector<std::int64_t> result;
    while (statement.next()) result.push_back(statement.integer(0));
    return result;
  }
  std::string refusal(const std::string& sql) {
    try {
      database->prepare(sql);
    } catch (const SqlError& error) {
      return error.what();
    }
    return {};
  }

  Numbers* numbers = nullptr;
  bool interrupted = false;
  std::unique_ptr<Database> database;
};

using Numbers64 = std::vector<std::int64_t>;

}  // namespace

TEST_CASE_METHOD(Fixture, "constraints reach the table, and every row is tested again") {
  CHECK(rows("SELECT number FROM numbers WHERE number > 96.5 AND square < 9500") == Numbers64{97});
  CHECK(range_of(numbers->asked, 0).low == 96);  // one too many does no harm
  CHECK(range_of(numbers->asked, 1).high == 9500);
  CHECK(numbers->columns_read == (bit_of(0) | bit_of(1)));
  CHECK(rows("SELECT number FROM numbers WHERE name = 'n7'") == Numbers64{7});
  CHECK(can_be(numbers->asked, 2, "n7"));
  CHECK_FALSE(can_be(numbers->asked, 2, "n8"));
  CHECK(rows("SELECT number FROM numbers WHERE name = 'N7' COLLATE NOCASE") == Numbers64{7});
  CHECK(can_be(numbers->asked, 2, "n7"));
  CHECK(rows("SELECT number FROM numbers WHERE number = NULL").empty());
  CHECK(rows("SELECT number FROM numbers WHERE number < 9223372036854775807").size() == 100);
  CHECK(rows("SELECT number FROM numbers WHERE number > -1e300 AND number < 3") == Numbers64{0, 1, 2});
}

TEST_CASE_METHOD(Fixture, "a list is one scan, and an order that the table has is not sorted") {
  CHECK(rows("SELECT number FROM numbers WHERE number IN (SELECT 5 UNION SELECT 7 UNION SELECT NULL)") ==
        Numbers64{5, 7});
  CHECK(numbers->scans == 1);
  std::vector<std::int64_t> values;
  REQUIRE(numbers_of(numbers->asked, 0, values));
  CHECK(values == Numbers64{5, 7});
  std::string plan;
  Statement statement = database->prepare("EXPLAIN QUERY PLAN SELECT number FROM numbers ORDER BY number");
  while (statement.next()) plan += statement.bytes(3);
  CHECK(plan.find("TEMP B-TREE") == std::string::npos);
}

TEST_CASE_METHOD(Fixture, "a row has the same number in every scan, and no other row has it") {
  CHECK(rows("SELECT number FROM numbers WHERE number = 5 OR (number = 7 AND name = 'n7')") == Numbers64{5, 7});
  CHECK(numbers->scans == 2);
  CHECK(rows("SELECT number FROM numbers WHERE number = 7 OR (square = 49 AND name = 'n7')") == Numbers64{7});
  CHECK(rows("WITH some(n) AS (VALUES (98), (5), (7)) SELECT count(*) FROM some RIGHT JOIN numbers ON number = n") ==
        Numbers64{100});
  CHECK(rows("WITH some(n) AS (VALUES (98), (5), (7)) SELECT sum(number) FROM some RIGHT JOIN numbers ON number = n "
             "WHERE n IS NULL") == Numbers64{99 * 100 / 2 - 98 - 5 - 7});
}

TEST_CASE_METHOD(Fixture, "a statement knows the tables and columns that it reads") {
  CHECK(database->prepare("SELECT count(*) FROM Numbers").tables() == std::vector<const Table*>{numbers});
  CHECK(database->prepare("SELECT 1").tables().empty());
  CHECK(database->prepare("SELECT number AS n, 2 FROM numbers").columns() == std::vector<std::string>{"n", "2"});
  CHECK(rows("SELECT count(*) FROM numbers(3)") == Numbers64{100});
  REQUIRE(numbers->asked.size() == 1);
  CHECK(std::get<std::int64_t>(numbers->asked[0].values[0]) == 3);
}

TEST_CASE_METHOD(Fixture, "what does not only read is refused") {
  for (const char* const sql : {"INSERT INTO numbers (number) VALUES (1)",
                                "DELETE FROM numbers",
                                "UPDATE numbers SET number = 1",
                                "CREATE TABLE x (a)",
                                "CREATE TEMP TABLE x (a)",
                                "CREATE VIEW x AS SELECT 1",
                                "DROP TABLE numbers",
                                "ATTACH 'x' AS x",
                                "DETACH main",
                                "PRAGMA user_version = 3",
                                "PRAGMA temp_store_directory = '/'",
                                "BEGIN",
                                "SAVEPOINT x",
                                "VACUUM",
                                "VACUUM INTO 'x'",
                                "ANALYZE",
                                "SELECT load_extension('x')",
                                "SELECT 1; SELECT 2",
                                "SELECT 1; garbage",
                                "",
                                " ; ",
                                "-- nothing",
                                "SELECT nothing FROM numbers",
                                "SELECT ("}) {
    CAPTURE(sql);
    CHECK_FALSE(refusal(sql).empty());
  }
  CHECK(refusal("SELECT 1; -- the end").empty());
  CHECK(refusal("EXPLAIN SELECT 1").empty());
  CHECK(refusal("PRAGMA table_info(numbers)").empty());
  CHECK(refusal("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 5) SELECT x FROM c").empty());
}

TEST_CASE_METHOD(Fixture, "an error has its place in the text") {
  try {
    database->prepare("SELECT number, skware FROM numbers");
    FAIL("no error");
  } catch (const SqlError& error) {
    CHECK(std::string(error.what()) == "no such column: skware");
    CHECK(error.position() == 15U);
  }
}

TEST_CASE_METHOD(Fixture, "what the table throws arrives, and Ctrl-C ends a statement") {
  numbers->fails = true;
  CHECK_THROWS_WITH(rows("SELECT number FROM numbers"), "the table fails");
  numbers->fails = false;
  CHECK(rows("SELECT number FROM numbers WHERE number = 1") == Numbers64{1});
  interrupted = true;
  CHECK_THROWS_AS(rows("SELECT count(*) FROM numbers a, numbers b, numbers c, numbers d, numbers e"), Interrupted);
}
