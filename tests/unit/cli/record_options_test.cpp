#include "analyzer/cli/options/spelling_suggestion.h"
#include "analyzer/launch/recorder_settings.h"

#include <stdlib.h>

#include <catch2/catch.hpp>

using namespace heapprof::launch;

namespace {

using Words = std::vector<std::string>;
using Settings = std::vector<std::pair<std::string, std::string>>;

Options parsed(const Words& arguments) {
  Options options;
  std::string error;
  INFO(Catch::Detail::stringify(arguments));
  REQUIRE(parse_options(arguments, options, error));
  CHECK(error.empty());
  return options;
}

std::string refused(const Words& arguments) {
  Options options;
  std::string error;
  INFO(Catch::Detail::stringify(arguments));
  REQUIRE(!parse_options(arguments, options, error));
  CHECK(!error.empty());
  CHECK(error.find('\n') == std::string::npos);
  return error;
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

TEST_CASE("the output's name in all forms") {
  for (const Words& arguments : {Words{"-o", "x y", "ls"}, Words{"-ox y", "ls"}, Words{"--output", "x y", "ls"},
                                 Words{"--output=x y", "ls"}, Words{"-qo", "x y", "ls"}, Words{"-qfox y", "ls"}}) {
    const Options options = parsed(arguments);
    CHECK(options.output == "x y");
    CHECK(options.command == Words{"ls"});
  }
  CHECK(parsed({"-o", "--", "ls"}).output == "--");
  CHECK(!parsed({"ls"}).output);
}

TEST_CASE("each setting has its option, passed on as the recorder reads it") {
  CHECK(parsed({"--log", "debug", "--log-file=l", "--max-depth", "7", "--max-file-size", "2G", "ls"}).settings ==
        Settings{{"HEAPPROF_LOG", "debug"},
                 {"HEAPPROF_LOG_FILE", "l"},
                 {"HEAPPROF_MAX_DEPTH", "7"},
                 {"HEAPPROF_MAX_FILE_SIZE", "2G"}});
  for (const char* word : {"on", "off", "1", "0", "yes", "no"}) {
    CHECK(parsed({"--shadow-stack", word, "ls"}).settings == Settings{{"HEAPPROF_SHADOW_STACK", word}});
    CHECK(parsed({std::string("--mmap=") + word, "ls"}).settings == Settings{{"HEAPPROF_MMAP", word}});
    CHECK(parsed({"--children", word, "ls"}).settings == Settings{{"HEAPPROF_CHILDREN", word}});
  }
}

TEST_CASE("a switch alone is on, and takes no program for its value") {
  for (const char* name : {"--children", "--paused", "--free-stacks"}) {
    const Options alone = parsed({name, "ls", "off"});
    CHECK(alone.settings.at(0).second == "on");
    CHECK(alone.command == Words{"ls", "off"});
    const Options with = parsed({name, "off", "-q", "ls"});
    CHECK(with.settings.at(0).second == "off");
    CHECK(with.command == Words{"ls"});
    // "yes" is a program, and the only one that can be meant here.
    const Options last = parsed({name, "yes"});
    CHECK(last.settings.at(0).second == "on");
    CHECK(last.command == Words{"yes"});
    CHECK(parsed({name, "--", "yes", "x"}).command == Words{"yes", "x"});
  }
}

TEST_CASE("what can't be read is refused, and the message says what is allowed") {
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

TEST_CASE("help is given before anything is wrong") {
  CHECK(parsed({"-h", "--nonsense"}).help);
  CHECK(parsed({"--help"}).help);
  for (const char* option : {"--output", "--log-file", "--shadow-stack", "--max-depth", "--mmap", "--free-stacks",
                             "--children", "--paused", "--max-file-size", "--force", "--quiet", "126", "127"})
    CHECK(usage().find(option) != std::string::npos);
}

TEST_CASE("variables in the environment are held to the same rules") {
  std::string error;
  CHECK(check_environment(error));
  setenv("HEAPPROF_MAX_DEPTH", "12", 1);
  setenv("HEAPPROF_CHILDREN", "yes", 1);
  CHECK(check_environment(error));
  setenv("HEAPPROF_CHILDREN", "perhaps", 1);
  CHECK(!check_environment(error));
  CHECK(error.find("HEAPPROF_CHILDREN=perhaps") != std::string::npos);
  CHECK(error.find("on, off") != std::string::npos);
  unsetenv("HEAPPROF_MAX_DEPTH");
  unsetenv("HEAPPROF_CHILDREN");
}

TEST_CASE("the word that was meant is near, and the only one") {
  const Words words = {"-o", "--output", "--top", "--to", "--from", "--max-size", "--max-lifetime"};
  CHECK(nearest_word("--ouptut", words) == "--output");
  CHECK(nearest_word("--outpt", words) == "--output");
  CHECK(nearest_word("--max-s", words) == "--max-size");
  CHECK(nearest_word("--form", words) == "--from");
  CHECK(nearest_word("--max", words).empty());
  CHECK(nearest_word("--bogus", words).empty());
  CHECK(nearest_word("-x", words).empty());
  CHECK(nearest_word("-", words).empty());
  CHECK(nearest_word("--", words).empty());
  CHECK(nearest_word("", words).empty());
  CHECK(did_you_mean("--form", words) == "; did you mean --from?");
  CHECK(did_you_mean("--bogus", words).empty());
}
