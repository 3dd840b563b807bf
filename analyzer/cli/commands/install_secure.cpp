// heapprof install-secure: what root sets up so that programs with privileges of their own can be recorded.
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "analyzer/cli/commands/install_secure.h"
#include "analyzer/launch/recorder_library.h"
#include "analyzer/launch/secure_install.h"

namespace heapprof::cli {

namespace {

struct InstallOptions {
  std::string directory = "/var/lib/heapprof";
  bool remove = false;
};

int install(const InstallOptions& options) {
  const auto complain = [](const std::string& what) {
    std::fprintf(stderr, "heapprof: install-secure: %s\n", what.c_str());
    return 1;
  };
  if (geteuid() != 0) return complain("needs root: it writes to the folder of the system's libraries and to /etc");
  std::string recorder, done, error;
  if (!launch::find_recorder(recorder, error)) return complain(error);
  const bool good = options.remove ? launch::remove_trusted(recorder, done, error)
                                   : launch::install_trusted(recorder, options.directory, done, error);
  std::fputs(done.c_str(), stdout);
  if (!good) return complain(error);
  if (options.remove) {
    if (done.empty()) std::puts("nothing was installed");
  } else {
    std::printf(
        "\nNow  LD_PRELOAD=libheapprof.so PROGRAM  (the plain name) records setuid, setgid and setcap programs into\n"
        "%s. Every user of this machine can do so: undo it with  heapprof install-secure --remove\n",
        options.directory.c_str());
  }
  return 0;
}

}  // namespace

void add_install_secure(CLI::App& app, int& status) {
  const auto options = std::make_shared<InstallOptions>();
  CLI::App* const command =
      app.add_subcommand("install-secure", "Let setuid and setcap programs be recorded, as root");
  command->footer(
      "Copies libheapprof.so, mode u+s, beside libc, where the loader accepts it for programs with privileges; writes "
      "/etc/heapprof.conf, which alone decides what the recorder does in them; makes the folder for recordings.\n"
      "Until --remove, every user can have every such program record itself there.");
  command->add_option("--directory", options->directory, "Where the recordings go")->capture_default_str();
  command->add_flag("--remove", options->remove, "Undo it; recordings stay");
  command->callback([options, &status] { status = install(*options); });
}

}  // namespace heapprof::cli
