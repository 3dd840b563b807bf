// The project file .heapprof.toml: where it is found, what it says, and what is wrong with it.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "analyzer/cli/options/project_file.h"
#include "tests/support/skip_case.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::cli;
using namespace heapprof::test;
namespace fs = std::filesystem;

namespace {

/// A directory that is removed with this object.
class Directory {
 public:
  Directory() {
    std::string name = fs::temp_directory_path() / "heapprof-test-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~Directory() { fs::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }
  std::string make(const std::string& name) const {
    fs::create_directories(path_ / name);
    return path_ / name;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// What read_project_file() says about `text`, without the path.
std::string error_of(const std::string& text) {
  const Directory directory;
  const std::string path = directory.write(".heapprof.toml", text);
  try {
    read_project_file(path);
  } catch (const ProjectFileError& error) {
    const std::string message = error.what();
    REQUIRE(message.starts_with(path + ":"));
    return message.substr(path.size());
  }
  return "(none)";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a project file has patterns of origins, names and suppressions") {
  const Directory directory;
  const std::string rules = directory.write("ci/leaks.supp", "leak:other\n");
  const ProjectFile file = read_project_file(directory.write(".heapprof.toml",
                                                             "# ours\n"
                                                             "own = [\"^acme::\", 'lib(acme|x)']\n"
                                                             "third_party = [\"boost\"]\n"
                                                             "standard = [\"folly\"]\n"
                                                             "runtime = []\n"
                                                             "full_names = true\n"
                                                             "suppressions = [\"ci/leaks.supp\", \"leak:cache\"]\n"));
  CHECK(file.own == std::vector<std::string>{"^acme::", "lib(acme|x)"});
  CHECK(file.third_party == std::vector<std::string>{"boost"});
  CHECK(file.standard == std::vector<std::string>{"folly"});
  CHECK(file.runtime.empty());
  CHECK(file.full_names == true);
  CHECK(file.suppression_files == std::vector<std::string>{rules});
  CHECK(file.suppression_rules == "leak:cache\n");
  CHECK(read_project_file(directory.write("empty.toml", "")).own.empty());
}

TEST_CASE("what is wrong with a project file is said with its line and what is expected") {
  CHECK(contains(error_of("own = []\nowns = []\n"), ":2: unknown key 'owns'; expected one of own, "));
  CHECK(contains(error_of("own = []\nowns = []\n"), "did you mean 'own'?"));
  CHECK(contains(error_of("own = \"acme\"\n"), ":1: own: expected a list of texts, such as ["));
  CHECK(contains(error_of("own = [\n  \"a\",\n  7]\n"), ":3: own: expected a list"));
  CHECK(contains(error_of("\nfull_names = \"yes\"\n"), ":2: full_names: expected true or false"));
  CHECK(contains(error_of("standard = [\n \"ok\",\n \"(\"]\n"), ":3: standard: "));
  CHECK(contains(error_of("suppressions = [\"none.supp\"]\n"), ":1: suppressions: there is no file "));
  CHECK(contains(error_of("own = [\"a\", \"\"]\n"), ":1: own: a text is empty; remove it, or give one such as ["));
  CHECK(contains(error_of("own = [\n"), "is no valid TOML"));
  CHECK_THROWS_AS(read_project_file("/dev/null/none"), ProjectFileError);
}

TEST_CASE("the nearest project file is used, up to the directory that has .git or is the home directory") {
  const Directory directory;
  const std::string outer = directory.write(".heapprof.toml", "");
  const std::string inner = directory.make("a/b/c");
  CHECK(find_project_file(inner, "").path == outer);
  CHECK(find_project_file(inner, directory.path() / "a").path.empty());
  CHECK(find_project_file(inner, directory.path()).path == outer);
  const std::string nearer = directory.write("a/b/.heapprof.toml", "");
  CHECK(find_project_file(inner, "").path == nearer);
  directory.make("a/b/c/.git");
  CHECK(find_project_file(inner, "").path.empty());
}

TEST_CASE("a project file of another user is not used") {
  if (::geteuid() != 0) return skip_case("only root can change the owner of a file");
  const Directory directory;
  const std::string path = directory.write(".heapprof.toml", "");
  REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
  const FoundProjectFile found = find_project_file(directory.path(), "");
  CHECK(found.path.empty());
  CHECK(contains(found.note, "belongs to another user (uid 12345)"));
}

TEST_CASE("every command that uses the project file names it") {
  const KnownTrace trace;
  const Directory directory;
  const std::string config = directory.write("p.toml", "own = []\n");
  for (const char* command :
       {"report", "leaks", "tree", "blocks", "source", "churn", "reallocs", "threads", "timeline"}) {
    INFO(command);
    CHECK(contains(run({command, trace.path(), "--config", config}).out, "p.toml"));
    CHECK(run({command, trace.path(), "--config", config, "--json"}).at("/project_file") == config);
  }
  const std::string moment = trace.path() + "@start";
  CHECK(contains(run({"diff", trace.path(), trace.path(), "--config", config}).out, "p.toml"));
  CHECK(contains(run({"diff", moment, trace.path(), "--config", config}).out, "p.toml"));
  CHECK(run({"diff", moment, trace.path(), "--config", config, "--json"}).at("/project_file") == config);
  CHECK(contains(run({"flamegraph", trace.path(), "--config", config}).out, "p.toml"));
  CHECK(run({"info", trace.path(), "--config", config}).status == 2);
}

TEST_CASE("commands take what the project file says, name it, and prefer the command line") {
  const KnownTrace trace;
  const Directory directory;
  const std::string config = directory.write("p.toml", "own = [\"libwork\"]\nsuppressions = [\"leak:libwork\"]\n");
  const Outcome rows = run({"report", trace.path(), "--by", "function", "--only-own", "--config", config, "--json"});
  CHECK(rows.at("/project_file") == config);
  REQUIRE(rows.count("/rows") == 2);
  CHECK(rows.at("/rows/0/name") == kWorkName);
  CHECK(rows.at("/rows/0/origin") == "own");
  const Outcome leaks = run({"leaks", trace.path(), "--config", config});
  CHECK(leaks.has_line({"settings of", "p.toml"}));
  CHECK_FALSE(leaks.has_line({"--no-config"}));  // this file was named, so --no-config would be refused
  CHECK(run({"leaks", trace.path(), "--config", config, "--json"}).number("/suppressed_bytes") == kC);
  const std::vector<std::string> all = {"leaks", trace.path(), "--config", config, "--no-suppressions", "--json"};
  CHECK(run(all).number("/suppressed_bytes") == 0);
  CHECK(run({"check", trace.path(), "--max-leaked", "600", "--config", config}).status == 0);
  CHECK(run({"check", trace.path(), "--max-leaked", "600", "--no-config"}).status == 3);
  CHECK(run({"leaks", trace.path(), "--json"}).at("/project_file") == "(absent)");
  CHECK(run({"leaks", trace.path(), "--config", config, "--no-config"}).status == 2);
  const std::string wrong = directory.write("wrong.toml", "owns = []\n");
  const Outcome refused = run({"report", trace.path(), "--config", wrong});
  CHECK(refused.status == 2);
  CHECK(contains(refused.err, wrong + ":1: unknown key 'owns'"));
  CHECK(run({"report", trace.path(), "--config", kNoFile}).status == 2);
}
