// Tables of figures and names.
#include <catch2/catch.hpp>

#include "analyzer/cli/text/text_columns.h"

using namespace heapprof;
using namespace heapprof::cli;

namespace {

const std::vector<Column> kColumns = {{"live"},
                                      {"freed", Column::Kind::kFigure, 1},
                                      {"over time", Column::Kind::kText, 2},
                                      {"function", Column::Kind::kFunction},
                                      {"line", Column::Kind::kLocation}};

std::string table(std::size_t width, const std::vector<std::vector<Cell>>& rows, bool unicode = false) {
  TextPage page({.width = width, .unicode = unicode});
  write_columns(page, kColumns, rows);
  return page.text();
}

}  // namespace

TEST_CASE("figures are aligned right, names left, and lines end without blanks") {
  CHECK(table(100, {{{"8.07 MiB"}, {"90%"}, {"__#"}, {"Store::open"}, {"store.cpp:13"}},
                    {{"0.93 MiB"}, {"5%"}, {"_#"}, {"f"}, {""}}}) ==
        "      live  freed  over time  function     line\n"
        "  8.07 MiB    90%  __#        Store::open  store.cpp:13\n"
        "  0.93 MiB     5%  _#         f\n");
}

TEST_CASE("columns without any text are left out") {
  CHECK(table(100, {{{"1 B"}, {""}, {""}, {"f"}, {"f.c:1"}}}) ==
        "  live  function  line\n"
        "   1 B  f         f.c:1\n");
}

TEST_CASE("in a narrow line figures are left out, which is said, then names are shortened") {
  const std::vector<std::vector<Cell>> rows = {{{"8.07 MiB"},
                                                {"90%"},
                                                {"_____#"},
                                                {"company::storage::SessionStore::open_session"},
                                                {"session_store.cpp:13"}}};
  CHECK(table(60, rows) ==
        "      live  function                        line\n"
        "  8.07 MiB  SessionStore::open_session      ..._store.cpp:13\n");
  CHECK(table(50, rows, true) ==
        "      live  function                  line\n"
        "  8.07 MiB  open_session              …tore.cpp:13\n"
        "  (too narrow for: freed, over time)\n");
}

TEST_CASE("cells are coloured where the text is") {
  TextPage page({.colour = true, .width = 60, .unicode = false});
  write_rows(page, {{"", Column::Kind::kText}, {""}}, {{{"growing", TextColour::kWarning}, {"7"}}});
  CHECK(page.text() == "  \x1b[33mgrowing\x1b[0m  7\n");
}

TEST_CASE("a whole name is never cut, and takes no space from the columns before it") {
  TextPage page({.width = 60, .unicode = false});
  const std::string name(100, 'x');
  write_columns(page, {{"live"}, {"line", Column::Kind::kLocation}, {"function", Column::Kind::kWhole}},
                {{{"8.07 MiB"}, {"store.cpp:13"}, {name}}, {{"0.93 MiB"}, {""}, {"f"}}});
  CHECK(page.text() ==
        "      live  line          function\n"
        "  8.07 MiB  store.cpp:13  " +
            name + "\n" + "  0.93 MiB                f\n");
}

TEST_CASE("with full names, the names are the last column and never cut") {
  TextPage page({.width = 60, .unicode = false, .full_names = true});
  const std::string name =
      "company::storage::Sessions<std::string, std::less<std::string>>::open(std::string const&)";
  write_columns(page, kColumns, {{{"1 B"}, {""}, {""}, {name}, {"f.c:1"}}});
  CHECK(page.text() == "  live  line   function\n   1 B  f.c:1  " + name + "\n");
}

TEST_CASE("where there is no room for a name and a location, the location is left out") {
  TextPage page({.width = 40, .unicode = false});
  write_columns(
      page,
      {{"#"}, {"overhead"}, {"alone"}, {"function", Column::Kind::kFunction}, {"line", Column::Kind::kLocation}},
      {{{"1"}, {"146.1 KiB"}, {"56.0 KiB"}, {"Store::open_session"}, {"store.cpp:13"}}});
  CHECK(page.text() ==
        "  #   overhead     alone  function\n"
        "  1  146.1 KiB  56.0 KiB  open_session\n"
        "  (too narrow for: line)\n");
}

TEST_CASE("the name of a caller as a location loses its outer scopes before its end") {
  TextPage page({.width = 40, .unicode = true});
  write_columns(page, {{"function", Column::Kind::kFunction}, {"line", Column::Kind::kLocation}},
                {{{"libz.so+0x12345"}, {"from company::storage::unpack"}}});
  CHECK(page.text().find("from unpack") != std::string::npos);
}

TEST_CASE("a stack that is too long keeps the frames by which it differs") {
  const auto fitted = [](std::size_t width, const std::string& stack) {
    TextPage page({.width = width, .unicode = true});
    write_columns(page, {{"stack", Column::Kind::kFunction}}, {{{stack}}});
    return page.text().substr(page.text().find('\n') + 1);
  };
  const std::string stack = "Cache::put < … < Loader::load_table < Server::start < main";
  CHECK(fitted(80, stack) == "  " + stack + "\n");
  CHECK(fitted(58, stack) == "  Cache::put < … < Loader::load_table < Server::start < …\n");
  CHECK(fitted(44, stack) == "  Cache::put < … < Loader::load_table < …\n");
  CHECK(fitted(36, stack) == "  Cache::put < … < load_table\n");
  CHECK(fitted(24, stack) == "  put < … < load_table\n");
  CHECK(fitted(36, "put (0x1234567) < … < Loader::load_table < main") == "  put (0x1234567) < … < load_table\n");
  CHECK(fitted(30, "put (0x1234567) < … < load_table") == "  put (0x1234567) < … < load_…\n");
  // Without an ellipsis, the first two.
  CHECK(fitted(20, "put < load < start < main") == "  put < load < …\n");
}
