// The command lines of requests: which options are accepted, and that no value of a request becomes an option, a file
// or another trace.
#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "analyzer/cli/command_line/command_help.h"
#include "analyzer/serve/question.h"
#include "tests/support/temporary_file.h"

using namespace heapprof;
using namespace heapprof::serve;
using Words = std::vector<std::string>;

namespace {

Subject subject() {
  return {{"/traces/a.heapprof", "-b.heapprof"}, {"--sysroot=/root"}, {"--source-path=/src"}, {"--no-config"}};
}

Words words(std::string_view command, const Parameters& parameters = {}) {
  const auto question = question_of(command, parameters, subject());
  if (const auto* const refusal = std::get_if<Refusal>(&question)) return {"refused", refusal->reason};
  return std::get<Question>(question).words;
}

bool is_refused(std::string_view command, const Parameters& parameters) {
  return std::holds_alternative<Refusal>(question_of(command, parameters, subject()));
}

}  // namespace

TEST_CASE("a request becomes the command line with the same options") {
  CHECK(words("info") == Words{"info", "--json", "--sysroot=/root", "--", "/traces/a.heapprof"});
  CHECK(words("report", {{"by", "function"}, {"function", "a"}, {"function", "b"}, {"only-own", "1"}}) ==
        Words{"report", "--by=function", "--function=a", "--function=b", "--only-own", "--json", "--sysroot=/root",
              "--no-config", "--", "/traces/a.heapprof"});
  CHECK(words("histogram", {{"freed", "no"}}) ==
        Words{"histogram", "--freed=no", "--json", "--sysroot=/root", "--", "/traces/a.heapprof"});
  CHECK(words("histogram", {{"survivors", ""}, {"from", "1"}}) ==
        Words{"histogram", "--survivors=end", "--from=1", "--json", "--sysroot=/root", "--", "/traces/a.heapprof"});
  CHECK(words("callers", {{"arg", "main"}, {"trace", "1"}}) ==
        Words{"callers", "--json", "--sysroot=/root", "--no-config", "--", "-b.heapprof", "main"});
  CHECK(words("source", {{"all", ""}}) == Words{"source", "--all", "--json", "--sysroot=/root", "--source-path=/src",
                                                "--no-config", "--", "/traces/a.heapprof"});
  CHECK(words("tree", {{"inverted", "0"}}) ==
        Words{"tree", "--json", "--sysroot=/root", "--no-config", "--", "/traces/a.heapprof"});
  for (const Parameters& parameters : {Parameters{}, Parameters{{"once", "1"}}, Parameters{{"once", "0"}}})
    CHECK(words("top", parameters) ==
          Words{"top", "--once", "--json", "--sysroot=/root", "--no-config", "--", "/traces/a.heapprof"});
}

TEST_CASE("options of the server are those of each command that has them, unless the client asks for the opposite") {
  Subject given = subject();
  given.own_words = {"--own=x", "--full-names"};
  given.helper_words = {"--helper=y"};
  given.suppression_words = {"--suppressions=/rules"};
  const auto words = [&](std::string_view command, const Parameters& parameters) {
    return std::get<Question>(question_of(command, parameters, given)).words;
  };
  CHECK(words("histogram", {}) == Words{"histogram", "--json", "--sysroot=/root", "--", "/traces/a.heapprof"});
  CHECK(words("leaks", {}) == Words{"leaks", "--json", "--sysroot=/root", "--no-config", "--own=x", "--full-names",
                                    "--helper=y", "--suppressions=/rules", "--", "/traces/a.heapprof"});
  CHECK(words("leaks", {{"no-suppressions", "1"}, {"short-names", "1"}}) ==
        Words{"leaks", "--no-suppressions", "--short-names", "--json", "--sysroot=/root", "--no-config", "--own=x",
              "--helper=y", "--", "/traces/a.heapprof"});
  CHECK(words("check", {}) == Words{"check", "--json", "--sysroot=/root", "--no-config", "--suppressions=/rules",
                                    "--", "/traces/a.heapprof"});
  // Every command has the options that its answers get.
  std::map<std::string, std::set<std::string>> options;
  for (const cli::CommandHelp& command : cli::runnable(cli::describe_commands()))
    for (const cli::OptionHelp& option : command.options)
      options[command.name].insert(option.names.begin(), option.names.end());
  for (const CommandWords& one : words_of_answers(given)) {
    for (const std::string& word : one.words) {
      INFO(one.command << ' ' << word);
      CHECK(options[std::string(one.command)].contains(word.substr(0, word.find('='))));
    }
  }
}

