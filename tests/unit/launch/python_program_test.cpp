// Which programs are Python interpreters, or scripts for them.
#include "analyzer/launch/python_program.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_file.h"

using heapprof::launch::runs_python;
using heapprof::test::TemporaryFile;

TEST_CASE("interpreters are found by their names") {
  for (const char* path : {"python3", "/usr/bin/python3.11", "/opt/python", "./python3.13t"}) {
    INFO(path);
    CHECK(runs_python(path));
  }
  for (const char* path : {"/usr/bin/python3-config", "/usr/bin/pythonista", "/usr/bin/ipython", "/bin/true", ""}) {
    INFO(path);
    CHECK_FALSE(runs_python(path));
  }
}

TEST_CASE("a link to an interpreter is one") {
  const TemporaryFile file;
  const std::string target = file.path() + ".d/python3.11", link = file.path() + ".d/app";
  std::filesystem::create_directories(file.path() + ".d");
  std::ofstream(target) << "\x7f"
                        << "ELF";
  std::filesystem::create_symlink(target, link);
  CHECK(runs_python(link));
  std::filesystem::remove_all(file.path() + ".d");
}

TEST_CASE("scripts are judged by their first line") {
  const TemporaryFile file;
  const auto judged = [&](const std::string& text) {
    std::ofstream(file.path(), std::ios::trunc) << text;
    return runs_python(file.path());
  };
  CHECK(judged("#!/usr/bin/python3\nprint()\n"));
  CHECK(judged("#! /usr/bin/env python3\n"));
  CHECK(judged("#!/usr/bin/env -S LANG=C python3.11 -u\n"));
  CHECK_FALSE(judged("#!/bin/sh\nexec python3\n"));
  CHECK_FALSE(judged("#!/usr/bin/env\n"));
  CHECK_FALSE(judged("python3\n"));
  CHECK_FALSE(judged(""));
}
