#include "analyzer/launch/capabilities.h"

#include <endian.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/xattr.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace heapprof::launch {

namespace {

constexpr std::array kNames = {"cap_chown",
                               "cap_dac_override",
                               "cap_dac_read_search",
                               "cap_fowner",
                               "cap_fsetid",
                               "cap_kill",
                               "cap_setgid",
                               "cap_setuid",
                               "cap_setpcap",
                               "cap_linux_immutable",
                               "cap_net_bind_service",
                               "cap_net_broadcast",
                               "cap_net_admin",
                               "cap_net_raw",
                               "cap_ipc_lock",
                               "cap_ipc_owner",
                               "cap_sys_module",
                               "cap_sys_rawio",
                               "cap_sys_chroot",
                               "cap_sys_ptrace",
                               "cap_sys_pacct",
                               "cap_sys_admin",
                               "cap_sys_boot",
                               "cap_sys_nice",
                               "cap_sys_resource",
                               "cap_sys_time",
                               "cap_sys_tty_config",
                               "cap_mknod",
                               "cap_lease",
                               "cap_audit_write",
                               "cap_audit_control",
                               "cap_setfcap",
                               "cap_mac_override",
                               "cap_mac_admin",
                               "cap_syslog",
                               "cap_wake_alarm",
                               "cap_block_suspend",
                               "cap_audit_read",
                               "cap_perfmon",
                               "cap_bpf",
                               "cap_checkpoint_restore"};

constexpr std::uint64_t bit(unsigned capability) noexcept { return std::uint64_t{1} << capability; }

struct Sets {
  std::uint64_t effective = 0, permitted = 0, inheritable = 0;
};

bool get_sets(Sets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct halves[2];
  if (syscall(SYS_capget, &header, halves) != 0) return false;
  for (unsigned half = 0; half < 2; ++half) {
    sets.effective |= std::uint64_t{halves[half].effective} << (32 * half);
    sets.permitted |= std::uint64_t{halves[half].permitted} << (32 * half);
    sets.inheritable |= std::uint64_t{halves[half].inheritable} << (32 * half);
  }
  return true;
}

bool set_sets(const Sets& sets) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct halves[2];
  for (unsigned half = 0; half < 2; ++half) {
    halves[half].effective = static_cast<std::uint32_t>(sets.effective >> (32 * half));
    halves[half].permitted = static_cast<std::uint32_t>(sets.permitted >> (32 * half));
    halves[half].inheritable = static_cast<std::uint32_t>(sets.inheritable >> (32 * half));
  }
  return syscall(SYS_capset, &header, halves) == 0;
}

std::uint64_t bounding_set() {
  std::uint64_t set = 0;
  for (unsigned capability = 0; capability < 64; ++capability)
    if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1) set |= bit(capability);
  return set;
}

/// The file's capabilities if the kernel honours them: not on a nosuid mount, and not those of the root of another
/// user namespace (a revision 3 with a root id; the kernel shows those of our own namespace as revision 2).
std::optional<FileCapabilities> honoured_capabilities(const std::string& path) {
  vfs_ns_cap_data data{};
  const ssize_t size = getxattr(path.c_str(), XATTR_NAME_CAPS, &data, sizeof data);
  if (size < static_cast<ssize_t>(sizeof(__le32))) return std::nullopt;
  const std::uint32_t magic = le32toh(data.magic_etc);
  const std::uint32_t revision = magic & VFS_CAP_REVISION_MASK;
  const bool known = (revision == VFS_CAP_REVISION_1 && size == XATTR_CAPS_SZ_1) ||
                     (revision == VFS_CAP_REVISION_2 && size == XATTR_CAPS_SZ_2) ||
                     (revision == VFS_CAP_REVISION_3 && size == XATTR_CAPS_SZ_3 && le32toh(data.rootid) == 0);
  struct statvfs mount {};
  if (!known || (statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0)) return std::nullopt;
  FileCapabilities capabilities;
  capabilities.effective = (magic & VFS_CAP_FLAGS_EFFECTIVE) != 0;
  for (unsigned half = 0; half < (revision == VFS_CAP_REVISION_1 ? 1u : 2u); ++half) {
    capabilities.permitted |= std::uint64_t{le32toh(data.data[half].permitted)} << (32 * half);
    capabilities.inheritable |= std::uint64_t{le32toh(data.data[half].inheritable)} << (32 * half);
  }
  return capabilities;
}

/// The user who called sudo.
bool find_invoking_user(Privileges& privileges) {
  const char* user = std::getenv("SUDO_UID");
  const char* group = std::getenv("SUDO_GID");
  if (user == nullptr || group == nullptr) return false;
  char* end = nullptr;
  privileges.user = static_cast<uid_t>(std::strtoul(user, &end, 10));
  if (end == user || *end != '\0' || privileges.user == 0) return false;
  privileges.group = static_cast<gid_t>(std::strtoul(group, &end, 10));
  if (end == group || *end != '\0') return false;
  privileges.as_user = true;
  privileges.groups = {privileges.group};
  if (const passwd* entry = getpwuid(privileges.user); entry != nullptr) {
    int count = 0;
    getgrouplist(entry->pw_name, privileges.group, nullptr, &count);
    std::vector<gid_t> groups(static_cast<std::size_t>(count));
    if (count > 0 && getgrouplist(entry->pw_name, privileges.group, groups.data(), &count) >= 0)
      privileges.groups = groups;
  }
  return true;
}

