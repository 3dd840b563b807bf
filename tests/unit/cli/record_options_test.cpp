// The command line of `heapprof record`: options end at the program; the value of some switches is optional.
#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "analyzer/cli/command_line/command_line.h"

using namespace heapprof::cli;

namespace {

using Words = std::vector<std::string>;
using Settings = std::vector<std::pair<std::string, std::string>>;

RecordOptions parsed(const Words& arguments) {
  RecordOptions options;
  bool wants_help = false;
  std::string error;
  INFO(Catch::Detail::stringify(arguments));
  REQUIRE(parse_record_options(arguments, options, wants_help, error));
  CHECK(error.empty());
  CHECK(!wants_help);
  return options;
}

std::string refused(const Words& arguments) {
  RecordOptions options;
  bool wants_help = false;
  std::string error;
  INFO(Catch::Detail::stringify(arguments));
  REQUIRE(!parse_record_options(arguments, options, wants_help, error));
  CHECK(!error.empty());
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

bool wants_help(const Words& arguments) {
  RecordOptions options;
  bool help = false;
  std::string error;
  return parse_record_options(arguments, options, help, error) && help;
}

}  // namespace

TEST_CASE("options end at the program") {
  CHECK(parsed({"ls"}).command == Words{"ls"});
  CHECK(parsed({"ls", "-q", "-o", "x", "--", "--help"}).command == Words{"ls", "-q", "-o", "x", "--", "--help"});
  CHECK(parsed({"-q", "--", "-strange", "-q"}).command == Words{"-strange", "-q"});
  CHECK(parsed({"-"}).command == Words{"-"});
  CHECK(parsed({"info"}).command == Words{"info"});
  CHECK(parsed({"a", "", "[x]", "{}"}).command == Words{"a", "", "[x]", "{}"});
  CHECK(!parsed({"ls", "-q"}).quiet);
  CHECK(parsed({"-q", "ls"}).quiet);
}

TEST_CASE("all forms of the option for the output") {
  for (const Words& arguments : {Words{"-o", "x y", "ls"}, Words{"-ox y", "ls"}, Words{"--output", "x y", "ls"},
                                 Words{"--output=x y", "ls"}, Words{"-qo", "x y", "ls"}, Words{"-qfox y", "ls"}}) {
    const RecordOptions options = parsed(arguments);
    CHECK(options.output == "x y");
    CHECK(options.command == Words{"ls"});
  }
  CHECK(parsed({"-o", "--", "ls"}).output == "--");
  CHECK(!parsed({"ls"}).output);
}

TEST_CASE("each setting has its option, and the value that the recorder reads") {
  CHECK(parsed({"--log", "debug", "--log-file=l", "--max-depth", "7", "--max-file-size", "2G", "ls"}).settings ==
        Settings{{"HEAPPROF_MAX_FILE_SIZE", "2G"},
                 {"HEAPPROF_MAX_DEPTH", "7"},
                 {"HEAPPROF_LOG", "debug"},
                 {"HEAPPROF_LOG_FILE", "l"}});
  CHECK(parsed({"--max-depth", "7", "--max-depth=8", "ls"}).settings == Settings{{"HEAPPROF_MAX_DEPTH", "8"}});
  CHECK(parsed({"--embedded-allocators", "off", "ls"}).settings == Settings{{"HEAPPROF_EMBEDDED_ALLOCATORS", "off"}});
  CHECK(parsed({"--own-allocators=off", "ls"}).settings == Settings{{"HEAPPROF_OWN_ALLOCATORS", "off"}});
  for (const char* word : {"on", "off", "1", "0", "yes", "no"}) {
    CHECK(parsed({"--shadow-stack", word, "ls"}).settings == Settings{{"HEAPPROF_SHADOW_STACK", word}});
    CHECK(parsed({std::string("--mmap=") + word, "ls"}).settings == Settings{{"HEAPPROF_MMAP", word}});
    CHECK(parsed({"--children", word, "ls"}).settings == Settings{{"HEAPPROF_CHILDREN", word}});
  }
}

TEST_CASE("labels are collected; each has a key and a value without control characters") {
  CHECK(parsed({"--label", "env=prod", "--label=note=a,b \"c\"=d", "ls", "--label", "x=y"}).labels ==
        heapprof::Labels{{"env", "prod"}, {"note", "a,b \"c\"=d"}});
  CHECK(parsed({"--label", "a=1", "--label", "a=2", "--label", "b=", "ls"}).labels ==
        heapprof::Labels{{"a", "2"}, {"b", ""}});
  CHECK(parsed({"--label", "stadt=K\xc3\xb6ln", "ls"}).labels == heapprof::Labels{{"stadt", "K\xc3\xb6ln"}});
  for (const char* word : {"env", "=prod", ""})
    CHECK(refused({"--label", word, "ls"}).find("expected KEY=VALUE") != std::string::npos);
  CHECK(refused({"--label", "a b=c", "ls"}).find("'a b=c' for --label; a key has letters") != std::string::npos);
  CHECK(refused({"--label", std::string(65, 'k') + "=c", "ls"}).find("at most 64 bytes") != std::string::npos);
  for (const char* value : {"a=line\nline", "a=\x1b[31m", "a=\xff", "a=\xc3", "a=\xc2\x80"})
    CHECK(refused({"--label", value, "ls"}).find("UTF-8 without control characters") != std::string::npos);
  CHECK(refused({"--label", "a=" + std::string(1023, 'x'), "ls"}).find("1025 bytes of at most 1024") !=
        std::string::npos);
}

TEST_CASE("a switch without a value is on; the program after it is not its value") {
  for (const char* name : {"--children", "--paused", "--free-stacks"}) {
    const RecordOptions alone = parsed({name, "ls", "off"});
    CHECK(alone.settings.at(0).second == "on");
    CHECK(alone.command == Words{"ls", "off"});
    const RecordOptions with = parsed({name, "off", "-q", "ls"});
    CHECK(with.settings.at(0).second == "off");
    CHECK(with.command == Words{"ls"});
    // "yes" must be the program, because nothing follows it.
    const RecordOptions last = parsed({name, "yes"});
    CHECK(last.settings.at(0).second == "on");
    CHECK(last.command == Words{"yes"});
    CHECK(parsed({name, "--", "yes", "x"}).command == Words{"yes", "x"});
  }
}

TEST_CASE("the message about an invalid value prints what is expected") {
  CHECK(refused({}).find("PROGRAM") != std::string::npos);
  CHECK(refused({"-q"}).find("PROGRAM") != std::string::npos);
  CHECK(refused({"--"}).find("PROGRAM") != std::string::npos);
  CHECK(refused({""}).find("empty") != std::string::npos);
  CHECK(refused({"--nonsense", "ls"}).find("--nonsense") != std::string::npos);
  CHECK(refused({"-x", "ls"}).find("-x") != std::string::npos);
  CHECK(refused({"--quiet=1", "ls"}).find("--quiet") != std::string::npos);
  CHECK(refused({"-o"}).find("-o") != std::string::npos);
  CHECK(refused({"-o", "", "ls"}).find("path") != std::string::npos);
  CHECK(refused({"--shadow-stack", "maybe", "ls"}).find("on, off, 1, 0, yes or no") != std::string::npos);
  CHECK(refused({"--children=maybe", "ls"}).find("on, off, 1, 0, yes or no") != std::string::npos);
  CHECK(refused({"--mmap", "ls"}).find("on, off") != std::string::npos);
  for (const char* depth : {"0", "65537", "x", "", "1x", "-1", "+1", " 1", "99999999999999999999"})
    CHECK(refused({"--max-depth", depth, "ls"}).find("65536") != std::string::npos);
  for (const char* size : {"", "G", "1GB", "1.5G", "-1", "17179869184T", "99999999999999999999"})
    CHECK(refused({"--max-file-size", size, "ls"}).find("2G") != std::string::npos);
  for (const char* size : {"0", "1", "5k", "5K", "5m", "2g", "2G", "3T", "16777215T"})
    CHECK(parsed({"--max-file-size", size, "ls"}).settings.at(0).second == size);
  CHECK(refused({"--log", "loud", "ls"}).find("off, error, warn, info or debug") != std::string::npos);
}

TEST_CASE("--help has precedence over an unknown option; after the program it is an argument of the program") {
  CHECK(wants_help({"-h", "--nonsense"}));
  CHECK(wants_help({"--help"}));
  CHECK(wants_help({"-q", "-h", "ls"}));
  CHECK(!wants_help({"ls", "--help"}));
}

TEST_CASE("after an empty value (--option=), record does not use the next word as the value") {
  CHECK(refused({"--output=", "ls"}).find("--output: the value is empty") != std::string::npos);
  CHECK(refused({"--max-depth=", "7", "ls"}).find("--max-depth: the value is empty") != std::string::npos);
  CHECK(parsed({"ls", "--output="}).command == Words{"ls", "--output="});
}

TEST_CASE("the message about an unknown option suggests the most similar one") {
  CHECK(refused({"--childern", "ls"}) == "unknown option '--childern'; did you mean '--children'?");
  CHECK(refused({"--max-dept=3", "ls"}) == "unknown option '--max-dept'; did you mean '--max-depth'?");
  CHECK(refused({"--bogus", "ls"}) == "unknown option '--bogus'; see 'heapprof record --help'");
  CHECK(refused({"-5", "ls"}).find("unknown option '-5'") == 0);
}

TEST_CASE("--python-allocations sets Python's own variable") {
  CHECK(parsed({"--python-allocations", "--", "python3", "app.py"}).settings == Settings{{"PYTHONMALLOC", "malloc"}});
  CHECK(parsed({"--python-allocations", "python3"}).command == Words{"python3"});
  CHECK(parsed({"--", "python3", "--python-allocations"}).settings.empty());
}
