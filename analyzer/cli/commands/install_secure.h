// The command that sets up what recording privileged programs needs; see commands.h for the others, which it is like.
#pragma once

namespace CLI {
class App;
}

namespace heapprof::cli {

void add_install_secure(CLI::App& app, int& status);

}  // namespace heapprof::cli