TEST_CASE("seconds of a profile are a whole number, and are taken from the parameters") {
  const auto taken = [](Parameters parameters) {
    const auto seconds = take_seconds(parameters);
    CHECK((std::holds_alternative<Refusal>(seconds) || find(parameters, "seconds") == nullptr));
    return std::holds_alternative<Refusal>(seconds) ? -1 : static_cast<int>(std::get<unsigned>(seconds));
  };
  CHECK(taken({{"function", "a"}}) == 0);
  CHECK(taken({{"seconds", "1"}, {"function", "a"}}) == 1);
  CHECK(taken({{"seconds", "3600"}, {"seconds", "x"}}) == 3600);
  for (const char* const text : {"", "0", "-1", "+1", "1.5", " 1", "1 ", "1s", "3601", "4294967297"})
    CHECK(taken({{"seconds", text}}) == -1);
  for (const char* const name : {"from", "to", "at", "live-at"}) CHECK(taken({{"seconds", "1"}, {name, "1"}}) == -1);
}

TEST_CASE("a value is never an option") {
  CHECK(words("callers", {{"arg", "--output=/tmp/x"}}).back() == "--output=/tmp/x");
  const Words given = words("callers", {{"arg", "--output=/tmp/x"}});
  CHECK(std::find(given.begin(), given.end(), "--") < given.end() - 1);
  CHECK(words("tree", {{"from", "--output=/tmp/x"}})[1] == "--from=--output=/tmp/x");
}

TEST_CASE("pictures and tables are no JSON") {
  const auto type = [](std::string_view command, const Parameters& parameters) {
    return std::get<Question>(question_of(command, parameters, subject())).content_type;
  };
  CHECK(type("report", {}) == "application/json");
  CHECK(type("report", {{"by", "line"}, {"csv", "1"}}) == "text/csv; charset=utf-8");
  CHECK(type("flamegraph", {}) == "image/svg+xml");
  CHECK(type("flamegraph", {{"format", "folded"}}) == "text/plain; charset=utf-8");
  CHECK(type("timeline", {{"format", "svg"}}) == "image/svg+xml");
  CHECK(type("timeline", {{"format", "json"}}) == "application/json");
  const Words svg = words("timeline", {{"format", "svg"}});
  CHECK(std::find(svg.begin(), svg.end(), "--json") == svg.end());
}

TEST_CASE("unknown commands, options and values are refused") {
  CHECK(is_refused("record", {}));
  CHECK(is_refused("bundle", {}));
  CHECK(is_refused("export", {}));
  CHECK(is_refused("", {}));
  CHECK(is_refused("report ", {}));
  CHECK(is_refused("report", {{"arg", "x"}}));
  CHECK(is_refused("report", {{"", "x"}}));
  CHECK(is_refused("report", {{"only-own", "maybe"}}));
  CHECK(is_refused("callers", {{"arg", "a"}, {"arg", "b"}}));
  for (const char* const number : {"2", "-1", "1x", "", "99999999999999999999", "+1"})
    CHECK(is_refused("report", {{"trace", number}}));
  CHECK(words("report", {{"output", "x"}})[1].find("unknown option 'output' of report; expected cost, top") == 0);
}

