// heapprof install-secure: installs the recorder for programs with privileges (setuid, setgid, setcap).
#include <unistd.h>

#include <string>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/launch/recorder_library.h"
#include "analyzer/launch/secure_install.h"

namespace heapprof::cli {

int run_install_secure(const InstallSecureOptions& options) {
  const auto fail = [](const std::string& what) {
    print_message("install-secure: " + what);
    return 1;
  };
  if (geteuid() != 0) return fail("needs root: it writes to the directory of the system's libraries and to /etc");
  std::string recorder, done, error;
  if (!launch::find_recorder(recorder, error)) return fail(error);
  const bool good = options.remove ? launch::remove_trusted(recorder, done, error)
                                   : launch::install_trusted(recorder, options.directory, done, error);
  if (!good) {
    print_text(done);
    return fail(error);
  }
  if (options.remove) return print_text(done.empty() ? "nothing was installed\n" : done);
  return print_text(
      done +
      "\nNow  LD_PRELOAD=libheapprof.so PROGRAM  (the plain name) records setuid, setgid and setcap programs into\n" +
      options.directory + ". Every user of this machine can do so: undo it with  heapprof install-secure --remove\n");
}

}  // namespace heapprof::cli
