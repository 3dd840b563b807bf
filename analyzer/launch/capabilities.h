// Starts programs with file capabilities (capabilities(7)). Their loader ignores LD_PRELOAD, because the kernel gave
// them privileges (AT_SECURE). So:
//
//   1. The launcher raises the same capabilities as ambient ones and executes the loader, which sets no AT_SECURE.
//   2. The loader loads the recorder, which clears the ambient set again (loader_start.h in preload/recorder).
//
// Then the program has exactly the capabilities that the kernel would have given it; no others are ever raised.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/launch/program.h"

namespace heapprof::launch {

/// The capabilities that the kernel grants when a file is executed (its attribute security.capability).
struct FileCapabilities {
  std::uint64_t permitted = 0;
  std::uint64_t inheritable = 0;
  bool effective = false;
};

/// How to start a program so that it has its capabilities and can be recorded.
struct Privileges {
  std::string loader;             ///< the loader to execute; empty: the program is executed as any other
  std::uint64_t raise = 0;        ///< the ambient set when the loader is executed
  std::uint64_t inheritable = 0;  ///< the inheritable set of the program
  bool effective = false;         ///< the program's capabilities are effective, not only permitted
  bool as_user = false;           ///< under sudo: become the invoking user first
  uid_t user = 0;
  gid_t group = 0;
  std::vector<gid_t> groups;
};

/// Plans how this process starts `path`, whose loader is `loader`. For a file without capabilities that the kernel
/// honours, `privileges` are empty. False: it cannot be started; `refusal` has what is missing and what would help.
/// `recorder` is the library that the loader is to load, `self` the path of heapprof, for that message.
bool plan_privileges(const std::string& path, const std::string& loader, const std::string& recorder,
                     const std::string& self, Privileges& privileges, Refusal& refusal);

/// Calls `work` as the user that the program will run as, in a child process if that is another user, and returns its
/// result: an error message, at most a pipe's buffer long, or an empty string. Where the child process cannot be
/// started, returns the reason: `work` never runs as root instead.
std::string run_as_user(const Privileges& privileges, const std::function<std::string()>& work);

/// Becomes the user and raises the ambient set. For the process that executes the loader. False: not permitted, errno
/// is set.
bool take_privileges(const Privileges& privileges);

/// The value of HEAPPROF_CAPABILITIES for the calling process.
std::string capabilities_variable(const Privileges& privileges);

/// "cap_net_bind_service,cap_net_raw".
std::string names_of_capabilities(std::uint64_t set);

}  // namespace heapprof::launch
