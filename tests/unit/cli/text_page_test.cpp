// The parts of text output.
#include <catch2/catch.hpp>

#include "analyzer/cli/text/text_page.h"

using namespace heapprof;
using namespace heapprof::cli;

TEST_CASE("a table aligns its columns right, and the last one left") {
  TextPage text({});
  text.table({"blocks", "call site"}, {{"7", "main"}, {"1,234,567", "load"}});
  CHECK(text.text() ==
        "     blocks  call site\n"
        "          7  main\n"
        "  1,234,567  load\n");
}

TEST_CASE("a row has a label, a figure and an explanation") {
  TextPage text({});
  text.row("peak", "7.00 KiB", "in 3 blocks");
  CHECK(text.text() == "  peak         7.00 KiB  in 3 blocks\n");
}

TEST_CASE("text is bold only where colours are shown") {
  CHECK(TextPage({.colour = false}).bold("x") == "x");
  CHECK(TextPage({.colour = true}).bold("x") == "\x1b[1mx\x1b[0m");
}

TEST_CASE("a bar is as long as its share of the columns") {
  const TextPage text({.unicode = false});
  const std::string full = text.bar(8, 8, 8);
  const std::string half = text.bar(4, 8, 8);
  CHECK(full.size() == 8);
  CHECK(half.substr(0, 4) == full.substr(0, 4));
  CHECK(half.find_last_not_of(' ') == 3);
  CHECK(text.bar(0, 8, 8).find_first_not_of(' ') == std::string::npos);
}

TEST_CASE("a table leaves out columns that do not fit, and clips the last") {
  TextPage text({.width = 36, .unicode = false});
  text.table({"a", "wide column", "another one", "name"}, {{"1", "2", "3", "a name that is too long for the line"}});
  CHECK(text.text() ==
        "  a  wide column  name\n"
        "  1            2  a name that is ...\n");
}

TEST_CASE("a list item is wrapped and indented") {
  TextPage text({.width = 20});
  text.list_item("one two three four five");
  CHECK(text.text() ==
        "  - one two three\n"
        "    four five\n");
}

TEST_CASE("clipped text ends, or begins, with an ellipsis") {
  const TextPage fine({});
  CHECK(fine.clip("abcdef", 6) == "abcdef");
  CHECK(fine.clip("abcdef", 4) == "abc…");
  CHECK(fine.clip_front("abcdef", 4) == "…def");
  const TextPage ascii({.unicode = false});
  CHECK(ascii.clip("abcdef", 5) == "ab...");
  CHECK(ascii.clip_front("abcdef", 5) == "...ef");
}

TEST_CASE("a narrow page wraps sentences, which keep their indentation, and headings") {
  TextPage page({.width = 40, .unicode = false});
  page.heading("By function, own code only, sorted by total");
  page.line("  +12 more, 3.00 KiB of self; --top 0 prints all");
  page.line("  short                                           ");
  page.row("peak", "7.00 KiB", "in 3 blocks, at 30.0 ms of the recording");
  page.row("live", "1.00 KiB", "in 1 block");
  CHECK(page.text() ==
        "\nBy function, own code only, sorted by\ntotal\n"
        "  +12 more, 3.00 KiB of self; --top 0\n  prints all\n"
        "  short\n"
        "  peak         7.00 KiB\n    in 3 blocks, at 30.0 ms of the\n    recording\n"
        "  live         1.00 KiB  in 1 block\n");
}

TEST_CASE("a command is beside its label, or below it in lines that a shell reads as one") {
  TextPage text({.width = 40});
  text.command("Callers", "heapprof callers TRACE load");
  text.command("Callers", "heapprof callers TRACE 'a (b)' --cost leaked --from 2s");
  text.command("All", "heapprof report TRACE --function 'a long name, with blanks and a '\\'' in it'");
  CHECK(text.lines() == std::vector<std::string>{
                            "Callers: heapprof callers TRACE load",
                            "Callers:",
                            "  heapprof callers TRACE 'a (b)' \\",
                            "      --cost leaked --from 2s",
                            "All:",
                            "  heapprof report TRACE --function \\",
                            "      'a long name, with blanks and a '\\'' in it'",
                        });
}

TEST_CASE("the lines of a page are those of its text") {
  TextPage text({.width = 20});
  CHECK(text.lines().empty());
  text.line("a").line().line("b");
  CHECK(text.lines() == std::vector<std::string>{"a", "", "b"});
}
