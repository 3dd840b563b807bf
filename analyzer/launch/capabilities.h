// Programs with file capabilities. Their loader ignores LD_PRELOAD, because the kernel gave them privileges
// (AT_SECURE). So they are started through the loader, with the same capabilities raised as ambient ones beforehand,
// which gives no AT_SECURE; inside, the recorder clears the ambient set again
// (preload/recorder/process/loader_start.h), and the program has exactly what the kernel would have given it. Nothing
// is raised that it would not have given. (capabilities(7))
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/launch/program.h"

namespace heapprof::launch {

/// What the kernel grants at the execution of a file: security.capability, as far as it counts here.
struct FileCapabilities {
  std::uint64_t permitted = 0;
  std::uint64_t inheritable = 0;
  bool effective = false;
};

/// How to start a program so that it has its capabilities and can be recorded.
struct Privileges {
  std::string loader;             ///< empty: as any other program
  std::uint64_t raise = 0;        ///< to be ambient at the execution
  std::uint64_t inheritable = 0;  ///< the set that the program is to have afterwards
  bool effective = false;         ///< or only permitted
  bool as_user = false;           ///< give up being root first: under sudo
  uid_t user = 0;
  gid_t group = 0;
  std::vector<gid_t> groups;
};

/// Decides how `path`, whose loader is `loader`, is started by this process, which heapprof is in itself as `self` (a
/// path, for advice). A file without capabilities that count gives empty Privileges. False: it can't be; `refusal`
/// says what is missing and what would help.
bool plan_privileges(const std::string& path, const std::string& loader, const std::string& self,
                     Privileges& privileges, Refusal& refusal);

/// What `question` answers when the user asks it who the program is going to be: in a process of its own, if that is
/// another than this one's. An answer is at most a pipe's buffer long; an empty one means that nothing is wrong.
/// Where that process cannot be had, the answer is the reason: this process, which may be root's, never asks instead.
std::string ask_as_user(const Privileges& privileges, const std::function<std::string()>& question);

/// In the process that is to execute the loader: becomes the user, raises what is to be ambient. False with errno
/// set: it may not.
bool take_privileges(const Privileges& privileges);

/// The value of HEAPPROF_CAPABILITIES for the calling process.
std::string capabilities_variable(const Privileges& privileges);

/// "cap_net_bind_service,cap_net_raw".
std::string names_of_capabilities(std::uint64_t set);

}  // namespace heapprof::launch