TEST_CASE("every accepted option is one of its command, and none names a file or uses the network") {
  std::map<std::string, cli::CommandHelp> commands;
  for (const cli::CommandHelp& one : cli::runnable(cli::describe_commands())) commands[one.name] = one;
  const std::set<std::string> never = {"--output",     "--config",         "--suppressions", "--junit",
                                       "--baseline",   "--sysroot",        "--debug-dir",    "--source-path",
                                       "--debuginfod", "--no-symbol-cache"};
  std::size_t accepted = 0;
  for (const auto& [name, command] : commands) {
    for (const cli::OptionHelp& option : command.options) {
      for (const std::string& text : option.names) {
        if (!text.starts_with("--")) continue;
        const bool is_accepted = !is_refused(name, {{text.substr(2), option.needs_value() ? "x" : "1"}});
        accepted += is_accepted ? 1 : 0;
        INFO(name << ' ' << text);
        if (never.contains(text) || option.takes_path()) CHECK_FALSE(is_accepted);
      }
    }
  }
  CHECK(accepted > 250);
}

TEST_CASE("diff compares two moments of a trace, or two traces") {
  const auto traces = [](const Parameters& parameters) {
    const Words all = words("diff", parameters);
    return Words(std::find(all.begin(), all.end(), "--"), all.end());
  };
  CHECK(traces({{"arg", "@10%"}, {"arg", "@end"}}) ==
        Words{"--", "/traces/a.heapprof@10%", "/traces/a.heapprof@end"});
  CHECK(traces({{"with", "1"}}) == Words{"--", "/traces/a.heapprof", "-b.heapprof"});
  CHECK(traces({{"trace", "1"}, {"with", "0"}}) == Words{"--", "-b.heapprof", "/traces/a.heapprof"});
  CHECK(is_refused("diff", {}));
  CHECK(is_refused("diff", {{"arg", "@1"}}));
  CHECK(is_refused("diff", {{"arg", "@1"}, {"arg", "@2"}, {"arg", "@3"}}));
  CHECK(is_refused("diff", {{"arg", "/etc/passwd"}, {"arg", "@2"}}));
  CHECK(is_refused("diff", {{"arg", "@"}, {"arg", "@2"}}));
  CHECK(is_refused("diff", {{"with", "2"}}));
  const auto both = question_of("diff", {{"with", "1"}}, subject());
  CHECK(std::get<Question>(both).traces == std::vector<std::size_t>{0, 1});
}

TEST_CASE("a moment does not lead to another file") {
  test::TemporaryFile trace;
  const std::string other = trace.path() + "@2";
  std::ofstream(other) << "x";
  const Subject given{{trace.path()}, {}, {}, {}};
  CHECK(std::holds_alternative<Refusal>(question_of("diff", {{"arg", "@1"}, {"arg", "@2"}}, given)));
  ::unlink(other.c_str());
  CHECK(std::holds_alternative<Question>(question_of("diff", {{"arg", "@1"}, {"arg", "@2"}}, given)));
}

TEST_CASE("a program is controlled by four actions") {
  const auto control = [](std::string_view action, const Parameters& parameters) {
    const auto question = control_question(action, parameters, subject());
    return std::holds_alternative<Refusal>(question) ? Words{"refused"} : std::get<Question>(question).words;
  };
  CHECK(control("pause", {}) == Words{"control", "--json", "--", "/traces/a.heapprof", "pause"});
  CHECK(control("mark", {{"text", "--pid=1"}, {"trace", "1"}}) ==
        Words{"control", "--json", "--", "-b.heapprof", "mark", "--pid=1"});
  CHECK(control("mark", {}) == Words{"refused"});
  CHECK(control("pause", {{"text", "x"}}) == Words{"refused"});
  CHECK(control("start", {}) == Words{"refused"});
  CHECK(control("pause", {{"trace", "7"}}) == Words{"refused"});
}
