// HEAPPROF_SESSION.
#include "preload/recorder/process/session.h"

#include <catch2/catch.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

using namespace heapprof::recorder;

TEST_CASE("A session names a process, and its trace where there is one") {
  SessionEntry entry;
  REQUIRE(parse_session("12.345", entry));
  CHECK(entry.session == Session{12, 345});
  CHECK(entry.trace == nullptr);
  REQUIRE(parse_session("12.345.00ff:/tmp/a:b", entry));
  CHECK(entry.file_id == 0xff);
  CHECK(std::string(entry.trace) == "/tmp/a:b");
}

TEST_CASE("Malformed sessions are refused") {
  SessionEntry entry;
  for (const char* text : {"", "12", "12.", ".345", "12.345x", "12.345.", "12.345.xyz:/t", "12.345.00ff"})
    CHECK_FALSE(parse_session(text, entry));
}

TEST_CASE("This process's session has its number and its start") {
  const Session session = this_session();
  CHECK(session.process == getpid());
  CHECK(session.process_start != 0);
  CHECK(session == this_session());
}

TEST_CASE("A forked child has a session of its own") {
  const Session parent = this_session();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const Session own = this_session();
    _exit(own.process == getpid() && own.process_start >= parent.process_start && own == this_session() ? 0 : 1);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