bool become_user(const Privileges& privileges) {
  return setgroups(privileges.groups.size(), privileges.groups.data()) == 0 &&
         setresgid(privileges.group, privileges.group, privileges.group) == 0 &&
         setresuid(privileges.user, privileges.user, privileges.user) == 0;
}

}  // namespace

std::string names_of_capabilities(std::uint64_t set) {
  std::string names;
  for (unsigned capability = 0; capability < 64; ++capability) {
    if ((set & bit(capability)) == 0) continue;
    if (!names.empty()) names += ',';
    names += capability < kNames.size() ? std::string(kNames[capability]) : std::to_string(capability);
  }
  return names;
}

bool plan_privileges(const std::string& path, const std::string& loader, const std::string& recorder,
                     const std::string& self, Privileges& privileges, Refusal& refusal) {
  privileges = {};
  const std::optional<FileCapabilities> file = honoured_capabilities(path);
  if (!file) return true;
  Sets own;
  if (!get_sets(own)) return true;
  if (geteuid() == 0 && getuid() == 0 && !find_invoking_user(privileges))
    return true;  // root has all capabilities anyway

  privileges.inheritable = privileges.as_user ? 0 : own.inheritable;
  privileges.raise = (file->permitted & bounding_set()) | (file->inheritable & privileges.inheritable);
  privileges.effective = file->effective;
  // With no_new_privs the kernel grants only what the process has, and sets AT_SECURE all the same.
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) privileges.raise &= own.permitted;
  if (const std::uint64_t missing = privileges.raise & ~own.permitted; missing != 0) {
    const std::string names = names_of_capabilities(missing);
    refusal = {126, path +
                        " has file capabilities, for which its loader ignores LD_PRELOAD.\n"
                        "heapprof can start it with ambient capabilities instead, but lacks " +
                        names +
                        ".\n"
                        "One of these helps:\n"
                        "  sudo heapprof record " +
                        path +
                        "\n"
                        "      the program still runs as you, with its own capabilities only\n"
                        "  sudo setcap " +
                        names + "+p " + self +
                        "\n"
                        "      everybody who can run heapprof can then use them: restrict its mode\n"
                        "  sudo heapprof install-secure\n"
                        "      for programs that others start; see heapprof install-secure --help"};
    return false;
  }
  const auto why_unreadable = [&](const std::string& file) {
    return run_as_user(privileges, [&] {
      const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
      return fd < 0 ? std::string(std::strerror(errno)) : (close(fd), std::string());
    });
  };
  // The kernel only needs permission to execute the program. A loader that is executed instead also needs permission
  // to read it.
  if (const std::string problem = why_unreadable(path); !problem.empty()) {
    refusal = {126, path + " cannot be read by the user that it runs as (" + problem +
                        "), and so not by its loader; record a copy that the user can read"};
    return false;
  }
  // Without the recorder, nothing would clear the ambient set.
  if (const std::string problem = why_unreadable(recorder); !problem.empty()) {
    refusal = {126, recorder + " cannot be read by the user that the program runs as (" + problem +
                        "); install heapprof where that user can read it"};
    return false;
  }
  privileges.loader = loader;
  return true;
}

std::string run_as_user(const Privileges& privileges, const std::function<std::string()>& work) {
  if (!privileges.as_user) return work();
  // An empty result means success. The end mark distinguishes it from the result of a child that was killed, whose
  // exit status is unknown if SIGCHLD is ignored.
  constexpr char kEndOfResult = '\0';
  const auto failed = [&](const std::string& why) {
    return "cannot run as user " + std::to_string(privileges.user) + ": " + why;
  };
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed(std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    // setresuid() clears the capabilities, since no user id is root's any more.
    const bool became = become_user(privileges);
    std::string result = became ? work() : failed(std::strerror(errno));
    result += kEndOfResult;
    const ssize_t written = write(ends[1], result.data(), result.size());
    _exit(written == static_cast<ssize_t>(result.size()) ? 0 : 1);
  }
  const int fork_error = errno;
  close(ends[1]);
  std::string result;
  char part[512];
  for (;;) {
    const ssize_t got = read(ends[0], part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    result.append(part, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  if (child < 0) return failed(std::strerror(fork_error));
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!result.ends_with(kEndOfResult)) return failed("the child process was killed");
  result.pop_back();
  return result;
}

bool take_privileges(const Privileges& privileges) {
  Sets sets;
  if (privileges.as_user && (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || !become_user(privileges))) return false;
  sets.permitted = sets.effective = privileges.raise;
  sets.inheritable = privileges.raise | privileges.inheritable;
  if (!set_sets(sets)) return false;
  for (unsigned capability = 0; capability < 64; ++capability)
    if ((privileges.raise & bit(capability)) != 0 &&
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0)
      return false;
  return true;
}

std::string capabilities_variable(const Privileges& privileges) {
  char text[64];
  std::snprintf(text, sizeof text, "%x:%llx:%d", static_cast<unsigned>(getpid()),
                static_cast<unsigned long long>(privileges.inheritable), privileges.effective ? 1 : 0);
  return text;
}

}  // namespace heapprof::launch
